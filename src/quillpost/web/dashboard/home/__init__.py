"""The home page: what happened, what needs attention, and first steps."""

from quillpost.web.dashboard.home import pages

ROUTERS = (pages.router,)
