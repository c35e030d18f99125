"""The API's mailing lists."""
