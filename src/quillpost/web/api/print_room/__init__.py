"""The API's print room."""
