"""Saved messages and images."""

from quillpost.web.dashboard.templates import handwriting, pages, previews

# Paths with a word before those with an id: "new" is none.
ROUTERS = (previews.router, handwriting.router, pages.router)
