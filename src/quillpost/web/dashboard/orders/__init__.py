"""Orders and their items."""

from quillpost.web.dashboard.orders import actions, items, maps, pages

ROUTERS = (pages.router, items.router, maps.router, actions.router)
