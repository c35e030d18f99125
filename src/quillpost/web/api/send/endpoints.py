"""Sending mail, previewing it, and asking what it would cost: the endpoints of each product."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, ClassVar, NamedTuple, cast

from fastapi import Body as JsonBody
from fastapi import Depends, Request, Response
from pydantic import AliasChoices, Field

from quillpost.accounts.models import Caller
from quillpost.accounts.sub_accounts.queries import read_sub_account
from quillpost.app.container import Container
from quillpost.client import send as wire
from quillpost.client.mailing_lists import RadiusPreview, RadiusPreviewData
from quillpost.core.errors import Invalid
from quillpost.orders import service as order_service
from quillpost.orders.automations.service import SAMPLE_RECIPIENT
from quillpost.orders.drafts import previews
from quillpost.orders.drafts import service as draft_service
from quillpost.orders.drafts.models import OrderDraft
from quillpost.orders.drafts.previews import PREVIEW_LIFETIME
from quillpost.orders.drafts.service import OrderEstimate
from quillpost.orders.products import POSTCARD, PRODUCT_FAMILIES, Product
from quillpost.orders.service import OrderFiles
from quillpost.web.api.dependencies import ApiCaller, RequestUnitOfWork
from quillpost.web.api.orders.responses import serialize_send
from quillpost.web.api.requests import ParsedRequest
from quillpost.web.api.responses import add_ignored_header, json_response
from quillpost.web.api.routes import ApiRouter
from quillpost.web.api.schemas import Body, Text, validate_body
from quillpost.web.api.send.requests import SENDABLE_PRODUCTS, SendableProduct, SendBody, SendGiftcard, SendLetter
from quillpost.web.dependencies import Services, UnitOfWork, base_url

router = ApiRouter("Send", resource="send")

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


def body_parser(sendable: SendableProduct) -> Callable[..., Awaitable[SendBody]]:
    """The dependency that reads the product's body."""
    body_type: Any = sendable.body
    examples = {SendLetter: LETTER_EXAMPLES, SendGiftcard: GIFT_EXAMPLES}.get(body_type, EXAMPLES)

    async def parse_body(body: Annotated[body_type, JsonBody(openapi_examples=examples)]) -> SendBody:
        return cast(SendBody, body)

    return parse_body


def to_operation_name(path: str) -> str:
    return path.replace("-", "_").replace("/", "_")


def describe_other_paths(verb: str, product: Product) -> str:
    other_paths = [f"`/{verb}/{path}`" for path in product.paths[1:]]
    return f" Also at {' and '.join(other_paths)}." if other_paths else ""


def _add_endpoints(sendable: SendableProduct) -> None:
    """The endpoints of one piece; only the first of its names is described."""
    product, title, parse_body = sendable.product, sendable.title, body_parser(sendable)

    def send(
        request: ParsedRequest,
        body: Annotated[SendBody, Depends(parse_body)],
        caller: ApiCaller,
        container: Services,
        unit_of_work: RequestUnitOfWork,
    ) -> Response:
        draft = draft_from_body(product, body, caller, container)
        if body.radius_search is not None and body.radius_search.preview:
            response = count_response(draft, caller, container)
        elif body.preview:
            response = preview_response(request, draft, caller, container, unit_of_work)
        else:
            response = create_and_respond(request, draft, caller, container, unit_of_work)
        if unused := draft.request.unused_fields:
            add_ignored_header(response, body.as_spelled(unused, request.parsed_body))
        return response

    def preview_product(
        request: ParsedRequest,
        body: Annotated[SendBody, Depends(parse_body)],
        caller: ApiCaller,
        container: Services,
        unit_of_work: RequestUnitOfWork,
    ) -> Response:
        return _preview_response(request, sendable, body, caller, container, unit_of_work)

    def estimate(
        request: ParsedRequest, body: Annotated[SendBody, Depends(parse_body)], caller: ApiCaller, container: Services
    ) -> Response:
        draft = draft_from_body(product, body, caller, container)
        response = estimate_response(draft, caller, container)
        return add_ignored_header(response, body.as_spelled(draft.request.unused_fields, request.parsed_body))

    for path in product.paths:
        is_described, name = path == product.paths[0], to_operation_name(path)
        router.post(
            f"/send/{path}",
            wire.SendResponse | wire.PreviewResponse | RadiusPreview,
            operation_id=f"send_{name}",
            errors=[402],
            summary=f"Send {title}",
            description=f"Send {title} to everyone in the audience, or with `preview` = true see how it will look."
            f"{describe_other_paths('send', product)} At `/preview/{product.paths[0]}` it is a preview, for a sample"
            " recipient where no audience is given.",
            include_in_schema=is_described,
        )(send)
        router.post(
            f"/estimate/{path}",
            wire.EstimateResponse,
            operation_id=f"estimate_{name}",
            summary=f"What sending {title} would cost",
            description="The body of a send, checked in every respect; nothing is stored."
            f"{describe_other_paths('estimate', product)}",
            include_in_schema=is_described,
        )(estimate)
        router.post(f"/preview/{path}", operation_id=f"preview_{name}", include_in_schema=False)(preview_product)


