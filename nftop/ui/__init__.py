"""The terminal interface: Textual widgets over the lines `render` makes."""
