"""Settings of a user and of an account: profile, users, tokens, apps."""

from quillpost.web.dashboard.settings import apps, pages, profile, users

ROUTERS = (profile.router, pages.router, users.router, apps.router)
