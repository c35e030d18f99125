"""The file: a compact PDF writer, its fonts, what a press asks of it, and pictures of its pages."""