for sendable_product in SENDABLE_PRODUCTS:
    _add_endpoints(sendable_product)


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
    return "type" if payload.get("type") is not None else "piece"


def _find_type(name: str | None) -> PreviewType | None:
    return TYPES_BY_NAME.get((name or "").strip().lower())


@router.post("/preview", include_in_schema=False)
def preview(
    request: ParsedRequest, body: PreviewBody, caller: ApiCaller, container: Services, unit_of_work: RequestUnitOfWork
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


def draft_from_body(product: Product, body: SendBody, caller: Caller, container: Container) -> OrderDraft:
    """The body's order, checked in every respect."""
    request, errors = body.to_order_request(product, container.limits, now=container.clock())
    return draft_service.draft_order(container.orders, caller, request, errors)


def estimate_response(draft: OrderDraft, caller: Caller, container: Container) -> Response:
    estimate = draft_service.estimate_order(container.orders, caller, draft)
    warnings = list_estimate_warnings(estimate, caller, container)
    audience = estimate.audience
    data: wire.EstimateData = {
        "type": estimate.type,
        "total_recipients": audience.mailed_items,
        "suppressed": audience.suppressed,
        "duplicates": audience.duplicates,
        "undeliverable": audience.undeliverable,
        "unit_price": estimate.unit_price,
        "leads_fee": estimate.leads_fee,
        "giftcard_total": audience.gift_total,
        "authorization_total": estimate.total_cents,
        "test_mode": caller.mode == "test",
        "warnings": warnings,
    }
    content = wire.EstimateResponse(message="OK", data=data)
    return json_response(content, warnings=warnings)


def list_estimate_warnings(estimate: OrderEstimate, caller: Caller, container: Container) -> list[str]:
    return [*estimate.warnings, *draft_service.list_credit_warnings(container.orders, caller, estimate.total_cents)]


def count_response(draft: OrderDraft, caller: Caller, container: Container) -> Response:
    assert draft.lead_search_result is not None
    estimate = draft_service.estimate_order(container.orders, caller, draft)
    data: RadiusPreviewData = {
        "count": len(draft.lead_search_result.people),
        "leads_fee": estimate.leads_fee,
        "unit_price": estimate.unit_price,
        "estimated_total": estimate.total_cents,
        "warnings": estimate.warnings,
    }
    content = RadiusPreview(success=True, code=200, message="OK", data=data)
    return json_response(content, warnings=estimate.warnings)


def create_and_respond(
    request: Request,
    draft: OrderDraft,
    caller: Caller,
    container: Container,
    unit_of_work: UnitOfWork,
    *,
    files: OrderFiles | None = None,
) -> Response:
    """Create the order and answer with it; its `files` may be in storage already."""
    context = container.orders
    files = files or order_service.store_files(context, caller, draft)
    order, audience = order_service.create_order(context, unit_of_work.tx, caller, draft, files)
    content = serialize_send(
        request,
        container,
        order,
        people=audience.people,
        sub_account=read_sub_account(unit_of_work.tx, order.sub_account_id) if order.sub_account_id else None,
    )
    warnings = [*draft.pause_warnings, *order.warnings, *draft_service.list_stock_warnings(draft, audience)]
    return json_response(content, warnings=warnings)


def preview_response(
    request: Request,
    draft: OrderDraft,
    caller: Caller,
    container: Container,
    unit_of_work: UnitOfWork,
    *,
    extra_data: Mapping[str, Any] | None = None,
) -> Response:
    """Draw the piece and answer with links to the pictures; `extra_data` is in the data as well."""
    preview = previews.preview_order(container.orders, caller, draft)
    previews.record_preview(container.orders, unit_of_work.tx, caller, draft, preview)
    expires_at = container.clock() + PREVIEW_LIFETIME
    urls = {
        file.id: base_url(request) + container.storage.signed_path(file.id, expires_at=expires_at)
        for file in preview.files
    }
    data: wire.PreviewData = {
        "previews": [urls[file.id] for file in preview.sides.values()],
        "sides": list(preview.sides),
        "warnings": preview.warnings,
    }
    if preview.envelope is not None:
        data["envelope"] = urls[preview.envelope.id]
    content = {"success": True, "code": 200, "message": "OK", "data": {**data, **(extra_data or {})}}
    return json_response(content, warnings=preview.warnings)
