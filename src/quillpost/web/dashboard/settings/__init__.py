"""Settings of a user and of an account: profile, users, tokens, apps."""

from quillpost.web.dashboard.settings import pages
from quillpost.web.dashboard.settings.apps import pages as app_pages
from quillpost.web.dashboard.settings.profile import pages as profile_pages
from quillpost.web.dashboard.settings.users import pages as user_pages

ROUTERS = (profile_pages.router, pages.router, user_pages.router, app_pages.router)
