"""The first page: what happened, what needs attention, and what to do first."""

from quillpost.web.dashboard.home import pages

ROUTERS = (pages.router,)
