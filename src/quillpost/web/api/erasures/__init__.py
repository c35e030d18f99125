"""The API's erasures."""
