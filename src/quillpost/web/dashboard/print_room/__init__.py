"""The print room, for those who run the service."""

from quillpost.web.dashboard.print_room import accounts, actions, orders, pages
from quillpost.web.dashboard.print_room.batches import pages as batch_pages

ROUTERS = (pages.router, batch_pages.router, actions.router, orders.router, accounts.router)
