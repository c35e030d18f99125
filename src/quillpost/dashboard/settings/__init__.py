"""What people decide about themselves and their account: people, tokens, clients, apps."""

from quillpost.dashboard.settings import account, apps, audit, clients, profile, second_factors, team, tokens

ROUTERS = (
    profile.router,
    second_factors.router,
    account.router,
    team.router,
    tokens.router,
    clients.router,
    apps.router,
    audit.router,
)
