"""The API's radius."""
