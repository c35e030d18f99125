"""The composer: from a message to an order, with a preview."""

from quillpost.web.dashboard.compose import estimates, pages, previews, recipients

ROUTERS = (pages.router, previews.router, recipients.router, estimates.router)
