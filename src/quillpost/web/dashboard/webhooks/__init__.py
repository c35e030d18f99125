"""Webhooks: who is told, what they answered, and a try by hand."""

from quillpost.web.dashboard.webhooks import deliveries, pages

ROUTERS = (pages.router, deliveries.router)
