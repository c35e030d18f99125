"""Apps and tokens."""
