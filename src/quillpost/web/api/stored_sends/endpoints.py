"""Stored sends, and the embedded composer that writes them."""

import secrets
from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Path, Request, Response
from pydantic import Field

from quillpost.accounts.embeds.service import EmbedToken, issue_embed_token, normalize_origin, read_embed_origins
from quillpost.accounts.service import build_tenant
from quillpost.accounts.sub_accounts.queries import require_sub_account
from quillpost.client import send as wire
from quillpost.client.mailing_lists import RadiusPreview
from quillpost.client.types import MessageResponse
from quillpost.core.errors import Invalid, NotFound
from quillpost.core.text import format_iso
from quillpost.orders import service as order_service
from quillpost.orders.drafts import service as draft_service
from quillpost.orders.requests import service as request_service
from quillpost.orders.requests.queries import read_usable_lists
from quillpost.web.api.dependencies import ApiCaller, RequestTransaction, RequestUnitOfWork
from quillpost.web.api.errors import BODY_ERRORS
from quillpost.web.api.idempotency import STORED_HEADERS
from quillpost.web.api.requests import ParsedRequest, parse_stored_body
from quillpost.web.api.responses import add_ignored_header, json_response, without_length
from quillpost.web.api.routes import ApiRouter
from quillpost.web.api.schemas import DIGITS, STOP_AT_ERROR_LIMIT, Body, Id, Text, accepts, strip_or_none, validate_body
from quillpost.web.api.send.endpoints import (
    body_parser,
    count_response,
    create_and_respond,
    describe_other_paths,
    draft_from_body,
    list_estimate_warnings,
    preview_response,
    to_operation_name,
)
from quillpost.web.api.send.requests import SENDABLE_PRODUCTS, SendableProduct, SendBody
from quillpost.web.dependencies import Services, base_url

router = ApiRouter("Send", resource="send")

StoredId = Annotated[
    str, Path(description="The last part of the stored_send_url.", json_schema_extra={"format": "uuid"})
]

PREFETCH_HEADERS = ("purpose", "sec-purpose", "x-purpose", "x-moz")
"""Headers with which a browser or a chat says that it only looks ahead."""

NOTHING_SENT = {"message": "Nothing was sent: this call only looked ahead. Open the address itself to send."}


