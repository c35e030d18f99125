"""Where a person lets an app act for their account, or does not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode, urlsplit

from authlib.oauth2.rfc6749 import OAuth2Error
from fastapi import APIRouter, Request, Response

from quillpost.accounts import clients
from quillpost.accounts.clients import Client
from quillpost.accounts.scope_words import in_order, in_words
from quillpost.accounts.sub_accounts import titles_of
from quillpost.kit.errors import Invalid
from quillpost.oauth.asking import Fault, ask
from quillpost.oauth.consent import Consent, Offer, decided, offer_in, one_of
from quillpost.oauth.server import Answer, Server
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception.forms import Form, FormOfAnyAccount, MovedOn
from quillpost.reception.show import show
from quillpost.reception.visits import (
    MaybeReader,
    NotSignedIn,
    OurParts,
    Reader,
    address_of,
    is_for_people,
)

router = APIRouter(include_in_schema=False)

ACCOUNT = "account"
"""Which of the reader's accounts the page is about: a parameter of our own, and a field of its form."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the app wants, as far as its page needs to know."""

    client: Client
    registered_by: str
    redirect_uri: str
    scopes: frozenset[str]


@router.get("/oauth/authorize")
def ask_person(request: Request, parts: OurParts, who: MaybeReader) -> Response:
    try:
        wish = _wish(request, parts)
    except Fault as fault:
        return _fault(request, who, fault)
    if isinstance(wish, Answer):
        # Nobody is carried off to another site by a mere link to ours (RFC 9700, 4.11.2).
        is_stranger = who is None and is_for_people(request)
        return _offered_back(request, wish) if is_stranger else _led_back(wish)
    if who is None:
        raise NotSignedIn
    chosen = one_of(who, request.query_params.get(ACCOUNT)) or who.here
    return _page(request, who, wish, offer_in(parts, who, chosen, wish.scopes))


@router.post("/oauth/authorize")
def take_decision(request: Request, parts: OurParts, who: Reader, form: FormOfAnyAccount) -> Response:
    try:
        return _decided(request, parts, who, form)
    except Fault as fault:
        return _fault(request, who, fault)


def _decided(request: Request, parts: Parts, who: SignedIn, form: Form) -> Response:
    """Everything is looked at again: what is allowed is what this very request asks for, in the account that
    the page named. `MovedOn` if its reader is in that account no more."""
    wish = _wish(request, parts)
    if isinstance(wish, Answer):
        return _led_back(wish)
    chosen = one_of(who, form.text(ACCOUNT))
    if chosen is None:
        raise MovedOn
    offer = offer_in(parts, who, chosen, wish.scopes)
    try:
        consent = decided(who, offer, form)
    except Invalid as wrong:
        return _page(request, who, wish, offer, faults=wrong.fields, typed=form.fields)
    return _led_back(_decide(request, parts, consent))


def _wish(request: Request, parts: Parts) -> Wish | Answer:
    """What the app wants, or the refusal that it is led back with."""
    with parts.db.work() as tx:
        server = Server(tx, parts, address=None, now=parts.clock())
        try:
            grant = ask(request, server)
        except OAuth2Error as refusal:
            return server.refuse(refusal)
        client: Client = grant.client.client
        scopes = frozenset(grant.request.scope.split())
        return Wish(client, clients.registered_by(tx, client), grant.redirect_uri, scopes)


def _decide(request: Request, parts: Parts, consent: Consent | None) -> Answer:
    with parts.db.work() as tx:
        server = Server(tx, parts, address=address_of(request), now=parts.clock())
        try:
            grant = ask(request, server)
        except OAuth2Error as refusal:
            return server.refuse(refusal)
        answer: Answer = server.create_authorization_response(grant.request, consent, grant)
        return answer


def _led_back(answer: Answer) -> Response:
    kept_nowhere = {"Location": answer.headers["Location"], "Cache-Control": "no-store"}
    return Response(status_code=303, headers=kept_nowhere)


def _page(
    request: Request,
    who: SignedIn,
    wish: Wish,
    offer: Offer,
    *,
    faults: Mapping[str, Sequence[str]] | None = None,
    typed: Mapping[str, Sequence[str]] | None = None,
) -> Response:
    this_page = f"{request.url.path}?{request.url.query}"
    return show(
        request,
        "oauth/consent.html",
        who=who,
        status=200 if faults is None else 422,
        leads_to=wish.redirect_uri,
        app=wish.client,
        registered_by=wish.registered_by,
        leads_back_to=_place(wish.redirect_uri),
        offer=offer,
        titles=titles_of(offer.sub_accounts),
        scopes=" ".join(in_order(offer.scopes)),
        allowed=in_words(offer.scopes),
        left_out=in_words(offer.left_out),
        others=[(each.account_name, _about(request, each.membership_id)) for each in offer.others],
        this_page=this_page,
        faults=faults or {},
        typed={name: values[0] for name, values in (typed or {}).items() if values},
    )


def _fault(request: Request, who: SignedIn | None, fault: Fault) -> Response:
    return show(request, "oauth/fault.html", who=who, status=400, sentence=fault.sentence, back=None)


def _offered_back(request: Request, refusal: Answer) -> Response:
    """A refusal for the app, whose reader decides whether to go back to it."""
    back = refusal.headers["Location"]
    sentence = f"The app's request is wrong. {parse_qs(urlsplit(back).query)['error_description'][0]}"
    place = _place(back)
    return show(
        request, "oauth/fault.html", who=None, status=400, sentence=sentence, back=back, leads_back_to=place
    )


def _place(address: str) -> str:
    """Where the reader ends up, as they know it."""
    place = urlsplit(address)
    return place.netloc if place.scheme in ("https", "http") else f"an app on your device ({place.scheme})"


def _about(request: Request, membership_id: int) -> str:
    """The same page about another account."""
    asked = [(name, value) for name, value in request.query_params.multi_items() if name != ACCOUNT]
    return f"{request.url.path}?{urlencode([*asked, (ACCOUNT, str(membership_id))])}"
