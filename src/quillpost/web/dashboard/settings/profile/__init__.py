"""The profile of a user."""
