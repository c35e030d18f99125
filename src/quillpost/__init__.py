"""Quillpost: a self-hosted direct-mail service."""

__version__ = "0.1.0"
