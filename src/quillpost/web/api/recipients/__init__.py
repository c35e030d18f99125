"""The API's recipients."""
