"""Saved messages, and the handwriting styles they use."""

from functools import partial
from typing import Annotated, Any, cast

from fastapi import Depends, Path, Request, Response

from quillpost.accounts.models import Caller
from quillpost.accounts.sub_accounts.queries import require_sub_account
from quillpost.app.container import Container
from quillpost.client import templates as wire
from quillpost.client.types import MessageResponse
from quillpost.core.database import Tenant, Tx
from quillpost.core.text import format_iso
from quillpost.orders.giftcards import queries as giftcard_queries
from quillpost.orders.giftcards.rules import amount_error, find_offered_brand, unknown_brand_error
from quillpost.orders.models import REALISM_FIELD, Handwriting
from quillpost.orders.templates import service as template_service
from quillpost.orders.templates.rules import GIFTCARD_TYPES, clear_unused_fields, find_unused_fields, validate_template
from quillpost.orders.templates.service import MessageTemplate, MessageTemplateValues
from quillpost.rendering.models import parse_color
from quillpost.rendering.previews import sample_version
from quillpost.web.api.dependencies import (
    PageQuery,
    PathId,
    RequestTransaction,
    SearchQuery,
    SubAccountFilter,
    require_scope,
)
from quillpost.web.api.errors import BODY_ERRORS
from quillpost.web.api.orders.responses import brand_image_url
from quillpost.web.api.orders.search import TemplateTypesQuery
from quillpost.web.api.responses import (
    IGNORED_HEADER,
    build_warning_header,
    json_response,
    list_of,
    page_of,
    page_response,
)
from quillpost.web.api.routes import ApiRouter
from quillpost.web.api.send.schemas import LEGACY_AMOUNT_FIELD, check_legacy_amount
from quillpost.web.api.templates.schemas import MessageFields, MessageTemplateChanges, NewMessageTemplate
from quillpost.web.dependencies import Services, base_url

router = ApiRouter("Message templates")

CanWrite = Annotated[Caller, Depends(require_scope("templates:write"))]
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
    values = handwriting.column_values()
    return {
        "handwriting_style_id": handwriting.style,
        "font_color": template.font_color or parse_color(handwriting.color).rgba_text,
        **{name: values[name] for name in ("font_size", REALISM_FIELD)},
    }


def check_draft(
    tx: Tx, container: Container, body: MessageFields, before: MessageTemplateValues
) -> tuple[MessageTemplateValues, dict[str, str]]:
    """What is saved of a template that was like this before, and the headers that name what is not."""
    requested, legacy_amount = before.with_values(body.draft_values()), body.giftcard_amount_in_cents
    is_giftcard, errors = requested.type in GIFTCARD_TYPES, dict[str, str]()
    if is_giftcard and (error := check_legacy_amount(legacy_amount, is_allowed=container.limits.legacy_fields)):
        errors[LEGACY_AMOUNT_FIELD] = error
    elif is_giftcard and legacy_amount is not None and body.giftcard_amount is None:
        requested = requested.with_values({"giftcard_amount": legacy_amount})
    draft = clear_unused_fields(requested)
    validate_template(
        draft,
        styles=container.renderer.hands.styles,
        check_url=container.check_url,
        max_characters=container.limits.message_characters,
        known_errors=errors | _check_giftcard(tx, draft),
    )
    unused, provided = find_unused_fields(requested), body.provided_fields()
    ignored = [name for name in unused if name in provided]
    ignored += [LEGACY_AMOUNT_FIELD] if LEGACY_AMOUNT_FIELD in provided and not is_giftcard else []
    headers = {IGNORED_HEADER: ", ".join(ignored)} if ignored else {}
    if removed := [name for name in unused if name not in provided]:
        headers |= build_warning_header([f"A template of type {draft.type} has no {', '.join(removed)}: removed."])
    return draft, headers


def _check_giftcard(tx: Tx, draft: MessageTemplateValues) -> dict[str, str]:
    if draft.type not in GIFTCARD_TYPES or draft.giftcard_brand_code is None:
        return {}
    offered = giftcard_queries.list_offered_brands(tx)
    brand = find_offered_brand(draft.giftcard_brand_code, offered)
    if brand is None:
        return {"giftcard_brand_code": unknown_brand_error(draft.giftcard_brand_code, offered)}
    error = None if draft.giftcard_amount is None else amount_error(draft.giftcard_amount, brand)
    return {"giftcard_amount": error} if error else {}


