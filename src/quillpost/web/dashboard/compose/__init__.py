"""The composer: from a message to an order, with the true picture of it all the while."""

from quillpost.web.dashboard.compose import estimates, pages, previews, recipients

ROUTERS = (pages.router, previews.router, recipients.router, estimates.router)
