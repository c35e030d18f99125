"""Saved messages, with how they are written."""

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request, Response

from quillpost.accounts.models import Caller
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.app.container import Parts as ServiceParts
from quillpost.core.clock import iso
from quillpost.core.database import Tenant, Tx
from quillpost.orders.giftcards import brands
from quillpost.orders.giftcards.rules import find_offered, no_such_brand, wrong_amount
from quillpost.orders.request import HOUSE_COLOUR, HOUSE_REALISM, HOUSE_SIZE, HOUSE_STYLE
from quillpost.orders.templates import service as template_service
from quillpost.orders.templates.rules import GIFTCARD, examine_draft, unused_fields, without_unused
from quillpost.orders.templates.service import MessageDraft, MessageTemplate
from quillpost.rendering.models import parse_colour
from quillpost.web.api.dependencies import (
    AskedPage,
    AskedSearch,
    InTx,
    Services,
    SubAccountFilter,
    id_in_path,
    may,
)
from quillpost.web.api.errors import BODY_ERRORS, errors
from quillpost.web.api.giftcards.schemas import OLD_AMOUNT, wrong_old_amount
from quillpost.web.api.message_templates import schemas as schemas
from quillpost.web.api.message_templates.schemas import (
    MessageFields,
    MessageTemplateChanges,
    NewMessageTemplate,
)
from quillpost.web.api.orders.filters import WantedTypes
from quillpost.web.api.orders.responses import base_of, brand_image
from quillpost.web.api.orders.schemas import Message
from quillpost.web.api.responses import IGNORED, answer, linked, warning_header
from quillpost.web.api.routes import PREFIX, V2Route

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Message templates"])

MAY_READ = [Depends(may("templates:read"))]
MayWrite = Annotated[Caller, Depends(may("templates:write"))]
TemplateId = Annotated[str, Path(description="The template's id.", json_schema_extra={"type": "integer"})]


def shape(request: Request, template: MessageTemplate) -> dict[str, Any]:
    brand = template.giftcard_brand_code
    return {
        "id": template.id,
        "user_id": template.account_id,
        "sub_account_id": template.sub_account_id,
        "type": template.type,
        "name": template.name,
        "content": template.content,
        **_handwriting(template),
        "additional_pages": template.additional_pages,
        "skip_creative_generation": int(template.skip_creative_generation),
        "custom_background_url": template.custom_background_url,
        "qrcode_url": template.qrcode_url,
        "cc_emails": list(template.cc_emails),
        "giftcard_brand_code": brand,
        "giftcard_brand_image": brand_image(base_of(request), brand) if brand else None,
        "giftcard_amount": template.giftcard_amount,
        "landing_page_url": template.landing_page_url,
        "share_uuid": str(template.share_uuid),
        "created_at": iso(template.created_at),
        "updated_at": iso(template.updated_at),
    }


def _handwriting(template: MessageTemplate) -> dict[str, Any]:
    """How it is written; what the template leaves open is what a send with it would do."""
    style, color, realism = (
        template.handwriting_style_id, template.font_color, template.handwriting_realism,
    )  # fmt: skip
    return {
        "handwriting_style_id": HOUSE_STYLE if style is None else style,
        "font_size": template.font_size or HOUSE_SIZE,
        "font_color": color or parse_colour(HOUSE_COLOUR).rgba_text,
        "handwriting_realism": HOUSE_REALISM if realism is None else realism,
    }


def examined(
    tx: Tx, parts: ServiceParts, body: MessageFields, before: MessageDraft
) -> tuple[MessageDraft, dict[str, str]]:
    """What is saved of a template that was like this before, and the headers that name what is not."""
    wanted, old = before.changed(body.told()), body.giftcard_amount_in_cents
    is_gift, faults = wanted.type in GIFTCARD, dict[str, str]()
    if is_gift and (wrong := wrong_old_amount(old, is_taken=parts.limits.legacy_fields)):
        faults[OLD_AMOUNT] = wrong
    elif is_gift and old is not None and body.giftcard_amount is None:
        wanted = wanted.changed({"giftcard_amount": old})
    draft = without_unused(wanted)
    examine_draft(
        draft,
        styles=parts.studio.hands.styles,
        check_url=parts.check_url,
        most_characters=parts.limits.message_characters,
        known_faults=faults | _wrong_choice(tx, draft),
    )
    unused, given = unused_fields(wanted), body.given()
    ignored = [name for name in unused if name in given]
    ignored += [OLD_AMOUNT] if OLD_AMOUNT in given and not is_gift else []
    headers = {IGNORED: ", ".join(ignored)} if ignored else {}
    if gone := [name for name in unused if name not in given]:
        headers |= warning_header([f"A template of type {draft.type} has no {', '.join(gone)}: removed."])
    return draft, headers