def _add_endpoints(sendable: SendableProduct) -> None:
    product, parse_body, name = sendable.product, body_parser(sendable), sendable.product.paths[0]

    def store(
        request: ParsedRequest,
        body: Annotated[SendBody, Depends(parse_body)],
        caller: ApiCaller,
        container: Services,
        unit_of_work: RequestUnitOfWork,
    ) -> Response:
        draft = draft_from_body(product, body, caller, container)
        estimate = draft_service.estimate_order(container.orders, caller, draft)
        warnings = list_estimate_warnings(estimate, caller, container)
        sub_account_id = draft.request.sub_account_id
        # It may have gone meanwhile; from here on it stays.
        require_sub_account(unit_of_work.tx, sub_account_id)
        stored_id = request_service.store_send(
            unit_of_work.tx,
            caller,
            piece=name,
            sub_account_id=sub_account_id,
            body=request.raw_body.decode("utf-8-sig"),
            now=container.clock(),
        )
        url = f"{base_url(request)}/api/v2/stored_send/{name}/{stored_id}"
        response = json_response(wire.StoredSend(stored_send_url=url), warnings=warnings)
        return add_ignored_header(response, body.as_spelled(draft.request.unused_fields, request.parsed_body))

    def send(
        request: Request, stored_id: StoredId, caller: ApiCaller, container: Services, unit_of_work: RequestUnitOfWork
    ) -> Response:
        parsed_id = _parse_id(stored_id)
        with container.db.transaction(build_tenant(caller)) as tx:
            stored_send = request_service.read_stored_send(tx, parsed_id, piece=name)
        if any("prefetch" in request.headers.get(header, "").lower() for header in PREFETCH_HEADERS):
            return json_response(NOTHING_SENT)
        if stored_send.answer_body is not None:
            return _stored_response(stored_send)
        parsed_body = parse_stored_body(stored_send.body.encode())
        body = validate_body(sendable.body, parsed_body).model_copy(
            update={"sub_account_id": stored_send.sub_account_id}
        )
        draft = draft_from_body(product, body, caller, container)
        ignored = body.ignored_in(parsed_body) | body.as_spelled(draft.request.unused_fields, parsed_body)
        is_count = body.radius_search is not None and body.radius_search.preview
        if is_count or body.preview:
            preview = (
                count_response(draft, caller, container)
                if is_count
                else preview_response(request, draft, caller, container, unit_of_work)
            )
            request_service.extend_lifetime(unit_of_work.tx, parsed_id, now=container.clock())
            return add_ignored_header(preview, ignored)
        # A call that turns out to be the second has stored files for nothing: they are swept up as orphans.
        files = order_service.store_files(container.orders, caller, draft)
        # Two who open it at the same moment take turns here; the second finds the first one's answer.
        stored_send = request_service.read_stored_send(unit_of_work.tx, parsed_id, piece=name, locked=True)
        if stored_send.answer_body is not None:
            return _stored_response(stored_send)
        created = create_and_respond(request, draft, caller, container, unit_of_work, files=files)
        response = add_ignored_header(created, ignored)
        request_service.store_response(
            unit_of_work.tx,
            parsed_id,
            body=bytes(response.body),
            headers={
                header_name: response.headers[header_name]
                for header_name in STORED_HEADERS
                if header_name in response.headers
            },
            now=container.clock(),
        )
        return response

    def head(stored_id: StoredId, caller: ApiCaller, container: Services) -> Response:
        with container.db.transaction(build_tenant(caller)) as tx:
            request_service.read_stored_send(tx, _parse_id(stored_id), piece=name)
        return without_length(json_response(NOTHING_SENT))

    for path in product.paths:
        is_described, operation_name = path == name, to_operation_name(path)
        route_path = f"/stored_send/{path}/{{stored_id}}"
        router.post(
            f"/stored_send/{path}",
            wire.StoredSend,
            operation_id=f"store_{operation_name}",
            summary=f"Store a send of {sendable.title}",
            description="The body of a send, checked as the send itself is. Whoever opens the address that is"
            " returned, with a token of the same account, sends it: once. It is checked again then."
            f"{describe_other_paths('stored_send', product)}",
            include_in_schema=is_described,
        )(store)
        route_options: dict[str, Any] = {
            "response_model": wire.SendResponse | wire.PreviewResponse | RadiusPreview | MessageResponse,
            "errors": [402, *BODY_ERRORS],
            "scope": "send:write",
            "description": "A second call returns the first answer and sends nothing.",
            "include_in_schema": is_described,
        }
        router.get(
            route_path,
            operation_id=f"send_stored_{operation_name}_get",
            summary=f"Send the stored {product.name}",
            **route_options,
        )(send)
        router.post(
            route_path,
            operation_id=f"send_stored_{operation_name}_post",
            summary=f"Send the stored {product.name} (POST)",
            **route_options,
        )(send)
        router.head(route_path, scope="send:write")(head)


for sendable_product in SENDABLE_PRODUCTS:
    _add_endpoints(sendable_product)
# `/stored_send/letter/windowed` is an address of its own, not a stored letter with that id.
router.routes.sort(key=lambda route: "{" in getattr(route, "path", ""))


def _parse_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise NotFound from None


def _stored_response(stored_send: request_service.PendingSend) -> Response:
    return Response(stored_send.answer_body, headers=stored_send.answer_headers, media_type="application/json")


