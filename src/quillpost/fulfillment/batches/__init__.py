"""Batches of items: created, composed, handed to a print partner."""
