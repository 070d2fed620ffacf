"""Source `pcm`: Intel's pcm-sensor-server over HTTP, of this host or of another.

It is only read from: requests are GETs of the few paths in `client`.
"""
