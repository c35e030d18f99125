"""Previews at addresses of their own, as other clients ask for them: a send that shows and makes nothing."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

from fastapi import APIRouter, Depends, Response
from pydantic import AliasChoices, Field

from quillpost.accounts.models import Caller
from quillpost.app.container import Parts as ServiceParts
from quillpost.core.errors import Invalid
from quillpost.orders.automations.drafts import SAMPLE
from quillpost.orders.products import FAMILIES, POSTCARD
from quillpost.web.api.bodies import Body, Text, read_body
from quillpost.web.api.dependencies import OneUnit, Services, Unit
from quillpost.web.api.requests import ReadRequest
from quillpost.web.api.responses import name_ignored
from quillpost.web.api.routes import PREFIX, V2Route
from quillpost.web.api.send.endpoints import OFFERS, MaySend, Offer, operation_word
from quillpost.web.api.send.requests import SendBody
from quillpost.web.api.send.service import draft_of, show

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Send"])


class Shown(NamedTuple):
    """What a name of `type` stands for; the size of a postcard, where the name has one."""

    offer: Offer
    size: str | None = None


def _by_name() -> dict[str, Shown]:
    by_piece = {offer.piece: offer for offer in OFFERS}
    paths = {path: Shown(offer) for offer in OFFERS for path in offer.piece.paths}
    sized = {name: Shown(by_piece[POSTCARD], family.size) for name, family in FAMILIES.items() if family.size}
    return paths | sized


BY_NAME: Mapping[str, Shown] = _by_name()
NO_TYPE = f"Name the piece to show: {', '.join(BY_NAME)}."


class AnyPreview(Body):
    """`type`, and the body of `POST /send/{piece}`; without an audience a sample recipient stands in."""

    rows: ClassVar[str | None] = "recipients"

    type: Text | None = Field(
        None,
        validation_alias=AliasChoices("type", "piece"),
        max_length=40,
    )

    @classmethod
    def ignored_in(cls, sent: Any) -> set[str]:
        if not isinstance(sent, Mapping):
            return set()
        name = sent.get(_key(sent))
        shown = _shown(name) if isinstance(name, str) else None
        unsaid = {name for name in ("type", "piece") if sent.get(name) is None}
        return set() if shown is None else shown.offer.body.ignored_in(sent) - unsaid - {_key(sent)}


def _key(sent: Mapping[str, Any]) -> str:
    """The field that names the piece."""
    return "type" if sent.get("type") is not None else "piece"


def _shown(name: str | None) -> Shown | None:
    """The piece of this name, in any case, if there is such a one."""
    return BY_NAME.get((name or "").strip().lower())


@router.post("/preview", include_in_schema=False)
def preview(request: ReadRequest, body: AnyPreview, who: MaySend, parts: Services, unit: OneUnit) -> Response:
    """A send with `preview` = true, and not described apart from it. `type` names the piece, and the rest is
    the body of its send; without an audience it is drawn for a sample recipient."""
    shown = _shown(body.type)
    if shown is None:
        raise Invalid({"type": [NO_TYPE]})
    given = {name: value for name, value in request.understood.items() if name not in ("type", "piece")}
    if shown.size is not None and given.get("size") is None:
        given["size"] = shown.size
    return _show(request, shown.offer, read_body(shown.offer.body, given), who, parts, unit)


def _offer(offer: Offer) -> None:
    def preview_piece(
        request: ReadRequest,
        body: Annotated[SendBody, Depends(offer.read)],
        who: MaySend,
        parts: Services,
        unit: OneUnit,
    ) -> Response:
        return _show(request, offer, body, who, parts, unit)

    for path in offer.piece.paths:
        router.post(
            f"/preview/{path}", operation_id=f"preview_{operation_word(path)}", include_in_schema=False
        )(preview_piece)


for each in OFFERS:
    _offer(each)


def _show(
    request: ReadRequest, offer: Offer, body: SendBody, who: Caller, parts: ServiceParts, unit: Unit
) -> Response:
    if not (body.recipients or body.mailing_list_ids or body.radius_search or body.radius_center):
        body = body.model_copy(update={"recipients": [dict(SAMPLE)]})
    draft = draft_of(offer.piece, body, who, parts)
    answered = show(request, draft, who, parts, unit)
    return name_ignored(answered, body.spelled(draft.wish.unused, request.understood))
