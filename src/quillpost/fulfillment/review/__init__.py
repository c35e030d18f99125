"""The review of orders before they are processed."""
