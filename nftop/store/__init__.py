"""Storage of samples: in memory for the screens, on disk as recordings."""
