"""Measures how human and how legible the handwriting styles are: `.venv/bin/python -m tools.handwriting`."""
