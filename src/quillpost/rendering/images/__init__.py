"""Uploaded pictures and PDFs, checked and made printable."""