def _wrong_choice(tx: Tx, draft: MessageDraft) -> dict[str, str]:
    """What the catalogue has against the card that a template brings."""
    if draft.type not in GIFTCARD or draft.giftcard_brand_code is None:
        return {}
    offered = brands.offered(tx)
    brand = find_offered(draft.giftcard_brand_code, offered)
    if brand is None:
        return {"giftcard_brand_code": no_such_brand(draft.giftcard_brand_code, offered)}
    wrong = None if draft.giftcard_amount is None else wrong_amount(draft.giftcard_amount, brand)
    return {"giftcard_amount": wrong} if wrong else {}


@router.post(
    "/message-templates",
    status_code=201,
    response_model=schemas.MessageTemplateShape,
    responses=errors(*BODY_ERRORS),
    summary="Save a message",
)
def create_message_template(
    request: Request, body: NewMessageTemplate, who: MayWrite, tx: InTx, parts: Services
) -> Response:
    """What the type has no use for is ignored, and named in `X-Ignored-Fields`."""
    template, headers = save_new_message(tx, who, body, parts)
    return answer(shape(request, template), status=201, headers=headers)


def save_new_message(
    tx: Tx, who: Caller, body: NewMessageTemplate, parts: ServiceParts
) -> tuple[MessageTemplate, dict[str, str]]:
    """The template, and the headers that name what was left out."""
    draft, headers = examined(tx, parts, body, MessageDraft(type=body.type, name=body.name))
    home = template_service.home_of(tx, who, body.sub_account_id)
    columns = draft.columns() | {"account_id": who.account_id, "sub_account_id": home}
    return template_service.insert_message_template(tx, columns, now=parts.clock()), headers


@router.get(
    "/message-templates",
    response_model=schemas.MessageTemplatePage,
    responses=errors(400, 422),
    dependencies=MAY_READ,
    summary="List saved messages, newest first",
)
def list_message_templates(
    request: Request,
    tx: InTx,
    asked: AskedPage,
    sub_account_id: SubAccountFilter,
    types: WantedTypes,
    search: AskedSearch,
) -> Response:
    """Filter by type and sub account; `search` looks at names and contents."""
    if sub_account_id is not None:
        require_sub_account(tx, sub_account_id)
    page = template_service.list_message_templates(
        tx, asked, sub_account_id=sub_account_id, types=types, search=search
    )
    return linked(request, page, partial(shape, request))


@router.get(
    "/message-templates/{template_id}",
    response_model=schemas.MessageTemplateShape,
    responses=errors(404),
    dependencies=MAY_READ,
    summary="Read a saved message",
)
def read_message_template(request: Request, template_id: TemplateId, tx: InTx) -> Response:
    """A saved message with how it is written, as a send with it would be."""
    return answer(shape(request, template_service.read_message_template(tx, id_in_path(template_id))))


@router.put(
    "/message-templates/{template_id}",
    response_model=schemas.MessageTemplateShape,
    responses=errors(404, *BODY_ERRORS),
    summary="Change a saved message",
)
def update_message_template(
    request: Request,
    template_id: TemplateId,
    body: MessageTemplateChanges,
    who: MayWrite,
    tx: InTx,
    parts: Services,
) -> Response:
    """What is not named stays, null clears. The whole must be right for its type afterwards."""
    template, headers = save_changed_message(tx, who, id_in_path(template_id), body, parts)
    return answer(shape(request, template), headers=headers)


def save_changed_message(
    tx: Tx, who: Caller, number: int, body: MessageTemplateChanges, parts: ServiceParts
) -> tuple[MessageTemplate, dict[str, str]]:
    """The template as it is then, and the headers that name what was left out."""
    before = template_service.read_message_template(tx, number, locked=True)
    draft, headers = examined(tx, parts, body, before)
    changes = draft.columns()
    if "sub_account_id" in body.given():
        changes["sub_account_id"] = template_service.home_of(tx, who, body.sub_account_id)
    return template_service.update_message_template(tx, before.id, changes, now=parts.clock()), headers


@router.delete(
    "/message-templates/{template_id}",
    response_model=Message,
    responses=errors(400, 404),
    summary="Delete a saved message",
)
def delete_message_template(template_id: TemplateId, who: MayWrite, parts: Services) -> Response:
    """Not while an order that is reviewing or paused uses it, be it a test order or a live one."""
    with parts.db.transaction(Tenant(who.account_id, who.sub_account_id)) as tx:
        template_service.delete_message_template(tx, id_in_path(template_id))
    return answer({"message": "success"})
