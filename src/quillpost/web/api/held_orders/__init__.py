"""Orders that are held, for operators."""
