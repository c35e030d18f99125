"""Deleting a saved message or image: asks first, and says what still needs it."""

from collections.abc import Callable
from typing import NamedTuple

from fastapi import APIRouter, Request, Response

from quillpost.api.needs import id_in_path
from quillpost.creative import templates
from quillpost.creative.templates import ImageTemplate, MessageTemplate
from quillpost.dashboard.form_pages import are_you_sure
from quillpost.dashboard.templates.listing import IMAGES, MESSAGES
from quillpost.database import Tx
from quillpost.kit.errors import Refused
from quillpost.reception.forms import PostedForm
from quillpost.reception.show import go
from quillpost.reception.visits import OurParts, Reader

router = APIRouter(include_in_schema=False)

ORDERS_KEEP = "Orders that were sent with it keep what they have."


class Kind(NamedTuple):
    """What is deleted, and how."""

    read: Callable[[Tx, int], ImageTemplate | MessageTemplate]
    require_unused: Callable[[Tx, int], None]
    delete: Callable[[Tx, int], None]
    list_page: str
    said: str


MESSAGE = Kind(
    templates.read_message_template,
    templates.require_unused_message,
    templates.delete_message_template,
    MESSAGES,
    "message_deleted",
)
IMAGE = Kind(
    templates.read_image_template,
    templates.require_unused_image,
    templates.delete_image_template,
    IMAGES,
    "image_deleted",
)


@router.get("/templates/messages/{template_id}/delete")
def message_page(request: Request, template_id: str, who: Reader, parts: OurParts) -> Response:
    return _ask(request, MESSAGE, template_id, who, parts)


@router.post("/templates/messages/{template_id}/delete")
def delete_message(
    request: Request, template_id: str, who: Reader, _form: PostedForm, parts: OurParts
) -> Response:
    return _delete(request, MESSAGE, template_id, who, parts)


@router.get("/templates/images/{template_id}/delete")
def image_page(request: Request, template_id: str, who: Reader, parts: OurParts) -> Response:
    return _ask(request, IMAGE, template_id, who, parts)


@router.post("/templates/images/{template_id}/delete")
def delete_image(
    request: Request, template_id: str, who: Reader, _form: PostedForm, parts: OurParts
) -> Response:
    return _delete(request, IMAGE, template_id, who, parts)


def _ask(
    request: Request, kind: Kind, template_id: str, who: Reader, parts: OurParts, refused: str | None = None
) -> Response:
    """In both modes: what a live order needs cannot be deleted while one looks at test mode."""
    with parts.db.transaction(who.tenant) as tx:
        template = kind.read(tx, id_in_path(template_id))
        means = ["It is gone for everybody in this account, in test mode and live.", ORDERS_KEEP]
        try:
            kind.require_unused(tx, template.id)
        except Refused as needed:
            means.append(f"It cannot be deleted yet. {needed.message}")
    return are_you_sure(
        request,
        who,
        title=f"Delete “{template.name}”?",
        means=means,
        button="Delete it",
        back=kind.list_page,
        refused=refused,
    )


def _delete(request: Request, kind: Kind, template_id: str, who: Reader, parts: OurParts) -> Response:
    try:
        with parts.db.transaction(who.tenant) as tx:
            kind.delete(tx, id_in_path(template_id))
    except Refused as refused:
        return _ask(request, kind, template_id, who, parts, refused.message)
    return go(kind.list_page, said=kind.said)
