"""The print room, for those who run the service."""

from quillpost.web.dashboard.print_room import accounts, actions, batches, failures, orders, pages

ROUTERS = (pages.router, batches.router, actions.router, orders.router, failures.router, accounts.router)
