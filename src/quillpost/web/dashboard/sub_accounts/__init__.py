"""Sub accounts and their branding."""

from quillpost.web.dashboard.sub_accounts import pages

ROUTERS = (pages.router,)
