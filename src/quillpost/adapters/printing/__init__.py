"""Printers."""
