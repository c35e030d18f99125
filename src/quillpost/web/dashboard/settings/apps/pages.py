"""API settings: OAuth clients and connected apps."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Response

from quillpost.accounts.oauth import clients
from quillpost.accounts.oauth import service as oauth_service
from quillpost.accounts.oauth.clients import ClientRegistration, OAuthClient
from quillpost.accounts.oauth.service import ConnectedApp
from quillpost.accounts.tokens.rules import SCOPE_LABELS, describe_scopes, sort_scopes
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.app.container import Container
from quillpost.core.database import Tx
from quillpost.core.errors import Invalid, NotFound, Refused
from quillpost.web.dashboard.forms import FormState
from quillpost.web.dashboard.responses import ConfirmedOwnerContext, OwnerContext, PathId, RequestContext, UserContext
from quillpost.web.dashboard.settings.pages import read_scopes
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import redirect
from quillpost.web.security import use_one_time_key

router = APIRouter(include_in_schema=False)

CLIENTS_PATH = "/settings/clients"
ClientId = Annotated[PathId, Path(alias="client")]
MAX_REDIRECT_URIS_LENGTH = 42_000
SECRET_SHOWN_ONCE = "The secret is not shown again: if you have not kept it, make a new one on the client's page."


@router.get(CLIENTS_PATH)
def clients_page(context: OwnerContext) -> Response:
    with context.account_transaction() as tx:
        account_clients = clients.list_clients(tx, context.account_id)
    return context.render("settings/clients.html", clients=account_clients)


@router.get(f"{CLIENTS_PATH}/new")
def new_client_page(context: ConfirmedOwnerContext) -> Response:
    return _render_form(context, FormState({"kind": ["confidential"], "limits": ["all"]}))


@router.post(f"{CLIENTS_PATH}/new")
def register_client(context: ConfirmedOwnerContext, form: PostedForm) -> Response:
    """Only this response ever shows the secret."""
    try:
        with context.account_transaction() as tx:
            use_one_time_key(tx, context.user, form.one_time_key, hint=SECRET_SHOWN_ONCE, result_path=CLIENTS_PATH)
            client, secret = clients.register_client(
                tx,
                context.account_id,
                _read_registration(form),
                is_public=_is_public(form),
                actor=context.user.actor,
                now=context.now(),
            )
    except (Invalid, Refused) as error:
        return _render_form(context, FormState.from_error(form, error, default_field="name"))
    return _render_client_page(context, client, secret=secret, is_new=True)


@router.get(f"{CLIENTS_PATH}/{{client}}")
def client_page(context: OwnerContext, client_id: ClientId) -> Response:
    return _render_client_page(context, _find_client(context, client_id))


@router.get(f"{CLIENTS_PATH}/{{client}}/change")
def change_page(context: ConfirmedOwnerContext, client_id: ClientId) -> Response:
    client = _find_client(context, client_id)
    form_state = FormState(
        {
            "name": [client.name],
            "website": [client.website or ""],
            "redirect_uris": ["\n".join(client.redirect_uris)],
            "limits": ["all" if client.scopes is None else "some"],
            "scopes": sorted(client.scopes or ()),
        }
    )
    return _render_form(context, form_state, client)


@router.post(f"{CLIENTS_PATH}/{{client}}/change")
def change_client(context: ConfirmedOwnerContext, client_id: ClientId, form: PostedForm) -> Response:
    client = _find_client(context, client_id)
    try:
        with context.account_transaction() as tx:
            clients.update_client(
                tx, context.account_id, client.id, _read_registration(form), context.user.actor, now=context.now()
            )
    except Invalid as error:
        return _render_form(context, FormState.from_error(form, error, default_field="name"), client)
    return redirect(f"{CLIENTS_PATH}/{client.id}", flash="client_changed")


@router.get(f"{CLIENTS_PATH}/{{client}}/secret")
def secret_page(context: ConfirmedOwnerContext, client_id: ClientId) -> Response:
    client = _find_client(context, client_id)
    if client.is_public:  # which has none
        raise NotFound
    return context.confirm(
        title=f"A new secret for “{client.name}”?",
        consequences=[
            f"The present secret, which ends in {client.secret_hint}, is worth nothing from then on.",
            "Until the client has the new one, it can connect nobody and refresh nothing.",
            "Apps that are connected stay so.",
        ],
        button_label="Make a new secret",
        back_url=f"{CLIENTS_PATH}/{client.id}",
        has_one_time_key=True,
    )


@router.post(f"{CLIENTS_PATH}/{{client}}/secret")
def rotate_secret(context: ConfirmedOwnerContext, client_id: ClientId, form: PostedForm) -> Response:
    with context.account_transaction() as tx:
        use_one_time_key(
            tx, context.user, form.one_time_key, hint=SECRET_SHOWN_ONCE, result_path=f"{CLIENTS_PATH}/{client_id}"
        )
        secret = clients.rotate_client_secret(tx, context.account_id, client_id, context.user.actor, now=context.now())
        client = clients.find_client(tx, context.account_id, client_id)
    return _render_client_page(context, client, secret=secret)


@router.get(f"{CLIENTS_PATH}/{{client}}/delete")
def delete_page(context: OwnerContext, client_id: ClientId) -> Response:
    client = _find_client(context, client_id)
    return context.confirm(
        title=f"Delete “{client.name}”?",
        consequences=[
            _connections_warning(_count_connections(context.container, client)),
            "Its id and its secret are worth nothing from then on. This cannot be taken back.",
        ],
        button_label="Delete it",
        back_url=f"{CLIENTS_PATH}/{client.id}",
    )


@router.post(f"{CLIENTS_PATH}/{{client}}/delete")
def delete_client(context: OwnerContext, client_id: ClientId, _form: PostedForm) -> Response:
    with context.system_transaction() as tx:
        clients.delete_client(tx, context.account_id, client_id, context.user.actor, now=context.now())
    return redirect(CLIENTS_PATH, flash="client_deleted")


def _find_client(context: RequestContext, client_id: int) -> OAuthClient:
    with context.account_transaction() as tx:
        return clients.find_client(tx, context.account_id, client_id)


def _count_connections(container: Container, client: OAuthClient) -> int:
    """In all accounts."""
    with container.db.system_transaction() as tx:
        return clients.count_connections(tx, client.id, now=container.clock())


def _connections_warning(connections: int) -> str:
    if connections == 0:
        return "Nobody has connected it: nothing ends with it."
    if connections == 1:
        return "One account has connected it: that connection ends at once."
    return f"{connections:,} connections to accounts end at once, all of them."


def _render_client_page(
    context: RequestContext, client: OAuthClient, *, secret: str | None = None, is_new: bool = False
) -> Response:
    return context.render(
        "settings/client.html",
        client=client,
        connection_count=_count_connections(context.container, client),
        scope_labels=None
        if client.scopes is None
        else {scope: SCOPE_LABELS[scope] for scope in sort_scopes(client.scopes)},
        secret=secret,
        is_new=is_new,
        base_url=context.container.base_url,
    )


def _render_form(context: RequestContext, form: FormState, client: OAuthClient | None = None) -> Response:
    return context.render("settings/client_form.html", form=form, client=client, scope_labels=SCOPE_LABELS)


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
def apps_page(context: UserContext) -> Response:
    with context.account_transaction() as tx:
        apps = _visible_apps(tx, context.user, now=context.now())
    return context.render("settings/apps.html", apps=apps, describe_scopes=describe_scopes)


@router.get(f"{APPS_PATH}/{{grant_id}}/disconnect")
def disconnect_page(context: UserContext, grant_id: PathId) -> Response:
    with context.account_transaction() as tx:
        app = _find_app(tx, context.user, grant_id, now=context.now())
    return context.confirm(
        title=f"Disconnect “{app.newest.client_name}”?",
        consequences=[
            _disconnect_warning(app, context.user),
            f"{_connected_by(app, context.user)} can connect it again, by way of the app itself.",
        ],
        button_label="Disconnect it",
        back_url=APPS_PATH,
    )


@router.post(f"{APPS_PATH}/{{grant_id}}/disconnect")
def disconnect_app(context: UserContext, grant_id: PathId, _form: PostedForm) -> Response:
    with context.account_transaction() as tx:
        app = _find_app(tx, context.user, grant_id, now=context.now())
        oauth_service.disconnect_app(tx, context.account_id, app.newest.grant_id, context.user.actor, now=context.now())
    return redirect(APPS_PATH, flash="app_disconnected")


def _visible_apps(tx: Tx, user: SignedInUser, *, now: datetime) -> list[ConnectedApp]:
    apps = oauth_service.list_connected_apps(tx, user.here.account_id, now=now)
    return [app for app in apps if user.is_owner or app.newest.person_id == user.person_id]


def _find_app(tx: Tx, user: SignedInUser, grant_id: int, *, now: datetime) -> ConnectedApp:
    for app in _visible_apps(tx, user, now=now):
        if any(each.grant_id == grant_id for each in app.connections):
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
