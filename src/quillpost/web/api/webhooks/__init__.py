"""The API's webhooks."""
