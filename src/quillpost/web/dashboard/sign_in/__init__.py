"""Coming in and going out: signing in, joining, a forgotten password, and the session itself."""

from quillpost.web.dashboard.sign_in import invitations, pages

ROUTERS = (pages.router, invitations.router)
