"""The API's image templates."""
