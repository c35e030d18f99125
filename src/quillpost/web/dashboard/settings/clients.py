"""API settings: OAuth clients."""

from collections.abc import Sequence

from fastapi import APIRouter, Request, Response

from quillpost.accounts.oauth import clients
from quillpost.accounts.oauth.clients import ClientRegistration, OAuthClient
from quillpost.accounts.tokens.rules import SCOPE_LABELS, sort_scopes
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.app.container import Container
from quillpost.core.errors import Invalid, NotFound, Refused
from quillpost.web import csrf
from quillpost.web.api.dependencies import parse_path_id
from quillpost.web.csrf import use_one_time_key
from quillpost.web.dashboard.forms import FormState, render_confirmation
from quillpost.web.dashboard.settings.pages import read_scopes, render_settings_page
from quillpost.web.dependencies import Services
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import redirect
from quillpost.web.sessions import ConfirmedOwner, CurrentOwner

router = APIRouter(include_in_schema=False)

PAGE_PATH = "/settings/clients"
MAX_REDIRECT_URIS_LENGTH = 42_000
"""Of all redirect addresses together: as many as there may be, each as long as one may be."""
SECRET_SHOWN_ONCE = "The secret is not shown again: if you have not kept it, make a new one on the client's page."


@router.get(PAGE_PATH)
def clients_page(request: Request, user: CurrentOwner, container: Services) -> Response:
    with container.db.transaction(user.tenant) as tx:
        account_clients = clients.list_clients(tx, user.here.account_id)
    return render_settings_page(request, "settings/clients.html", user, container, clients=account_clients)


@router.get(f"{PAGE_PATH}/new")
def new_client_page(request: Request, user: ConfirmedOwner, container: Services) -> Response:
    return _render_form(request, user, container, FormState({"kind": ["confidential"], "limits": ["all"]}))


@router.post(f"{PAGE_PATH}/new")
def register_client(request: Request, user: ConfirmedOwner, form: PostedForm, container: Services) -> Response:
    """The page that answers is the only one that ever shows the secret."""
    try:
        with container.db.transaction(user.tenant) as tx:
            use_one_time_key(tx, user, form.text(csrf.ONE_TIME_FIELD), hint=SECRET_SHOWN_ONCE, result_path=PAGE_PATH)
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


@router.get(f"{PAGE_PATH}/{{client}}")
def client_page(request: Request, client: str, user: CurrentOwner, container: Services) -> Response:
    return _render_client_page(request, user, container, _find_client(user, container, client))


@router.get(f"{PAGE_PATH}/{{client}}/change")
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


@router.post(f"{PAGE_PATH}/{{client}}/change")
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
    return redirect(f"{PAGE_PATH}/{oauth_client.id}", flash="client_changed")


@router.get(f"{PAGE_PATH}/{{client}}/secret")
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
        back_url=f"{PAGE_PATH}/{oauth_client.id}",
        has_one_time_key=True,
    )


@router.post(f"{PAGE_PATH}/{{client}}/secret")
def rotate_secret(
    request: Request, client: str, user: ConfirmedOwner, form: PostedForm, container: Services
) -> Response:
    with container.db.transaction(user.tenant) as tx:
        number = parse_path_id(client)
        use_one_time_key(
            tx, user, form.text(csrf.ONE_TIME_FIELD), hint=SECRET_SHOWN_ONCE, result_path=f"{PAGE_PATH}/{number}"
        )
        secret = clients.rotate_client_secret(tx, user.here.account_id, number, user.actor, now=container.clock())
        oauth_client = clients.find_client(tx, user.here.account_id, number)
    return _render_client_page(request, user, container, oauth_client, secret=secret)


@router.get(f"{PAGE_PATH}/{{client}}/delete")
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
        back_url=f"{PAGE_PATH}/{oauth_client.id}",
    )


@router.post(f"{PAGE_PATH}/{{client}}/delete")
def delete_client(client: str, user: CurrentOwner, _form: PostedForm, container: Services) -> Response:
    with container.db.system_transaction() as tx:
        clients.delete_client(tx, user.here.account_id, parse_path_id(client), user.actor, now=container.clock())
    return redirect(PAGE_PATH, flash="client_deleted")


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
