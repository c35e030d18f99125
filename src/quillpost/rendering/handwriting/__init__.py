"""Handwriting: the styles, their letters in several takes, and the plain face beside them."""
