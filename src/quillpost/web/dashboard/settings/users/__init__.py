"""The users of an account."""
