"""Saved messages, and the handwriting styles they use."""

from functools import partial
from typing import Annotated, Any, cast

from fastapi import Path, Request, Response

from quillpost.accounts.sub_accounts.queries import require_sub_account
from quillpost.client import templates as wire
from quillpost.client.types import MessageResponse
from quillpost.core.database import Tenant
from quillpost.core.text import format_iso
from quillpost.orders.models import REALISM_FIELD, Handwriting
from quillpost.orders.templates import service as template_service
from quillpost.orders.templates.models import MessageTemplate, MessageTemplateValues
from quillpost.orders.templates.rules import GIFTCARD_TYPES, find_unused_fields
from quillpost.rendering.models import parse_color
from quillpost.web.api.dependencies import (
    ApiCaller,
    PageQuery,
    PathId,
    RequestTransaction,
    SearchQuery,
    SubAccountFilter,
)
from quillpost.web.api.orders.responses import brand_image_url
from quillpost.web.api.orders.search import TemplateTypesQuery
from quillpost.web.api.responses import IGNORED_HEADER, build_warning_header, json_response, page_of, page_response
from quillpost.web.api.routes import ApiRouter
from quillpost.web.api.send.schemas import LEGACY_AMOUNT_FIELD
from quillpost.web.api.templates.schemas import MessageFields, MessageTemplateChanges, NewMessageTemplate
from quillpost.web.dependencies import Services, base_url

router = ApiRouter("Message templates", resource="templates")

TemplateId = Annotated[PathId, Path(description="The template's id.")]


def serialize_message_template(request: Request, template: MessageTemplate) -> wire.MessageTemplate:
    brand = template.giftcard_brand_code
    content = {
        "id": template.id,
        "user_id": template.account_id,
        "sub_account_id": template.sub_account_id,
        "type": template.type,
        "name": template.name,
        "content": template.content,
        **_serialize_handwriting(template),
        "additional_pages": template.additional_pages,
        "skip_creative_generation": int(template.skip_creative_generation),
        "custom_background_url": template.custom_background_url,
        "qrcode_url": template.qrcode_url,
        "cc_emails": list(template.cc_emails),
        "giftcard_brand_code": brand,
        "giftcard_brand_image": brand_image_url(base_url(request), brand) if brand else None,
        "giftcard_amount": template.giftcard_amount,
        "landing_page_url": template.landing_page_url,
        "share_uuid": str(template.share_uuid),
        "created_at": format_iso(template.created_at),
        "updated_at": format_iso(template.updated_at),
    }
    return cast(wire.MessageTemplate, content)


def _serialize_handwriting(template: MessageTemplate) -> dict[str, Any]:
    """How it is written; what the template leaves open is what a send with it would do."""
    handwriting = Handwriting(**template.stated_handwriting)
    return {
        "handwriting_style_id": handwriting.style,
        "font_color": template.font_color or parse_color(handwriting.color).rgba_text,
        "font_size": handwriting.size,
        REALISM_FIELD: handwriting.is_realistic,
    }


@router.post("/message-templates", wire.MessageTemplate, status_code=201, summary="Save a message")
def create_message_template(
    request: Request, body: NewMessageTemplate, caller: ApiCaller, tx: RequestTransaction, container: Services
) -> Response:
    """What the type has no use for is ignored, and named in `X-Ignored-Fields`."""
    before = MessageTemplateValues(type=body.type, name=body.name)
    requested, errors = body.to_values(before, allows_legacy_fields=container.limits.legacy_fields)
    template = template_service.create_message_template(
        container.orders,
        tx,
        caller,
        requested,
        errors,
        sub_account_id=body.sub_account_id,
        max_characters=container.limits.message_characters,
    )
    headers = _unused_headers(body, requested)
    return json_response(serialize_message_template(request, template), status=201, headers=headers)


def _unused_headers(body: MessageFields, requested: MessageTemplateValues) -> dict[str, str]:
    """Name what the type has no use for: what the body gives is ignored, what was there is removed."""
    unused, provided = find_unused_fields(requested), body.provided_fields()
    ignored = [name for name in unused if name in provided]
    if LEGACY_AMOUNT_FIELD in provided and requested.type not in GIFTCARD_TYPES:
        ignored.append(LEGACY_AMOUNT_FIELD)
    headers = {IGNORED_HEADER: ", ".join(ignored)} if ignored else {}
    if removed := [name for name in unused if name not in provided]:
        headers |= build_warning_header([f"A template of type {requested.type} has no {', '.join(removed)}: removed."])
    return headers


@router.get("/message-templates", page_of(wire.MessageTemplate), summary="List saved messages, newest first")
def list_message_templates(
    request: Request,
    tx: RequestTransaction,
    page_request: PageQuery,
    sub_account_id: SubAccountFilter,
    types: TemplateTypesQuery,
    search: SearchQuery,
) -> Response:
    """Filter by type and sub account; `search` looks at names and contents."""
    require_sub_account(tx, sub_account_id)
    page = template_service.MESSAGE_TEMPLATES.list(
        tx, page_request, sub_account_id=sub_account_id, types=types, search=search
    )
    return page_response(request, page, partial(serialize_message_template, request))


@router.get("/message-templates/{template_id}", wire.MessageTemplate, summary="Read a saved message")
def read_message_template(request: Request, template_id: TemplateId, tx: RequestTransaction) -> Response:
    """A saved message with how it is written, as a send with it would be."""
    return json_response(serialize_message_template(request, template_service.MESSAGE_TEMPLATES.read(tx, template_id)))


@router.put("/message-templates/{template_id}", wire.MessageTemplate, summary="Change a saved message")
def update_message_template(
    request: Request,
    template_id: TemplateId,
    body: MessageTemplateChanges,
    caller: ApiCaller,
    tx: RequestTransaction,
    container: Services,
) -> Response:
    """What is not named stays, null clears. The whole must be right for its type afterwards."""
    before = template_service.MESSAGE_TEMPLATES.read(tx, template_id, locked=True)
    requested, errors = body.to_values(before, allows_legacy_fields=container.limits.legacy_fields)
    template = template_service.change_message_template(
        container.orders,
        tx,
        caller,
        before,
        requested,
        errors,
        sub_account_id=body.sub_account_id,
        moves="sub_account_id" in body.provided_fields(),
        max_characters=container.limits.message_characters,
    )
    return json_response(serialize_message_template(request, template), headers=_unused_headers(body, requested))


@router.delete("/message-templates/{template_id}", MessageResponse, errors=[400], summary="Delete a saved message")
def delete_message_template(template_id: TemplateId, caller: ApiCaller, container: Services) -> Response:
    """Not while an order that is reviewing or paused uses it, be it a test order or a live one."""
    with container.db.transaction(Tenant(caller.account_id, caller.sub_account_id)) as tx:
        template_service.MESSAGE_TEMPLATES.delete(tx, template_id)
    return json_response({"message": "success"})
