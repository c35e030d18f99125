"""The OAuth authorization server."""