MAX_LIFETIME_SECONDS = 3_600
MAX_LISTS = 20
MAX_MESSAGE_LENGTH = 1_500
"""It is a part of the URL."""
PRODUCTS_BY_PATH = {path: offer.product for offer in SENDABLE_PRODUCTS for path in offer.product.paths}
SIZES = ("4x6", "6x9", "6x11")
PRODUCT_NAMES = tuple(f"postcard-{size}" for size in SIZES) + tuple(PRODUCTS_BY_PATH)

ORIGIN_NOT_LISTED = "This site is not among those that may show the composer: an owner adds it at /settings/embed."
UNKNOWN_PRODUCT = f"Give one of {', '.join(PRODUCT_NAMES)}."


@accepts(wire.EmbedOptions, beside={"origin"})
class EmbedBody(Body):
    """Where the composer is shown, and what it begins with."""

    origin: Text = Field(
        max_length=300,
        description="The site that shows it in a frame: scheme, host and port. One of those that the account lists.",
        examples=["https://app.example.com"],
    )
    piece: Text | None = Field(
        None, max_length=40, description=f"What it begins with: {', '.join(PRODUCT_NAMES)}.", examples=["postcard"]
    )
    message: Text | None = Field(
        None, max_length=MAX_MESSAGE_LENGTH, description="What stands in its message field at first."
    )
    sub_account_id: Id | None = Field(None, description="The sub account that sends.")
    mailing_list_ids: Annotated[list[Id], Field(max_length=MAX_LISTS), STOP_AT_ERROR_LIMIT] | None = Field(
        None, description="Saved lists that may be chosen; without any, people are typed or pasted."
    )
    expires_in: Annotated[int, Field(ge=1, le=MAX_LIFETIME_SECONDS), DIGITS] | None = Field(
        None, description="Seconds that the address is good for: an hour when nothing is said."
    )


@router.post("/embeds", wire.Embed, summary="Embed the composer")
def create_embed(
    request: Request, body: EmbedBody, caller: ApiCaller, tx: RequestTransaction, container: Services
) -> Response:
    """An address for a frame in a page of your own. Whoever fills in the form there makes a stored send. Its
    address is told to your page, and to nobody else; your server opens it with its token."""
    field_errors: dict[str, list[str]] = {}
    origin = _check_origin(body.origin, read_embed_origins(tx, caller.account_id), field_errors)
    product_name = strip_or_none(body.piece)
    if product_name is not None and product_name not in PRODUCT_NAMES:
        field_errors["piece"] = [UNKNOWN_PRODUCT]
    sub_account_id = body.sub_account_id if body.sub_account_id is not None else caller.sub_account_id
    require_sub_account(tx, sub_account_id)
    lists = read_usable_lists(tx, body.mailing_list_ids or (), sub_account_id, field_errors)
    if field_errors:
        raise Invalid(field_errors)
    assert caller.token_id is not None, "every caller of the API has a token"
    expires_at = container.clock() + timedelta(seconds=body.expires_in or MAX_LIFETIME_SECONDS)
    embed_pass = EmbedToken(
        account_id=caller.account_id,
        sub_account_id=sub_account_id,
        mode=caller.mode,
        token_id=caller.token_id,
        origin=origin,
        piece=product_name,
        message=strip_or_none(body.message),
        mailing_list_ids=tuple(mailing_list.id for mailing_list in lists),
        serial=secrets.token_urlsafe(9),
    )
    url = f"{base_url(request)}/embed/compose/{issue_embed_token(container.encryptor, embed_pass, expires=expires_at)}"
    return json_response(wire.Embed(url=url, expires_at=format_iso(expires_at)))


def _check_origin(text: str, allowed_origins: list[str], errors: dict[str, list[str]]) -> str:
    try:
        origin = normalize_origin(text)
    except ValueError as error:
        errors["origin"] = [str(error)]
        return ""
    if origin not in allowed_origins:
        errors["origin"] = [ORIGIN_NOT_LISTED]
    return origin
