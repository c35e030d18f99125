"""API settings: connected apps. Owners see them all, and others those that they connected themselves. An app
is found by any of its connections."""

from datetime import datetime

from fastapi import APIRouter, Request, Response

from quillpost.accounts.oauth import apps as connected_apps
from quillpost.accounts.oauth import apps as connections
from quillpost.accounts.oauth.apps import ConnectedApp
from quillpost.accounts.tokens.rules import in_words
from quillpost.accounts.users.sessions import SignedIn
from quillpost.core.database import Tx
from quillpost.core.errors import NotFound
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.dashboard.forms import are_you_sure
from quillpost.web.dashboard.settings.pages import settings_page
from quillpost.web.forms import PostedForm
from quillpost.web.rendering import go
from quillpost.web.sessions import OurParts, Reader

router = APIRouter(include_in_schema=False)

PAGE = "/settings/apps"


@router.get(PAGE)
def list_page(request: Request, who: Reader, parts: OurParts) -> Response:
    with parts.db.transaction(who.tenant) as tx:
        apps = _seen_by(tx, who, now=parts.clock())
    return settings_page(request, "settings/apps.html", who, parts, apps=apps, in_words=in_words)


@router.get(f"{PAGE}/{{grant_id}}/disconnect")
def disconnect_page(request: Request, grant_id: str, who: Reader, parts: OurParts) -> Response:
    with parts.db.transaction(who.tenant) as tx:
        app = _find(tx, who, grant_id, now=parts.clock())
    return are_you_sure(
        request,
        who,
        title=f"Disconnect “{app.newest.client_name}”?",
        means=[
            _what_ends(app, who),
            f"{_whose(app, who)} can connect it again, by way of the app itself.",
        ],
        button="Disconnect it",
        back=PAGE,
    )


@router.post(f"{PAGE}/{{grant_id}}/disconnect")
def disconnect(grant_id: str, who: Reader, _form: PostedForm, parts: OurParts) -> Response:
    with parts.db.transaction(who.tenant) as tx:
        app = _find(tx, who, grant_id, now=parts.clock())
        connections.disconnect(tx, who.here.account_id, app.newest.grant_id, who.actor, now=parts.clock())
    return go(PAGE, said="app_disconnected")


def _seen_by(tx: Tx, who: SignedIn, *, now: datetime) -> list[ConnectedApp]:
    apps = connected_apps.list_apps(tx, who.here.account_id, now=now)
    return [app for app in apps if who.is_owner or app.newest.person_id == who.person_id]


def _find(tx: Tx, who: SignedIn, grant_id: str, *, now: datetime) -> ConnectedApp:
    number = id_in_path(grant_id)
    for app in _seen_by(tx, who, now=now):
        if any(each.grant_id == number for each in app.connections):
            return app
    raise NotFound


def _what_ends(app: ConnectedApp, who: SignedIn) -> str:
    it, here, times = app.newest, who.here.account_name, len(app.connections)
    place = here if it.sub_account_title is None else f"{it.sub_account_title} of {here}"
    often = "" if times == 1 else f", on none of the {times} devices or places from which it was let in"
    return f"From the next call on it can do nothing more for {place} in {it.mode} mode{often}."


def _whose(app: ConnectedApp, who: SignedIn) -> str:
    return "You" if app.newest.person_id == who.person_id else app.newest.person
