"""The API's imports."""
