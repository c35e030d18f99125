"""Sub accounts, and how their pieces look."""

from quillpost.web.dashboard.sub_accounts import pages

ROUTERS = (pages.router,)
