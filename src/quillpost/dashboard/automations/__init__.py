"""Automations: mail that starts by itself."""

from quillpost.dashboard.automations import listing, making, one, switching

ROUTERS = (listing.router, making.router, switching.router, one.router)
