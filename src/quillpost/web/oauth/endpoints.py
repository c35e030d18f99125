"""The OAuth endpoints: authorize, token, revoke, metadata."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import parse_qs, urlencode, urlsplit

from authlib.oauth2.rfc6749 import InvalidGrantError, InvalidRequestError, OAuth2Error
from authlib.oauth2.rfc7009 import RevocationEndpoint
from fastapi import APIRouter, Depends, Request, Response

from quillpost.accounts.oauth import clients, tokens
from quillpost.accounts.oauth.clients import OAuthClient
from quillpost.accounts.rate_limits.service import count_public_call
from quillpost.accounts.sub_accounts.queries import label_sub_accounts
from quillpost.accounts.tokens.rules import SCOPES, describe_scopes, sort_scopes
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.app.container import Container
from quillpost.core.errors import Invalid
from quillpost.core.exact_json import BodyLimits
from quillpost.web.api.responses import json_response
from quillpost.web.dependencies import Services
from quillpost.web.forms import WRONG_TYPE, AccountSwitched, Form, FormOfAnyAccount, has_form_body, read_form_body
from quillpost.web.oauth.forms import Consent, ConsentOffer, build_offer, find_membership, read_decision
from quillpost.web.oauth.requests import (
    AUTH_METHODS,
    UNAUTHORIZED,
    AppRequest,
    UnreadableParameters,
    find_repeated,
    read_parameters,
)
from quillpost.web.oauth.service import S256, AppClient, OAuthServer, ServerResponse
from quillpost.web.rendering import MAX_NEXT_LENGTH, render_page
from quillpost.web.sessions import CurrentUser, NotSignedIn, OptionalUser, get_client_address, is_for_browser


class InvalidAuthorizationRequest(Exception):
    """Unknown app or redirect address: nobody is redirected, the user reads why."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def get_grant(request: Request, server: OAuthServer) -> Any:
    """Authlib's grant for a valid request. Else `InvalidAuthorizationRequest`, or an error for the app."""
    parameters = _read_parameters(request)
    redirect_uri = _registered_redirect_uri(server, parameters)
    state = parameters["state"][0] if len(parameters.get("state", ())) == 1 else None
    try:
        _check_parameters(parameters)
    except OAuth2Error as refusal:
        refusal.redirect_uri, refusal.state = redirect_uri, state
        raise
    return server.get_consent_grant(AppRequest("GET", request.url.path, parameters))


def _read_parameters(request: Request) -> Mapping[str, Sequence[str]]:
    query: bytes = request.scope["query_string"]
    # Signing in must lead back here.
    if len(request.url.path) + len(query) >= MAX_NEXT_LENGTH:
        raise InvalidAuthorizationRequest("The app's request is too long.")
    try:
        return read_parameters(query)
    except UnreadableParameters:
        raise InvalidAuthorizationRequest("The app's request cannot be read: it is no plain UTF-8 text.") from None


def _registered_redirect_uri(server: OAuthServer, parameters: Mapping[str, Sequence[str]]) -> str:
    for name in ("client_id", "redirect_uri"):
        if name not in parameters:
            raise InvalidAuthorizationRequest(f"The app's request lacks {name}.")
        if len(parameters[name]) > 1:
            raise InvalidAuthorizationRequest(f"The app's request has {name} more than once.")
    client, redirect_uri = server.query_client(parameters["client_id"][0]), parameters["redirect_uri"][0]
    if client is None:
        raise InvalidAuthorizationRequest("No app is registered here under that client_id.")
    if not client.check_redirect_uri(redirect_uri):
        raise InvalidAuthorizationRequest(
            "The app wants to be led back to an address (redirect_uri) that is not registered for it."
        )
    return redirect_uri


def _check_parameters(parameters: Mapping[str, Sequence[str]]) -> None:
    if find_repeated(parameters):
        raise InvalidRequestError("A parameter is there more than once.")
    if "response_type" not in parameters:
        raise InvalidRequestError("The response_type is missing.")
    if parameters["response_type"] != ["code"]:
        raise OAuth2Error("The response_type must be code.", error="unsupported_response_type")


router = APIRouter(include_in_schema=False)

ACCOUNT_FIELD = "account"  # which of the user's accounts the page is about: a query parameter, and a field of its form


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    client: OAuthClient
    registered_by: str
    redirect_uri: str
    scopes: frozenset[str]


