"""Frames for other programs: JSON Lines, CSV, and the batch output that writes them."""
