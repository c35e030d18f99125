"""Orders and their pieces: all that was sent, where it is, and what can still be done about it."""

from quillpost.web.dashboard.orders import actions, items, maps, pages

ROUTERS = (pages.router, items.router, maps.router, actions.router)
