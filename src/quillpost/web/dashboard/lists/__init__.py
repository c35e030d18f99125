"""Mailing lists, their recipients, and suppression."""

from quillpost.web.dashboard.lists import imports, pages, radius, recipients, settings

# A list's own pages last: the others' paths would be taken for a list's number.
ROUTERS = (radius.router, imports.router, recipients.router, settings.router, pages.router)
