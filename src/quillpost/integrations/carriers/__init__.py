"""Carriers' feeds."""
