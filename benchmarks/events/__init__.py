"""Telling what happened: events fanned out and delivered, codes scanned."""
