"""Batches and their files."""
