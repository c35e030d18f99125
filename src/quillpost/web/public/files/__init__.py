"""Files that a link opens."""
