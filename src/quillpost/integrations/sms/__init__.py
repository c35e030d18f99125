"""Text message services."""
