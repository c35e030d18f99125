"""The API's sub accounts."""
