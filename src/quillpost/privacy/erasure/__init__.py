"""Erases a person who asks for it from all that an account keeps."""
