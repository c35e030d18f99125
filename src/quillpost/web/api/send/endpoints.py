"""Sending mail, and asking what it would cost: one pair of endpoints for each piece."""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Body, Depends, Response

from quillpost.accounts.models import Caller
from quillpost.orders.products import GIFTCARD, LETTER, MAGNACARD, NOTECARD, POSTCARD, WINDOWLESS_LETTER, Product
from quillpost.web.api.dependencies import RequestUnitOfWork, require_scope
from quillpost.web.api.errors import BODY_ERRORS, error_responses
from quillpost.web.api.radius.endpoints import RadiusPreview
from quillpost.web.api.requests import ParsedRequest
from quillpost.web.api.responses import add_ignored_header
from quillpost.web.api.routes import PREFIX, V2Route
from quillpost.web.api.send.requests import SendBody, SendCard, SendGiftcard, SendLetter, SendPostcard
from quillpost.web.api.send.responses import (
    count_response,
    create_and_respond,
    draft_from_body,
    estimate_response,
    preview_response,
)
from quillpost.web.api.send.schemas import EstimateResponse, PreviewResponse, SendResponse
from quillpost.web.dependencies import Services

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Send"])

EXAMPLE = {
    "recipients": [
        {"name": "Jane Doe", "address": "12 Main St", "city": "Austin", "province": "TX", "postal_code": "78701"}
    ],
    "message": "Hi %FIRST_NAME%, thank you for stopping by!",
    "metadata": {"crm_id": 4711},
}
EXAMPLES: Any = {"one": {"summary": "To one recipient", "value": EXAMPLE}}
LETTER_EXAMPLES: Any = EXAMPLES | {
    "pdf": {
        "summary": "A PDF that is the whole letter, to a saved list",
        "value": {"mailing_list_ids": [7], "pdf_only_url": "https://example.com/letter.pdf"},
    }
}

CanSend = Annotated[Caller, Depends(require_scope("send:write"))]
GIFT_FIELDS = {"giftcard_brand": "brindlewick", "giftcard_amount": 2500}
GIFT_EXAMPLES: Any = {
    "one": {"summary": "To one recipient", "value": EXAMPLE | GIFT_FIELDS},
    "gated": {
        "summary": "To a saved list, behind a page of yours",
        "value": {
            "mailing_list_ids": [7],
            "message": "Hi %FIRST_NAME%, the first one is on us!",
            **GIFT_FIELDS,
            "landing_page_url": "https://example.com/welcome",
        },
    },
}

ParseBody = Callable[..., SendBody]


def parse_postcard_body(body: Annotated[SendPostcard, Body(openapi_examples=EXAMPLES)]) -> SendBody:
    return body


def parse_letter_body(body: Annotated[SendLetter, Body(openapi_examples=LETTER_EXAMPLES)]) -> SendBody:
    return body


def parse_card_body(body: Annotated[SendCard, Body(openapi_examples=EXAMPLES)]) -> SendBody:
    return body


def parse_giftcard_body(body: Annotated[SendGiftcard, Body(openapi_examples=GIFT_EXAMPLES)]) -> SendBody:
    return body


class SendableProduct(NamedTuple):
    """A piece that can be sent, what it is called, and its body with who reads it."""

    product: Product
    title: str
    body: type[SendBody]
    parse_body: ParseBody


SENDABLE_PRODUCTS = (
    SendableProduct(POSTCARD, "a postcard", SendPostcard, parse_postcard_body),
    SendableProduct(LETTER, "a letter in a windowed envelope", SendLetter, parse_letter_body),
    SendableProduct(WINDOWLESS_LETTER, "a letter in a closed envelope", SendLetter, parse_letter_body),
    SendableProduct(NOTECARD, "a folded notecard in an envelope", SendCard, parse_card_body),
    SendableProduct(GIFTCARD, "a gift card in a folded card", SendGiftcard, parse_giftcard_body),
    SendableProduct(MAGNACARD, "a magnet card", SendCard, parse_card_body),
)


def to_operation_name(path: str) -> str:
    """A piece's name in addresses, as operationIds have it."""
    return path.replace("-", "_").replace("/", "_")


def describe_other_paths(verb: str, product: Product) -> str:
    """The other addresses of an operation, in words."""
    other_paths = [f"`/{verb}/{path}`" for path in product.paths[1:]]
    return f" Also at {' and '.join(other_paths)}." if other_paths else ""


def _add_endpoints(sendable: SendableProduct) -> None:
    """The endpoints of one piece; only the first of its names is described."""
    product, title, parse_body = sendable.product, sendable.title, sendable.parse_body

    def send(
        request: ParsedRequest,
        body: Annotated[SendBody, Depends(parse_body)],
        caller: CanSend,
        container: Services,
        unit_of_work: RequestUnitOfWork,
    ) -> Response:
        draft = draft_from_body(product, body, caller, container)
        if body.radius_search is not None and body.radius_search.preview:
            count_result = count_response(draft, caller, container)
            return add_ignored_header(count_result, body.as_spelled(draft.request.unused_fields, request.parsed_body))
        if body.preview:
            preview_result = preview_response(request, draft, caller, container, unit_of_work)
            return add_ignored_header(preview_result, body.as_spelled(draft.request.unused_fields, request.parsed_body))
        send_result = create_and_respond(request, draft, caller, container, unit_of_work)
        return add_ignored_header(send_result, body.as_spelled(draft.request.unused_fields, request.parsed_body))

    def estimate(
        request: ParsedRequest, body: Annotated[SendBody, Depends(parse_body)], caller: CanSend, container: Services
    ) -> Response:
        draft = draft_from_body(product, body, caller, container)
        response = estimate_response(draft, caller, container)
        return add_ignored_header(response, body.as_spelled(draft.request.unused_fields, request.parsed_body))

    for path in product.paths:
        is_described, name = path == product.paths[0], to_operation_name(path)
        router.post(
            f"/send/{path}",
            operation_id=f"send_{name}",
            response_model=SendResponse | PreviewResponse | RadiusPreview,
            responses=error_responses(402, *BODY_ERRORS),
            summary=f"Send {title}",
            description=f"Send {title} to everyone in the audience, or with `preview` = true see how it will"
            f" look.{describe_other_paths('send', product)} At `/preview/{product.paths[0]}` it is a preview, for a "
            "sample"
            " recipient where no audience is given.",
            include_in_schema=is_described,
        )(send)
        router.post(
            f"/estimate/{path}",
            operation_id=f"estimate_{name}",
            response_model=EstimateResponse,
            responses=error_responses(*BODY_ERRORS),
            summary=f"What sending {title} would cost",
            description="The body of a send, checked in every respect; nothing is stored."
            f"{describe_other_paths('estimate', product)}",
            include_in_schema=is_described,
        )(estimate)


for sendable_product in SENDABLE_PRODUCTS:
    _add_endpoints(sendable_product)
