"""The API's order items."""
