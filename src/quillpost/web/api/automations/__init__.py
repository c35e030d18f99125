"""The API's automations."""
