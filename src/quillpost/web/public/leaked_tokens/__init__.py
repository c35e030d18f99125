"""Reports of leaked tokens."""
