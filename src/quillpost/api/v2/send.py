"""Sending mail."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Request, Response

from quillpost.accounts.rules import Caller
from quillpost.accounts.service import read_sub_account
from quillpost.api.answers import answer
from quillpost.api.bodies import ReadRequest
from quillpost.api.docs import BODY_ERRORS, errors
from quillpost.api.needs import OneUnit, Parts, may
from quillpost.api.route import V2Route
from quillpost.api.v2.schemas.send import PreviewResponse, SendResponse
from quillpost.api.v2.send_body import SendPostcard
from quillpost.api.v2.shapes import base_of, inline_shape, send_shape
from quillpost.orders import sending
from quillpost.orders.examining import examine_wish
from quillpost.orders.preparing import Draft, prepare

router = APIRouter(route_class=V2Route, tags=["Send"])

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

MaySend = Annotated[Caller, Depends(may("send:write"))]


@router.post(
    "/send/postcard",
    response_model=SendResponse | PreviewResponse,
    responses=errors(*BODY_ERRORS),
    summary="Send a postcard",
)
def send_postcard(
    request: ReadRequest,
    body: Annotated[SendPostcard, Body(openapi_examples={"one": {"value": EXAMPLE}})],
    who: MaySend,
    parts: Parts,
    unit: OneUnit,
) -> Response:
    """Send a postcard to everyone in the audience, or with `preview` = true see how it will look."""
    now = parts.clock()
    wish, faults = body.wish(parts.limits, now=now)
    wish, people = examine_wish(
        wish, styles=parts.studio.hands.styles, check_url=parts.check_url, known_faults=faults
    )
    world = parts.worlds[who.mode]
    draft = prepare(
        parts.db,
        who,
        wish,
        people,
        studio=parts.studio,
        fetcher=parts.fetcher,
        indicia=world.indicia[wish.mail_class],
        now=now,
    )
    ignored = body.ignored_fields(request.understood)
    headers = {"X-Ignored-Fields": ", ".join(ignored)} if ignored else {}
    if draft.warnings:
        headers["X-Warnings"] = "; ".join(draft.warnings)
    if body.preview:
        return answer(_preview(request, draft, who, parts, unit), headers=headers)
    return answer(_place(request, draft, who, parts, unit), headers=headers)


def _place(request: Request, draft: Draft, who: Caller, parts: Parts, unit: OneUnit) -> dict[str, Any]:
    now = parts.clock()
    pictures = sending.keep_pictures(parts.db, parts.shelf, who, draft, now=now)
    order = sending.place(
        unit.tx, who, parts.shelf, draft, pictures, review=parts.worlds[who.mode].review, now=now
    )
    return send_shape(
        request,
        order,
        recipients=[inline_shape(person) for person, _, _ in draft.people],
        sub_account=read_sub_account(unit.tx, order.sub_account_id),
    )


def _preview(request: Request, draft: Draft, who: Caller, parts: Parts, unit: OneUnit) -> dict[str, Any]:
    now = parts.clock()
    sides = sending.draw(parts.studio, parts.shelf, draft, qr_base=parts.press.qr_base, now=now)
    sending.record_sides(unit.tx, parts.shelf, who, draft, sides, now=now)
    links = [
        base_of(request) + parts.shelf.path(side.picture.id, expires=now + sending.PREVIEWS_LAST)
        for side in sides
    ]
    data = {"previews": links, "sides": [side.name for side in sides]}
    return {"success": True, "code": 200, "message": "OK", "data": data}
