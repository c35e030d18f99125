"""API settings: OAuth clients and connected apps."""

from collections.abc import Sequence
from datetime import datetime

from fastapi import APIRouter, Request, Response

from quillpost.accounts.oauth import apps as connected_apps
from quillpost.accounts.oauth import clients
from quillpost.accounts.oauth.apps import ConnectedApp
from quillpost.accounts.oauth.clients import ClientRegistration, OAuthClient
from quillpost.accounts.tokens.rules import SCOPE_LABELS, describe_scopes, sort_scopes
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.app.container import Container
from quillpost.core.database import Tx
from quillpost.core.errors import Invalid, NotFound, Refused
from quillpost.web import security
from quillpost.web.api.dependencies import parse_path_id
from quillpost.web.dashboard.forms import FormState
from quillpost.web.dashboard.responses import render_confirmation
from quillpost.web.dashboard.settings.pages import read_scopes, render_settings_page
from quillpost.web.dependencies import Services
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import redirect
from quillpost.web.security import use_one_time_key
from quillpost.web.sessions import ConfirmedOwner, CurrentOwner, CurrentUser

router = APIRouter(include_in_schema=False)

CLIENTS_PATH = "/settings/clients"
MAX_REDIRECT_URIS_LENGTH = 42_000
"""Of all redirect addresses together: as many as there may be, each as long as one may be."""
SECRET_SHOWN_ONCE = "The secret is not shown again: if you have not kept it, make a new one on the client's page."


@router.get(CLIENTS_PATH)
def clients_page(request: Request, user: CurrentOwner, container: Services) -> Response:
    with container.db.transaction(user.tenant) as tx:
        account_clients = clients.list_clients(tx, user.here.account_id)
    return render_settings_page(request, "settings/clients.html", user, container, clients=account_clients)


@router.get(f"{CLIENTS_PATH}/new")
def new_client_page(request: Request, user: ConfirmedOwner, container: Services) -> Response:
    return _render_form(request, user, container, FormState({"kind": ["confidential"], "limits": ["all"]}))


@router.post(f"{CLIENTS_PATH}/new")
def register_client(request: Request, user: ConfirmedOwner, form: PostedForm, container: Services) -> Response:
    """The page that answers is the only one that ever shows the secret."""
    try:
        with container.db.transaction(user.tenant) as tx:
            use_one_time_key(
                tx, user, form.text(security.ONE_TIME_FIELD), hint=SECRET_SHOWN_ONCE, result_path=CLIENTS_PATH
            )
            client, secret = clients.register_client(
                tx,
                user.here.account_id,
                _read_registration(form),
                is_public=_is_public(form),
                actor=user.actor,
                now=container.clock(),
            )
    except (Invalid, Refused) as error:
        return _render_form(request, user, container, FormState.from_error(form, error, default_field="name"))
    return _render_client_page(request, user, container, client, secret=secret, is_new=True)


@router.get(f"{CLIENTS_PATH}/{{client}}")
def client_page(request: Request, client: str, user: CurrentOwner, container: Services) -> Response:
    return _render_client_page(request, user, container, _find_client(user, container, client))


@router.get(f"{CLIENTS_PATH}/{{client}}/change")
def change_page(request: Request, client: str, user: ConfirmedOwner, container: Services) -> Response:
    oauth_client = _find_client(user, container, client)
    form_state = FormState(
        {
            "name": [oauth_client.name],
            "website": [oauth_client.website or ""],
            "redirect_uris": ["\n".join(oauth_client.redirect_uris)],
            "limits": ["all" if oauth_client.scopes is None else "some"],
            "scopes": sorted(oauth_client.scopes or ()),
        }
    )
    return _render_form(request, user, container, form_state, oauth_client)


@router.post(f"{CLIENTS_PATH}/{{client}}/change")
def change_client(
    request: Request, client: str, user: ConfirmedOwner, form: PostedForm, container: Services
) -> Response:
    oauth_client = _find_client(user, container, client)
    try:
        with container.db.transaction(user.tenant) as tx:
            clients.update_client(
                tx, user.here.account_id, oauth_client.id, _read_registration(form), user.actor, now=container.clock()
            )
    except Invalid as error:
        return _render_form(
            request, user, container, FormState.from_error(form, error, default_field="name"), oauth_client
        )
    return redirect(f"{CLIENTS_PATH}/{oauth_client.id}", flash="client_changed")


@router.get(f"{CLIENTS_PATH}/{{client}}/secret")
def secret_page(request: Request, client: str, user: ConfirmedOwner, container: Services) -> Response:
    oauth_client = _find_client(user, container, client)
    if oauth_client.is_public:  # which has none
        raise NotFound
    return render_confirmation(
        request,
        user,
        title=f"A new secret for “{oauth_client.name}”?",
        consequences=[
            f"The present secret, which ends in {oauth_client.secret_hint}, is worth nothing from then on.",
            "Until the client has the new one, it can connect nobody and refresh nothing.",
            "Apps that are connected stay so.",
        ],
        button_label="Make a new secret",
        back_url=f"{CLIENTS_PATH}/{oauth_client.id}",
        has_one_time_key=True,
    )


