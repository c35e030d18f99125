"""Webhooks, their delivery logs, and tests."""

from quillpost.web.dashboard.webhooks import deliveries, pages

ROUTERS = (pages.router, deliveries.router)
