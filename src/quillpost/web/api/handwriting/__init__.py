"""Handwriting styles and signatures."""
