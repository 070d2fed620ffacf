"""Reports of an interval of a recording."""
