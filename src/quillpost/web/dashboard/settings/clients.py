"""API settings: OAuth clients."""

from collections.abc import Sequence

from fastapi import APIRouter, Request, Response

from quillpost.accounts.oauth import clients
from quillpost.accounts.oauth.clients import Client, Registration
from quillpost.accounts.tokens.rules import WORDS, in_order
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.errors import Invalid, NotFound, Refused
from quillpost.web import csrf
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.csrf import do_once
from quillpost.web.dashboard.forms import Filled, are_you_sure
from quillpost.web.dashboard.settings.pages import chosen_scopes, settings_page
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import go
from quillpost.web.sessions import ConfirmedOwner, OurParts, Owner

router = APIRouter(include_in_schema=False)

PAGE = "/settings/clients"
MOST_LETTERS = 42_000
"""Of all redirect addresses together: as many as there may be, each as long as one may be."""
LOST = "The secret is not shown again: if you have not kept it, make a new one on the client's page."


@router.get(PAGE)
def list_page(request: Request, who: Owner, parts: OurParts) -> Response:
    with parts.db.transaction(who.tenant) as tx:
        found = clients.list_clients(tx, who.here.account_id)
    return settings_page(request, "settings/clients.html", who, parts, clients=found)


@router.get(f"{PAGE}/new")
def new_page(request: Request, who: ConfirmedOwner, parts: OurParts) -> Response:
    return _form_page(request, who, parts, Filled({"kind": ["confidential"], "limits": ["all"]}))


@router.post(f"{PAGE}/new")
def register(request: Request, who: ConfirmedOwner, form: PostedForm, parts: OurParts) -> Response:
    """The page that answers is the only one that ever shows the secret."""
    try:
        with parts.db.transaction(who.tenant) as tx:
            do_once(tx, who, form.text(csrf.FIELD), instead=LOST, leads_to=PAGE)
            client, secret = clients.register(
                tx,
                who.here.account_id,
                _wish(form),
                is_public=_is_public(form),
                actor=who.actor,
                now=parts.clock(),
            )
    except (Invalid, Refused) as refused:
        return _form_page(request, who, parts, Filled.back(form, refused, at="name"))
    return _client_page(request, who, parts, client, secret=secret, is_new=True)


@router.get(f"{PAGE}/{{client}}")
def client_page(request: Request, client: str, who: Owner, parts: OurParts) -> Response:
    return _client_page(request, who, parts, _find(who, parts, client))


@router.get(f"{PAGE}/{{client}}/change")
def change_page(request: Request, client: str, who: ConfirmedOwner, parts: OurParts) -> Response:
    found = _find(who, parts, client)
    filled = Filled(
        {
            "name": [found.name],
            "website": [found.website or ""],
            "redirect_uris": ["\n".join(found.redirect_uris)],
            "limits": ["all" if found.scopes is None else "some"],
            "scopes": sorted(found.scopes or ()),
        }
    )
    return _form_page(request, who, parts, filled, found)


@router.post(f"{PAGE}/{{client}}/change")
def change(request: Request, client: str, who: ConfirmedOwner, form: PostedForm, parts: OurParts) -> Response:
    found = _find(who, parts, client)
    try:
        with parts.db.transaction(who.tenant) as tx:
            clients.change(tx, who.here.account_id, found.id, _wish(form), who.actor, now=parts.clock())
    except Invalid as refused:
        return _form_page(request, who, parts, Filled.back(form, refused, at="name"), found)
    return go(f"{PAGE}/{found.id}", said="client_changed")


@router.get(f"{PAGE}/{{client}}/secret")
def secret_page(request: Request, client: str, who: ConfirmedOwner, parts: OurParts) -> Response:
    found = _find(who, parts, client)
    if found.is_public:  # which has none
        raise NotFound
    return are_you_sure(
        request,
        who,
        title=f"A new secret for “{found.name}”?",
        means=[
            f"The present secret, which ends in {found.secret_hint}, is worth nothing from then on.",
            "Until the client has the new one, it can connect nobody and refresh nothing.",
            "Apps that are connected stay so.",
        ],
        button="Make a new secret",
        back=f"{PAGE}/{found.id}",
        is_once=True,
    )


@router.post(f"{PAGE}/{{client}}/secret")
def new_secret(
    request: Request, client: str, who: ConfirmedOwner, form: PostedForm, parts: OurParts
) -> Response:
    with parts.db.transaction(who.tenant) as tx:
        number = id_in_path(client)
        do_once(tx, who, form.text(csrf.FIELD), instead=LOST, leads_to=f"{PAGE}/{number}")
        secret = clients.new_secret(tx, who.here.account_id, number, who.actor, now=parts.clock())
        found = clients.find(tx, who.here.account_id, number)
    return _client_page(request, who, parts, found, secret=secret)


@router.get(f"{PAGE}/{{client}}/delete")
def delete_page(request: Request, client: str, who: Owner, parts: OurParts) -> Response:
    found = _find(who, parts, client)
    return are_you_sure(
        request,
        who,
        title=f"Delete “{found.name}”?",
        means=[
            _what_ends(_connections(parts, found)),
            "Its id and its secret are worth nothing from then on. This cannot be taken back.",
        ],
        button="Delete it",
        back=f"{PAGE}/{found.id}",
    )


@router.post(f"{PAGE}/{{client}}/delete")
def delete(client: str, who: Owner, _form: PostedForm, parts: OurParts) -> Response:
    with parts.db.work() as tx:
        clients.delete(tx, who.here.account_id, id_in_path(client), who.actor, now=parts.clock())
    return go(PAGE, said="client_deleted")


def _find(who: SignedIn, parts: Parts, client: str) -> Client:
    with parts.db.transaction(who.tenant) as tx:
        return clients.find(tx, who.here.account_id, id_in_path(client))


def _connections(parts: Parts, client: Client) -> int:
    """In all accounts: how many, and nothing else of them."""
    with parts.db.work() as tx:
        return clients.count_connections(tx, client.id, now=parts.clock())


def _what_ends(connections: int) -> str:
    if connections == 0:
        return "Nobody has connected it: nothing ends with it."
    if connections == 1:
        return "One account has connected it: that connection ends at once."
    return f"{connections:,} connections to accounts end at once, all of them."


def _client_page(
    request: Request,
    who: SignedIn,
    parts: Parts,
    client: Client,
    *,
    secret: str | None = None,
    is_new: bool = False,
) -> Response:
    return settings_page(
        request,
        "settings/client.html",
        who,
        parts,
        client=client,
        connections=_connections(parts, client),
        may=None if client.scopes is None else {scope: WORDS[scope] for scope in in_order(client.scopes)},
        secret=secret,
        is_new=is_new,
        base_url=parts.base_url,
    )


def _form_page(
    request: Request, who: SignedIn, parts: Parts, form: Filled, client: Client | None = None
) -> Response:
    return settings_page(
        request, "settings/client_form.html", who, parts, form=form, client=client, words=WORDS
    )


def _wish(form: Form) -> Registration:
    return Registration(
        name=form.text("name"),
        redirect_uris=_lines(form.text("redirect_uris", most=MOST_LETTERS)),
        website=form.text("website", most=2_000) or None,
        scopes=chosen_scopes(form),
    )


def _lines(text: str) -> Sequence[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _is_public(form: Form) -> bool:
    kind = form.text("kind")
    if kind not in ("confidential", "public"):
        raise Invalid({"kind": ["Choose whether the client can keep a secret."]})
    return kind == "public"
