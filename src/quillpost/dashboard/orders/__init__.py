"""Orders and their pieces: all that was sent, where it is, and what can still be done about it."""

from quillpost.dashboard.orders import again, cards, listing, looks, map_page, order_page, pieces, stopping

ROUTERS = (
    listing.router,
    order_page.router,
    looks.router,
    map_page.router,
    stopping.router,
    again.router,
    pieces.router,
    cards.router,
)