@router.get("/oauth/authorize")
def show_consent(request: Request, container: Services, user: OptionalUser) -> Response:
    try:
        authorization = _read_authorization_request(request, container)
    except InvalidAuthorizationRequest as error:
        return _error_page(request, user, error)
    if isinstance(authorization, ServerResponse):
        # Nobody is carried off to another site by a mere link to ours (RFC 9700, 4.11.2).
        is_anonymous_person = user is None and is_for_browser(request)
        return _refusal_page(request, authorization) if is_anonymous_person else _redirect_to_app(authorization)
    if user is None:
        raise NotSignedIn
    membership = find_membership(user, request.query_params.get(ACCOUNT_FIELD)) or user.here
    return _consent_page(request, user, authorization, build_offer(container, user, membership, authorization.scopes))


@router.post("/oauth/authorize")
def submit_consent(request: Request, container: Services, user: CurrentUser, form: FormOfAnyAccount) -> Response:
    try:
        return _process_decision(request, container, user, form)
    except InvalidAuthorizationRequest as error:
        return _error_page(request, user, error)


def _process_decision(request: Request, container: Container, user: SignedInUser, form: Form) -> Response:
    """The request is checked again. `AccountSwitched` if the user is no longer in the account that the page named."""
    authorization = _read_authorization_request(request, container)
    if isinstance(authorization, ServerResponse):
        return _redirect_to_app(authorization)
    membership = find_membership(user, form.text(ACCOUNT_FIELD))
    if membership is None:
        raise AccountSwitched
    offer = build_offer(container, user, membership, authorization.scopes)
    try:
        consent = read_decision(user, offer, form)
    except Invalid as error:
        return _consent_page(request, user, authorization, offer, errors=error.fields, typed=form.fields)
    return _redirect_to_app(_create_response(request, container, consent))


def _read_authorization_request(request: Request, container: Container) -> AuthorizationRequest | ServerResponse:
    """What the app wants, or the refusal that it is redirected with."""
    with container.db.system_transaction() as tx:
        server = OAuthServer(tx, container, address=None, now=container.clock())
        try:
            grant = get_grant(request, server)
        except OAuth2Error as refusal:
            return server.refuse(refusal)
        client: OAuthClient = grant.client.client
        scopes = frozenset(grant.request.scope.split())
        return AuthorizationRequest(client, clients.read_registrant_name(tx, client), grant.redirect_uri, scopes)


def _create_response(request: Request, container: Container, consent: Consent | None) -> ServerResponse:
    with container.db.system_transaction() as tx:
        server = OAuthServer(tx, container, address=get_client_address(request), now=container.clock())
        try:
            grant = get_grant(request, server)
        except OAuth2Error as refusal:
            return server.refuse(refusal)
        response: ServerResponse = server.create_authorization_response(grant.request, consent, grant)
        return response


def _redirect_to_app(server_response: ServerResponse) -> Response:
    headers = {"Location": server_response.headers["Location"], "Cache-Control": "no-store"}
    return Response(status_code=303, headers=headers)


def _consent_page(
    request: Request,
    user: SignedInUser,
    authorization: AuthorizationRequest,
    offer: ConsentOffer,
    *,
    errors: Mapping[str, Sequence[str]] | None = None,
    typed: Mapping[str, Sequence[str]] | None = None,
) -> Response:
    this_page = f"{request.url.path}?{request.url.query}"
    return render_page(
        request,
        "oauth/consent.html",
        user=user,
        status=200 if errors is None else 422,
        redirect_target=authorization.redirect_uri,
        app=authorization.client,
        registered_by=authorization.registered_by,
        destination=_destination_label(authorization.redirect_uri),
        offer=offer,
        titles=label_sub_accounts(offer.sub_accounts),
        scopes=" ".join(sort_scopes(offer.scopes)),
        allowed_scopes=describe_scopes(offer.scopes),
        excluded_scopes=describe_scopes(offer.left_out),
        other_accounts=[
            (membership.account_name, _page_url_for_account(request, membership.membership_id))
            for membership in offer.others
        ],
        page_url=this_page,
        errors=errors or {},
        values={name: values[0] for name, values in (typed or {}).items() if values},
    )


def _error_page(request: Request, user: SignedInUser | None, error: InvalidAuthorizationRequest) -> Response:
    return render_page(request, "oauth/error.html", user=user, status=400, message=error.message, back_url=None)


def _refusal_page(request: Request, refusal: ServerResponse) -> Response:
    """An error for the app: the user decides whether to go back to it."""
    back = refusal.headers["Location"]
    message = f"The app's request is wrong. {parse_qs(urlsplit(back).query)['error_description'][0]}"
    destination = _destination_label(back)
    return render_page(
        request, "oauth/error.html", user=None, status=400, message=message, back_url=back, destination=destination
    )


def _destination_label(address: str) -> str:
    parsed = urlsplit(address)
    return parsed.netloc if parsed.scheme in ("https", "http") else f"an app on your device ({parsed.scheme})"


