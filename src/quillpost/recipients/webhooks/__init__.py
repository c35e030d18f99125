"""Recipients that other services push into a list."""
