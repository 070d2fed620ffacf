"""Terminal interface: Textual widgets that show the lines of `render`."""
