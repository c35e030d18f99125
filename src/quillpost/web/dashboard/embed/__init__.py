"""The composer within another product's page, and which sites may have it there."""

from quillpost.web.dashboard.embed import pages

ROUTERS = (pages.frame_router, pages.router)
