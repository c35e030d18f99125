"""Sending mail, and asking what it would cost: one pair of endpoints for each piece."""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Body, Depends, Response

from quillpost.accounts.billing import credit
from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.orders.drafts import Draft
from quillpost.orders.products import (
    GIFTCARD,
    LETTER,
    MAGNACARD,
    NOTECARD,
    POSTCARD,
    WINDOWLESS_LETTER,
    Piece,
)
from quillpost.web.api.dependencies import OneUnit, Services, may
from quillpost.web.api.errors import BODY_ERRORS, errors
from quillpost.web.api.radius.endpoints import RadiusPreview
from quillpost.web.api.requests import ReadRequest
from quillpost.web.api.responses import answer, name_ignored, warning_header
from quillpost.web.api.routes import PREFIX, V2Route
from quillpost.web.api.send.requests import SendBody, SendCard, SendGiftcard, SendLetter, SendPostcard
from quillpost.web.api.send.schemas import EstimateResponse, PreviewResponse, SendResponse
from quillpost.web.api.send.service import carry_out, count, draft_of, show, warnings_of
from quillpost.web.api.send.service import estimate as estimated

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Send"])

EXAMPLE = {
    "recipients": [
        {
            "name": "Jane Doe",
            "address": "12 Main St",
            "city": "Austin",
            "province": "TX",
            "postal_code": "78701",
        }
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

MaySend = Annotated[Caller, Depends(may("send:write"))]
GIFT = {"giftcard_brand": "brindlewick", "giftcard_amount": 2500}
GIFT_EXAMPLES: Any = {
    "one": {"summary": "To one recipient", "value": EXAMPLE | GIFT},
    "gated": {
        "summary": "To a saved list, behind a page of yours",
        "value": {
            "mailing_list_ids": [7],
            "message": "Hi %FIRST_NAME%, the first one is on us!",
            **GIFT,
            "landing_page_url": "https://example.com/welcome",
        },
    },
}

ReadBody = Callable[..., SendBody]


def postcard_body(body: Annotated[SendPostcard, Body(openapi_examples=EXAMPLES)]) -> SendBody:
    return body


def letter_body(body: Annotated[SendLetter, Body(openapi_examples=LETTER_EXAMPLES)]) -> SendBody:
    return body


def card_body(body: Annotated[SendCard, Body(openapi_examples=EXAMPLES)]) -> SendBody:
    return body


def giftcard_body(body: Annotated[SendGiftcard, Body(openapi_examples=GIFT_EXAMPLES)]) -> SendBody:
    return body


class Offer(NamedTuple):
    """A piece that can be sent, what it is called, and its body with who reads it."""

    piece: Piece
    title: str
    body: type[SendBody]
    read: ReadBody


OFFERS = (
    Offer(POSTCARD, "a postcard", SendPostcard, postcard_body),
    Offer(LETTER, "a letter in a windowed envelope", SendLetter, letter_body),
    Offer(WINDOWLESS_LETTER, "a letter in a closed envelope", SendLetter, letter_body),
    Offer(NOTECARD, "a folded notecard in an envelope", SendCard, card_body),
    Offer(GIFTCARD, "a gift card in a folded card", SendGiftcard, giftcard_body),
    Offer(MAGNACARD, "a magnet card", SendCard, card_body),
)


def operation_word(path: str) -> str:
    """A piece's name in addresses, as operationIds have it."""
    return path.replace("-", "_").replace("/", "_")


def also(verb: str, piece: Piece) -> str:
    """The other addresses of an operation, in words."""
    others = [f"`/{verb}/{path}`" for path in piece.paths[1:]]
    return f" Also at {' and '.join(others)}." if others else ""


def _offer(offer: Offer) -> None:
    """The endpoints of one piece; only the first of its names is described."""
    piece, title, read = offer.piece, offer.title, offer.read

    def send(
        request: ReadRequest,
        body: Annotated[SendBody, Depends(read)],
        who: MaySend,
        parts: Services,
        unit: OneUnit,
    ) -> Response:
        draft = draft_of(piece, body, who, parts)
        if body.radius_search is not None and body.radius_search.preview:
            counted = count(draft, who, parts)
            return name_ignored(counted, body.spelled(draft.wish.unused, request.understood))
        if body.preview:
            shown = show(request, draft, who, parts, unit)
            return name_ignored(shown, body.spelled(draft.wish.unused, request.understood))
        sent = carry_out(request, draft, who, parts, unit)
        return name_ignored(sent, body.spelled(draft.wish.unused, request.understood))

    def estimate(
        request: ReadRequest, body: Annotated[SendBody, Depends(read)], who: MaySend, parts: Services
    ) -> Response:
        draft = draft_of(piece, body, who, parts)
        data = estimate_data(draft, who, parts)
        shown = answer({"message": "OK", "data": data}, headers=warning_header(data["warnings"]))
        return name_ignored(shown, body.spelled(draft.wish.unused, request.understood))

    for path in piece.paths:
        described, name = path == piece.paths[0], operation_word(path)
        router.post(
            f"/send/{path}",
            operation_id=f"send_{name}",
            response_model=SendResponse | PreviewResponse | RadiusPreview,
            responses=errors(402, *BODY_ERRORS),
            summary=f"Send {title}",
            description=f"Send {title} to everyone in the audience, or with `preview` = true see how it will"
            f" look.{also('send', piece)} At `/preview/{piece.paths[0]}` it is a preview, for a sample"
            " recipient where no audience is given.",
            include_in_schema=described,
        )(send)
        router.post(
            f"/estimate/{path}",
            operation_id=f"estimate_{name}",
            response_model=EstimateResponse,
            responses=errors(*BODY_ERRORS),
            summary=f"What sending {title} would cost",
            description="The body of a send, checked in every respect; nothing is stored."
            f"{also('estimate', piece)}",
            include_in_schema=described,
        )(estimate)


for each in OFFERS:
    _offer(each)


def estimate_data(draft: Draft, who: Caller, parts: Services) -> dict[str, Any]:
    """What an estimate answers with; pages tell the same."""
    found, unit_price = estimated(draft, who, parts)
    leads_fee = draft.found.cents if draft.found is not None else 0
    cents, unpaid = found.cents + leads_fee + found.gift_total, []
    if parts.worlds[who.mode].needs_credit:
        with parts.db.transaction(tenant(who)) as tx:
            has = credit.credit(tx, who.mode)
        unpaid = [credit.short_of(has, cents)] if 0 < cents > has else []
    return {
        "type": draft.wish.type,
        "total_recipients": found.pieces,
        "suppressed": found.suppressed,
        "duplicates": found.duplicates,
        "undeliverable": found.undeliverable,
        "unit_price": unit_price,
        "leads_fee": leads_fee,
        "giftcard_total": found.gift_total,
        "authorization_total": cents,
        "test_mode": who.is_testing,
        "warnings": warnings_of(draft, found) + unpaid,
    }
