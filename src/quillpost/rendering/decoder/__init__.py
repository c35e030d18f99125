"""Sandboxed processes that open untrusted files."""
