"""The API's send."""
