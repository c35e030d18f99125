"""Saved image and message templates."""
