"""Webhooks of others."""
