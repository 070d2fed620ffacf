"""Source `pcm`: Intel's pcm-sensor-server over HTTP, of this host or another; GET requests only."""
