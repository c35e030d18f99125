"""Sending mail."""

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Request, Response

from quillpost.accounts.rules import Caller
from quillpost.accounts.service import sub_account_shape
from quillpost.api.answers import answer
from quillpost.api.bodies import ReadRequest
from quillpost.api.docs import BODY_ERRORS, errors
from quillpost.api.needs import OneUnit, Parts, may
from quillpost.api.route import V2Route
from quillpost.api.v2.schemas import PreviewResponse, SendResponse
from quillpost.api.v2.send_body import SendPostcard
from quillpost.api.v2.shapes import base_of, send_shape
from quillpost.composition.compose import preview as draw_preview
from quillpost.orders import look, service
from quillpost.orders.examining import examine_wish
from quillpost.orders.preparing import Draft, prepare

router = APIRouter(route_class=V2Route, tags=["Send"])

PREVIEW_LINK = timedelta(days=7)

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
    wish, people = examine_wish(wish, check_url=parts.check_url, known_faults=faults)
    world = parts.worlds[who.mode]
    draft = prepare(
        parts.db, who, wish, people, fetcher=parts.fetcher, indicia=world.indicia[wish.mail_class], now=now
    )
    ignored = body.ignored_fields(request.understood)
    headers = {"X-Ignored-Fields": ", ".join(ignored)} if ignored else {}
    if draft.warnings:
        headers["X-Warnings"] = "; ".join(draft.warnings)
    if body.preview:
        return answer(_preview(request, draft, who, parts, unit), headers=headers)
    return answer(_place(request, draft, who, parts, unit), headers=headers)


def _place(request: Request, draft: Draft, who: Caller, parts: Parts, unit: OneUnit) -> dict[str, Any]:
    wish, now = draft.wish, parts.clock()
    pictures = [
        parts.shelf.put(picture.body, purpose="creative", content_type=picture.content_type, now=now)
        if picture
        else None
        for picture in (draft.front, draft.background)
    ]
    for kept in filter(None, pictures):
        parts.shelf.record(
            unit.tx, kept, account_id=who.account_id, sub_account_id=wish.sub_account_id, now=now
        )
    front, background = pictures
    ready = service.Prepared(
        wish=wish,
        people=draft.people,
        return_address=draft.return_address,
        front_file_id=front.id if front else None,
        background_file_id=background.id if background else None,
        warnings=draft.warnings,
    )
    order = service.place(unit.tx, who, ready, review=parts.worlds[who.mode].review, now=now)
    return send_shape(
        request,
        order,
        recipients=[_recipient(person) for person, _, _ in draft.people],
        sub_account=sub_account_shape(unit.tx, order.sub_account_id),
    )


def _preview(request: Request, draft: Draft, who: Caller, parts: Parts, unit: OneUnit) -> dict[str, Any]:
    """The two sides, drawn for the recipient asked for or the first who can be mailed."""
    now, wish = parts.clock(), draft.wish
    expires = now + PREVIEW_LINK
    chosen = wish.preview_recipient
    if chosen is None:
        chosen = next((i for i, (p, _, _) in enumerate(draft.people) if not p.refusal), 0)
    person, _, code = draft.people[chosen]
    copy = look.specimen(
        person,
        or_current_resident=wish.append_or_current_resident,
        qr_url=f"{parts.press.qr_base}/q/{code}" if code else None,
    )
    sides = draw_preview(draft.design, copy)
    links = []
    for picture in sides.values():
        kept = parts.shelf.put(
            picture, purpose="preview", content_type="image/png", expires_at=expires, now=now
        )
        parts.shelf.record(
            unit.tx, kept, account_id=who.account_id, sub_account_id=wish.sub_account_id, now=now
        )
        links.append(base_of(request) + parts.shelf.path(kept.id, expires=expires))
    data = {"previews": links, "sides": list(sides)}
    return {"success": True, "code": 200, "message": "OK", "data": data}


def _recipient(person: Any) -> dict[str, str | None]:
    names = ("name", "address", "address2", "city", "province", "postal_code", "country")
    return {name: getattr(person, name) for name in names}
