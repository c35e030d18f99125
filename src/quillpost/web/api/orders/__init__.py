"""The API's orders."""
