"""The API's handwriting styles."""
