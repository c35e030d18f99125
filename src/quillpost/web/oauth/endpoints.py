"""The OAuth endpoints: authorize, token, revoke, metadata."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import parse_qs, urlencode, urlsplit

from authlib.oauth2.rfc6749 import InvalidGrantError, InvalidRequestError, OAuth2Error
from authlib.oauth2.rfc7009 import RevocationEndpoint
from fastapi import APIRouter, Depends, Request, Response

from quillpost.accounts.models import SCOPES
from quillpost.accounts.oauth import clients, tokens
from quillpost.accounts.oauth.clients import Client
from quillpost.accounts.service import count_knock
from quillpost.accounts.sub_accounts import titles_of
from quillpost.accounts.tokens.rules import in_order, in_words
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.body_limits import Bounds
from quillpost.core.errors import Invalid
from quillpost.web.api.responses import answer
from quillpost.web.forms import WRONG_TYPE, Form, FormOfAnyAccount, MovedOn, is_form, whole_form
from quillpost.web.oauth.authorization import Fault, ask
from quillpost.web.oauth.consent import Consent, Offer, decided, offer_in, one_of
from quillpost.web.oauth.grants import S256
from quillpost.web.oauth.requests import (
    METHODS,
    UNAUTHORIZED,
    AppRequest,
    Unreadable,
    read_parameters,
    repeated,
)
from quillpost.web.oauth.server import Answer, AppClient, Server
from quillpost.web.rendering import show
from quillpost.web.sessions import MaybeReader, NotSignedIn, OurParts, Reader, address_of, is_for_people

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


DOOR = "oauth"
FAILURES_A_MINUTE = 60
UNKEPT = {"Cache-Control": "no-store", "Pragma": "no-cache"}

Act = Callable[[Server, AppRequest], Answer]


PostedBody = Annotated[bytes, Depends(whole_form)]


def answer_app(request: Request, parts: Parts, body: bytes, act: Act) -> Response:
    """Do it in one transaction. What a refusal has changed (a family that ended) is kept like all else."""
    try:
        asked = _asked(request, body, parts.limits.bounds)
    except OAuth2Error as refusal:
        return _response(refusal.status_code, dict(refusal.get_body()))
    address = address_of(request)
    with parts.db.work() as tx:
        told = act(Server(tx, parts, address=address, now=parts.clock()), asked)
    if told.error is not None:
        allowance = count_knock(parts.db, DOOR, address, limit=FAILURES_A_MINUTE)
        if allowance.is_spent:
            return _too_many(allowance.resets_in)
    return _response(told.status, told.body, told.headers)


def _asked(request: Request, body: bytes, bounds: Bounds) -> AppRequest:
    if not is_form(request):
        raise InvalidRequestError(WRONG_TYPE)
    if request.url.query:
        raise InvalidRequestError("Send everything in the form, and nothing in the address.")
    try:
        parameters = read_parameters(body, bounds)
    except Unreadable as wrong:
        raise InvalidRequestError(str(wrong)) from None
    if repeated(parameters):
        raise InvalidRequestError("A field of the form is there more than once.")
    return AppRequest("POST", request.url.path, parameters, request.headers)


def _too_many(seconds: int) -> Response:
    sentence = f"Too many failed attempts. Try again in {seconds} seconds."
    body = {"error": "temporarily_unavailable", "error_description": sentence}
    return _response(429, body, {"Retry-After": str(seconds)})


def _response(status: int, body: object, headers: Mapping[str, str] | None = None) -> Response:
    scheme = {"WWW-Authenticate": 'Basic realm="Quillpost"'} if status == UNAUTHORIZED else {}
    return answer(body, status=status, headers={**(headers or {}), **UNKEPT, **scheme})


@router.post("/oauth/token")
def give_tokens(request: Request, parts: OurParts, body: PostedBody) -> Response:
    return answer_app(request, parts, body, Server.create_token_response)


class Revocation(RevocationEndpoint):  # type: ignore[misc] # Authlib has no types
    CLIENT_AUTH_METHODS = METHODS

    def authenticate_token(self, request: AppRequest, client: AppClient) -> None:
        """Revoke it at once: there is nothing that Authlib would have to know of it. What a token is for can
        be told from the token itself, so that a hint is not needed, nor a wrong one in the way."""
        if "token" not in request.form:
            raise InvalidRequestError("The token is missing.")
        place = self.server
        done = tokens.revoke(
            place.tx, request.form["token"], client.client, address=place.address, now=place.now
        )
        if done == "another's":
            raise InvalidGrantError("This token was not issued to this client.")


@router.post("/oauth/revoke")
def revoke_token(request: Request, parts: OurParts, body: PostedBody) -> Response:
    """A token that is not known, or not any more, is as good as revoked."""
    return answer_app(request, parts, body, _revoked)


def _revoked(server: Server, asked: AppRequest) -> Answer:
    server.register_endpoint(Revocation)
    answer: Any = server.create_endpoint_response(Revocation.ENDPOINT_NAME, asked)
    told: Answer = answer
    return told


@router.get("/.well-known/oauth-authorization-server")
def describe_server(parts: OurParts) -> Response:
    home = parts.base_url
    return answer(
        {
            "issuer": home,
            "authorization_endpoint": f"{home}/oauth/authorize",
            "token_endpoint": f"{home}/oauth/token",
            "revocation_endpoint": f"{home}/oauth/revoke",
            "service_documentation": f"{home}/docs",
            "scopes_supported": SCOPES,
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": METHODS,
            "revocation_endpoint_auth_methods_supported": METHODS,
            "code_challenge_methods_supported": [S256],
            "authorization_response_iss_parameter_supported": True,
        }
    )
