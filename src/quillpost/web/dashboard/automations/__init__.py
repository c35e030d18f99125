"""Automations: mail that starts by itself."""

from quillpost.web.dashboard.automations import pages

ROUTERS = (pages.router,)
