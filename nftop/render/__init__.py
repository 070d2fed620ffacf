"""Frames as text: pure functions from what is known to what is drawn. No terminal, no widgets."""
