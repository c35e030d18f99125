"""API settings: connected apps. Owners see them all, and others those that they connected themselves. An app
is found by any of its connections."""

from datetime import datetime

from fastapi import APIRouter, Request, Response

from quillpost.accounts.oauth import apps as connected_apps
from quillpost.accounts.oauth.apps import ConnectedApp
from quillpost.accounts.tokens.rules import describe_scopes
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.core.database import Tx
from quillpost.core.errors import NotFound
from quillpost.web.api.dependencies import parse_path_id
from quillpost.web.dashboard.forms import render_confirmation
from quillpost.web.dashboard.settings.pages import render_settings_page
from quillpost.web.dependencies import Services
from quillpost.web.forms import PostedForm
from quillpost.web.rendering import redirect
from quillpost.web.sessions import CurrentUser

router = APIRouter(include_in_schema=False)

PAGE_PATH = "/settings/apps"


@router.get(PAGE_PATH)
def apps_page(request: Request, user: CurrentUser, container: Services) -> Response:
    with container.db.transaction(user.tenant) as tx:
        apps = _visible_apps(tx, user, now=container.clock())
    return render_settings_page(
        request, "settings/apps.html", user, container, apps=apps, describe_scopes=describe_scopes
    )


@router.get(f"{PAGE_PATH}/{{grant_id}}/disconnect")
def disconnect_page(request: Request, grant_id: str, user: CurrentUser, container: Services) -> Response:
    with container.db.transaction(user.tenant) as tx:
        app = _find_app(tx, user, grant_id, now=container.clock())
    return render_confirmation(
        request,
        user,
        title=f"Disconnect “{app.newest.client_name}”?",
        consequences=[
            _disconnect_warning(app, user),
            f"{_connected_by(app, user)} can connect it again, by way of the app itself.",
        ],
        button_label="Disconnect it",
        back_url=PAGE_PATH,
    )


@router.post(f"{PAGE_PATH}/{{grant_id}}/disconnect")
def disconnect_app(grant_id: str, user: CurrentUser, _form: PostedForm, container: Services) -> Response:
    with container.db.transaction(user.tenant) as tx:
        app = _find_app(tx, user, grant_id, now=container.clock())
        connected_apps.disconnect_app(tx, user.here.account_id, app.newest.grant_id, user.actor, now=container.clock())
    return redirect(PAGE_PATH, flash="app_disconnected")


def _visible_apps(tx: Tx, user: SignedInUser, *, now: datetime) -> list[ConnectedApp]:
    apps = connected_apps.list_connected_apps(tx, user.here.account_id, now=now)
    return [app for app in apps if user.is_owner or app.newest.person_id == user.person_id]


def _find_app(tx: Tx, user: SignedInUser, grant_id: str, *, now: datetime) -> ConnectedApp:
    number = parse_path_id(grant_id)
    for app in _visible_apps(tx, user, now=now):
        if any(each.grant_id == number for each in app.connections):
            return app
    raise NotFound


def _disconnect_warning(app: ConnectedApp, user: SignedInUser) -> str:
    connection, account_name, connection_count = app.newest, user.here.account_name, len(app.connections)
    account_label = (
        account_name if connection.sub_account_title is None else f"{connection.sub_account_title} of {account_name}"
    )
    devices_note = (
        ""
        if connection_count == 1
        else f", on none of the {connection_count} devices or places from which it was let in"
    )
    return f"From the next call on it can do nothing more for {account_label} in {connection.mode} mode{devices_note}."


def _connected_by(app: ConnectedApp, user: SignedInUser) -> str:
    return "You" if app.newest.person_id == user.person_id else app.newest.person
