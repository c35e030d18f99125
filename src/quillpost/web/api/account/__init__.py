"""The API's account."""
