"""The composer: from a message to an order, with the true picture of it all the while."""

from quillpost.web.dashboard.compose import estimates, fragments, orders, pages, previews

ROUTERS = (pages.router, previews.router, fragments.router, estimates.router, orders.router)