@router.post(
    "/message-templates", wire.MessageTemplate, status_code=201, errors=[*BODY_ERRORS], summary="Save a message"
)
def create_message_template(
    request: Request, body: NewMessageTemplate, caller: CanWrite, tx: RequestTransaction, container: Services
) -> Response:
    """What the type has no use for is ignored, and named in `X-Ignored-Fields`."""
    template, headers = save_new_message_template(tx, caller, body, container)
    return json_response(serialize_message_template(request, template), status=201, headers=headers)


def save_new_message_template(
    tx: Tx, caller: Caller, body: NewMessageTemplate, container: Container
) -> tuple[MessageTemplate, dict[str, str]]:
    draft, headers = check_draft(tx, container, body, MessageTemplateValues(type=body.type, name=body.name))
    sub_account_id = template_service.choose_sub_account(tx, caller, body.sub_account_id)
    columns = draft.column_values() | {"account_id": caller.account_id, "sub_account_id": sub_account_id}
    return template_service.MESSAGE_TEMPLATES.insert(tx, columns, now=container.clock()), headers


@router.get(
    "/message-templates",
    page_of(wire.MessageTemplate),
    errors=[400, 422],
    scope="templates:read",
    summary="List saved messages, newest first",
)
def list_message_templates(
    request: Request,
    tx: RequestTransaction,
    page_request: PageQuery,
    sub_account_id: SubAccountFilter,
    types: TemplateTypesQuery,
    search: SearchQuery,
) -> Response:
    """Filter by type and sub account; `search` looks at names and contents."""
    if sub_account_id is not None:
        require_sub_account(tx, sub_account_id)
    page = template_service.MESSAGE_TEMPLATES.list(
        tx, page_request, sub_account_id=sub_account_id, types=types, search=search
    )
    return page_response(request, page, partial(serialize_message_template, request))


@router.get(
    "/message-templates/{template_id}",
    wire.MessageTemplate,
    errors=[404],
    scope="templates:read",
    summary="Read a saved message",
)
def read_message_template(request: Request, template_id: TemplateId, tx: RequestTransaction) -> Response:
    """A saved message with how it is written, as a send with it would be."""
    return json_response(serialize_message_template(request, template_service.MESSAGE_TEMPLATES.read(tx, template_id)))


@router.put(
    "/message-templates/{template_id}",
    wire.MessageTemplate,
    errors=[404, *BODY_ERRORS],
    summary="Change a saved message",
)
def update_message_template(
    request: Request,
    template_id: TemplateId,
    body: MessageTemplateChanges,
    caller: CanWrite,
    tx: RequestTransaction,
    container: Services,
) -> Response:
    """What is not named stays, null clears. The whole must be right for its type afterwards."""
    template, headers = save_changed_message_template(tx, caller, template_id, body, container)
    return json_response(serialize_message_template(request, template), headers=headers)


def save_changed_message_template(
    tx: Tx, caller: Caller, template_id: int, body: MessageTemplateChanges, container: Container
) -> tuple[MessageTemplate, dict[str, str]]:
    before = template_service.MESSAGE_TEMPLATES.read(tx, template_id, locked=True)
    draft, headers = check_draft(tx, container, body, before)
    changes = draft.column_values()
    if "sub_account_id" in body.provided_fields():
        changes["sub_account_id"] = template_service.choose_sub_account(tx, caller, body.sub_account_id)
    return template_service.MESSAGE_TEMPLATES.update(tx, before.id, changes, now=container.clock()), headers


@router.delete("/message-templates/{template_id}", MessageResponse, errors=[400, 404], summary="Delete a saved message")
def delete_message_template(template_id: TemplateId, caller: CanWrite, container: Services) -> Response:
    """Not while an order that is reviewing or paused uses it, be it a test order or a live one."""
    with container.db.transaction(Tenant(caller.account_id, caller.sub_account_id)) as tx:
        template_service.MESSAGE_TEMPLATES.delete(tx, template_id)
    return json_response({"message": "success"})


style_router = ApiRouter("Handwriting")


@style_router.get(
    "/handwriting-styles", list_of(wire.HandwritingStyle), scope="templates:read", summary="List the hands"
)
def list_handwriting_styles(request: Request, container: Services) -> Response:
    """Give a send one of these ids as `handwriting_style`. The samples need no token."""
    base = base_url(request)
    return json_response(
        {
            "data": [
                {
                    "handwriting_style_id": style.number,
                    "name": style.name,
                    "sample": f"{base}/hands/{style.number}.png?v={sample_version(style)}",
                    "type": style.kind,
                }
                for style in container.renderer.hands.styles.values()
            ]
        }
    )
