"""Previews at addresses of their own, as other clients ask for them: a send that shows and makes nothing."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

from fastapi import APIRouter, Depends, Response
from pydantic import AliasChoices, Field

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.errors import Invalid
from quillpost.orders.automations.drafts import SAMPLE_RECIPIENT
from quillpost.orders.products import POSTCARD, PRODUCT_FAMILIES
from quillpost.web.api.bodies import Body, Text, validate_body
from quillpost.web.api.dependencies import RequestUnitOfWork, UnitOfWork
from quillpost.web.api.requests import ParsedRequest
from quillpost.web.api.responses import add_ignored_header
from quillpost.web.api.routes import PREFIX, V2Route
from quillpost.web.api.send.endpoints import SENDABLE_PRODUCTS, CanSend, SendableProduct, to_operation_name
from quillpost.web.api.send.requests import SendBody
from quillpost.web.api.send.responses import draft_from_body, preview_response
from quillpost.web.dependencies import Services

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Send"])


class PreviewType(NamedTuple):
    """What a name of `type` stands for; the size of a postcard, where the name has one."""

    sendable: SendableProduct
    size: str | None = None


def _build_types_by_name() -> dict[str, PreviewType]:
    by_product = {sendable.product: sendable for sendable in SENDABLE_PRODUCTS}
    paths = {path: PreviewType(sendable) for sendable in SENDABLE_PRODUCTS for path in sendable.product.paths}
    sized = {
        name: PreviewType(by_product[POSTCARD], family.size) for name, family in PRODUCT_FAMILIES.items() if family.size
    }
    return paths | sized


TYPES_BY_NAME: Mapping[str, PreviewType] = _build_types_by_name()
UNKNOWN_TYPE = f"Name the piece to show: {', '.join(TYPES_BY_NAME)}."


class PreviewBody(Body):
    """`type`, and the body of `POST /send/{piece}`; without an audience a sample recipient stands in."""

    rows: ClassVar[str | None] = "recipients"

    type: Text | None = Field(None, validation_alias=AliasChoices("type", "piece"), max_length=40)

    @classmethod
    def ignored_in(cls, payload: Any) -> set[str]:
        if not isinstance(payload, Mapping):
            return set()
        name = payload.get(_type_field(payload))
        preview_type = _find_type(name) if isinstance(name, str) else None
        unset = {name for name in ("type", "piece") if payload.get(name) is None}
        return (
            set()
            if preview_type is None
            else preview_type.sendable.body.ignored_in(payload) - unset - {_type_field(payload)}
        )


def _type_field(payload: Mapping[str, Any]) -> str:
    """The field that names the piece."""
    return "type" if payload.get("type") is not None else "piece"


def _find_type(name: str | None) -> PreviewType | None:
    """The piece of this name, in any case, if there is such a one."""
    return TYPES_BY_NAME.get((name or "").strip().lower())


@router.post("/preview", include_in_schema=False)
def preview(
    request: ParsedRequest, body: PreviewBody, caller: CanSend, container: Services, unit_of_work: RequestUnitOfWork
) -> Response:
    """A send with `preview` = true, and not described apart from it. `type` names the piece, and the rest is
    the body of its send; without an audience it is drawn for a sample recipient."""
    preview_type = _find_type(body.type)
    if preview_type is None:
        raise Invalid({"type": [UNKNOWN_TYPE]})
    fields = {name: value for name, value in request.parsed_body.items() if name not in ("type", "piece")}
    if preview_type.size is not None and fields.get("size") is None:
        fields["size"] = preview_type.size
    return _preview_response(
        request,
        preview_type.sendable,
        validate_body(preview_type.sendable.body, fields),
        caller,
        container,
        unit_of_work,
    )


def _add_endpoint(sendable: SendableProduct) -> None:
    def preview_piece(
        request: ParsedRequest,
        body: Annotated[SendBody, Depends(sendable.parse_body)],
        caller: CanSend,
        container: Services,
        unit_of_work: RequestUnitOfWork,
    ) -> Response:
        return _preview_response(request, sendable, body, caller, container, unit_of_work)

    for path in sendable.product.paths:
        router.post(f"/preview/{path}", operation_id=f"preview_{to_operation_name(path)}", include_in_schema=False)(
            preview_piece
        )


for sendable_product in SENDABLE_PRODUCTS:
    _add_endpoint(sendable_product)


def _preview_response(
    request: ParsedRequest,
    sendable: SendableProduct,
    body: SendBody,
    caller: Caller,
    container: Container,
    unit_of_work: UnitOfWork,
) -> Response:
    if not (body.recipients or body.mailing_list_ids or body.radius_search or body.radius_center):
        body = body.model_copy(update={"recipients": [dict(SAMPLE_RECIPIENT)]})
    draft = draft_from_body(sendable.product, body, caller, container)
    response = preview_response(request, draft, caller, container, unit_of_work)
    return add_ignored_header(response, body.as_spelled(draft.request.unused_fields, request.parsed_body))