@router.post(f"{CLIENTS_PATH}/{{client}}/secret")
def rotate_secret(
    request: Request, client: str, user: ConfirmedOwner, form: PostedForm, container: Services
) -> Response:
    with container.db.transaction(user.tenant) as tx:
        number = parse_path_id(client)
        use_one_time_key(
            tx, user, form.text(security.ONE_TIME_FIELD), hint=SECRET_SHOWN_ONCE, result_path=f"{CLIENTS_PATH}/{number}"
        )
        secret = clients.rotate_client_secret(tx, user.here.account_id, number, user.actor, now=container.clock())
        oauth_client = clients.find_client(tx, user.here.account_id, number)
    return _render_client_page(request, user, container, oauth_client, secret=secret)


@router.get(f"{CLIENTS_PATH}/{{client}}/delete")
def delete_page(request: Request, client: str, user: CurrentOwner, container: Services) -> Response:
    oauth_client = _find_client(user, container, client)
    return render_confirmation(
        request,
        user,
        title=f"Delete “{oauth_client.name}”?",
        consequences=[
            _connections_warning(_count_connections(container, oauth_client)),
            "Its id and its secret are worth nothing from then on. This cannot be taken back.",
        ],
        button_label="Delete it",
        back_url=f"{CLIENTS_PATH}/{oauth_client.id}",
    )


@router.post(f"{CLIENTS_PATH}/{{client}}/delete")
def delete_client(client: str, user: CurrentOwner, _form: PostedForm, container: Services) -> Response:
    with container.db.system_transaction() as tx:
        clients.delete_client(tx, user.here.account_id, parse_path_id(client), user.actor, now=container.clock())
    return redirect(CLIENTS_PATH, flash="client_deleted")


def _find_client(user: SignedInUser, container: Container, client: str) -> OAuthClient:
    with container.db.transaction(user.tenant) as tx:
        return clients.find_client(tx, user.here.account_id, parse_path_id(client))


def _count_connections(container: Container, client: OAuthClient) -> int:
    """In all accounts: how many, and nothing else of them."""
    with container.db.system_transaction() as tx:
        return clients.count_connections(tx, client.id, now=container.clock())


def _connections_warning(connections: int) -> str:
    if connections == 0:
        return "Nobody has connected it: nothing ends with it."
    if connections == 1:
        return "One account has connected it: that connection ends at once."
    return f"{connections:,} connections to accounts end at once, all of them."


def _render_client_page(
    request: Request,
    user: SignedInUser,
    container: Container,
    client: OAuthClient,
    *,
    secret: str | None = None,
    is_new: bool = False,
) -> Response:
    return render_settings_page(
        request,
        "settings/client.html",
        user,
        container,
        client=client,
        connection_count=_count_connections(container, client),
        scope_labels=None
        if client.scopes is None
        else {scope: SCOPE_LABELS[scope] for scope in sort_scopes(client.scopes)},
        secret=secret,
        is_new=is_new,
        base_url=container.base_url,
    )


def _render_form(
    request: Request, user: SignedInUser, container: Container, form: FormState, client: OAuthClient | None = None
) -> Response:
    return render_settings_page(
        request, "settings/client_form.html", user, container, form=form, client=client, scope_labels=SCOPE_LABELS
    )


def _read_registration(form: Form) -> ClientRegistration:
    return ClientRegistration(
        name=form.text("name"),
        redirect_uris=_split_lines(form.text("redirect_uris", max_length=MAX_REDIRECT_URIS_LENGTH)),
        website=form.text("website", max_length=2_000) or None,
        scopes=read_scopes(form),
    )


def _split_lines(text: str) -> Sequence[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _is_public(form: Form) -> bool:
    kind = form.text("kind")
    if kind not in ("confidential", "public"):
        raise Invalid({"kind": ["Choose whether the client can keep a secret."]})
    return kind == "public"


APPS_PATH = "/settings/apps"


@router.get(APPS_PATH)
def apps_page(request: Request, user: CurrentUser, container: Services) -> Response:
    with container.db.transaction(user.tenant) as tx:
        apps = _visible_apps(tx, user, now=container.clock())
    return render_settings_page(
        request, "settings/apps.html", user, container, apps=apps, describe_scopes=describe_scopes
    )


@router.get(f"{APPS_PATH}/{{grant_id}}/disconnect")
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
        back_url=APPS_PATH,
    )


@router.post(f"{APPS_PATH}/{{grant_id}}/disconnect")
def disconnect_app(grant_id: str, user: CurrentUser, _form: PostedForm, container: Services) -> Response:
    with container.db.transaction(user.tenant) as tx:
        app = _find_app(tx, user, grant_id, now=container.clock())
        connected_apps.disconnect_app(tx, user.here.account_id, app.newest.grant_id, user.actor, now=container.clock())
    return redirect(APPS_PATH, flash="app_disconnected")


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
