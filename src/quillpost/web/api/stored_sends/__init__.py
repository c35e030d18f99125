"""Stored sends."""
