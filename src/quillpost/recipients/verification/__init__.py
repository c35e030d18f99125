"""Addresses checked by an outside verifier."""
