"""Handwriting styles, their glyphs in several takes, and the plain face beside them."""
