"""Money: the ledger, the prices, the credit."""

from quillpost.web.dashboard.billing import pages

ROUTERS = (pages.router,)
