"""Mailing lists, recipients, suppression, addresses and leads."""
