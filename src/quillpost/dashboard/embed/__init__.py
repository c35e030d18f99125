"""The composer within another product's page, and which sites may have it there."""

from quillpost.dashboard.embed import frame, sites

ROUTERS = (sites.router, frame.router)
