"""Alembic's environment and the frozen revisions."""
