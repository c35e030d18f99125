"""What people decide about themselves and their account: people, tokens, clients, apps."""

from quillpost.web.dashboard.settings import apps, clients, pages, profile, second_factor, tokens, users

ROUTERS = (profile.router, second_factor.router, pages.router, users.router, tokens.router, clients.router, apps.router)
