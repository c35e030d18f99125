"""The API's message templates."""
