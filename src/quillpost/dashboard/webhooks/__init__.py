"""Webhooks: who is told, what they answered, and a try by hand."""

from quillpost.dashboard.webhooks import deliveries, listing, making, resting, trying

ROUTERS = (listing.router, making.router, resting.router, trying.router, deliveries.router)
