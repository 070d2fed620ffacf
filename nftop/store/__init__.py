"""What is kept of frames: in memory for the screens, on disk for later."""