def _page_url_for_account(request: Request, membership_id: int) -> str:
    parameters = [(name, value) for name, value in request.query_params.multi_items() if name != ACCOUNT_FIELD]
    return f"{request.url.path}?{urlencode([*parameters, (ACCOUNT_FIELD, str(membership_id))])}"


RATE_LIMIT_NAME = "oauth"
MAX_FAILURES_PER_MINUTE = 60
NO_STORE_HEADERS = {"Cache-Control": "no-store", "Pragma": "no-cache"}

ServerAction = Callable[[OAuthServer, AppRequest], ServerResponse]


PostedBody = Annotated[bytes, Depends(read_form_body)]


def respond_to_app(request: Request, container: Container, body: bytes, action: ServerAction) -> Response:
    """In one transaction. What a refusal changes (a revoked token family) is kept."""
    try:
        app_request = _read_app_request(request, body, container.limits.bounds)
    except OAuth2Error as refusal:
        return _oauth_response(refusal.status_code, dict(refusal.get_body()))
    address = get_client_address(request)
    with container.db.system_transaction() as tx:
        result = action(OAuthServer(tx, container, address=address, now=container.clock()), app_request)
    if result.error is not None:
        allowance = count_public_call(container.db, RATE_LIMIT_NAME, address, limit=MAX_FAILURES_PER_MINUTE)
        if allowance.is_exceeded:
            return _too_many_response(allowance.resets_in)
    return _oauth_response(result.status, result.body, result.headers)


def _read_app_request(request: Request, body: bytes, bounds: BodyLimits) -> AppRequest:
    if not has_form_body(request):
        raise InvalidRequestError(WRONG_TYPE)
    if request.url.query:
        raise InvalidRequestError("Send everything in the form, and nothing in the address.")
    try:
        parameters = read_parameters(body, bounds)
    except UnreadableParameters as error:
        raise InvalidRequestError(str(error)) from None
    if find_repeated(parameters):
        raise InvalidRequestError("A field of the form is there more than once.")
    return AppRequest("POST", request.url.path, parameters, request.headers)


def _too_many_response(seconds: int) -> Response:
    message = f"Too many failed attempts. Try again in {seconds} seconds."
    body = {"error": "temporarily_unavailable", "error_description": message}
    return _oauth_response(429, body, {"Retry-After": str(seconds)})


def _oauth_response(status: int, body: object, headers: Mapping[str, str] | None = None) -> Response:
    auth_headers = {"WWW-Authenticate": 'Basic realm="Quillpost"'} if status == UNAUTHORIZED else {}
    return json_response(body, status=status, headers={**(headers or {}), **NO_STORE_HEADERS, **auth_headers})


@router.post("/oauth/token")
def issue_tokens(request: Request, container: Services, body: PostedBody) -> Response:
    return respond_to_app(request, container, body, OAuthServer.create_token_response)


class TokenRevocation(RevocationEndpoint):  # type: ignore[misc] # Authlib has no types
    CLIENT_AUTH_METHODS = AUTH_METHODS

    def authenticate_token(self, request: AppRequest, client: AppClient) -> None:
        """Revoke it here, so that Authlib has nothing left to do. The token itself says what it is for, so no hint is
        needed."""
        if "token" not in request.form:
            raise InvalidRequestError("The token is missing.")
        server = self.server
        outcome = tokens.revoke_app_token(
            server.tx, request.form["token"], client.client, address=server.address, now=server.now
        )
        if outcome == "another's":
            raise InvalidGrantError("This token was not issued to this client.")


@router.post("/oauth/revoke")
def revoke_token(request: Request, container: Services, body: PostedBody) -> Response:
    """An unknown token counts as revoked."""
    return respond_to_app(request, container, body, _revoke)


def _revoke(server: OAuthServer, app_request: AppRequest) -> ServerResponse:
    server.register_endpoint(TokenRevocation)
    response: Any = server.create_endpoint_response(TokenRevocation.ENDPOINT_NAME, app_request)
    result: ServerResponse = response
    return result


@router.get("/.well-known/oauth-authorization-server")
def describe_server(container: Services) -> Response:
    base_url = container.base_url
    return json_response(
        {
            "issuer": base_url,
            "authorization_endpoint": f"{base_url}/oauth/authorize",
            "token_endpoint": f"{base_url}/oauth/token",
            "revocation_endpoint": f"{base_url}/oauth/revoke",
            "service_documentation": f"{base_url}/docs",
            "scopes_supported": SCOPES,
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": AUTH_METHODS,
            "revocation_endpoint_auth_methods_supported": AUTH_METHODS,
            "code_challenge_methods_supported": [S256],
            "authorization_response_iss_parameter_supported": True,
        }
    )
