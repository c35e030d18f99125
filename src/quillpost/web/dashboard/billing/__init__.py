"""Balance, ledger and prices."""

from quillpost.web.dashboard.billing import pages

ROUTERS = (pages.router,)
