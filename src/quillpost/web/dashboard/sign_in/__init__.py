"""Signing in and out, invitations, and forgotten passwords."""

from quillpost.web.dashboard.sign_in import invitations, pages

ROUTERS = (pages.router, invitations.router)
