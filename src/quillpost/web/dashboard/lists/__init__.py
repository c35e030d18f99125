"""Mailing lists, their recipients, and suppression."""

from quillpost.web.dashboard.lists import imports, pages, recipients, settings

# A list's own pages last: the others' paths would be taken for a list's number.
ROUTERS = (recipients.router, imports.router, settings.router, pages.router)
