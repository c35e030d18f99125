"""Mailing lists."""
