"""The print room, for those who run the service."""

from quillpost.web.dashboard.print_room import accounts, actions, batches, orders, pages

ROUTERS = (pages.router, batches.router, actions.router, orders.router, accounts.router)
