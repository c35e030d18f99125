"""Small pictures of templates, for whoever may see the template: drawn once, and kept by browsers, which ask
whether they still may show it."""

from typing import Annotated

import sqlalchemy as sa
from fastapi import APIRouter, Header, Response

from quillpost.accounts.service import sender_of, tenant
from quillpost.api.needs import id_in_path
from quillpost.creative import templates
from quillpost.creative.images import kept_picture
from quillpost.dashboard.templates import drawing
from quillpost.database.tables import files
from quillpost.giftcards.catalogue import find_brands
from quillpost.kit.errors import NotFound
from quillpost.ports.files import FileMissing
from quillpost.reception.visits import OurParts, Reader

router = APIRouter(include_in_schema=False)

ASKING = "private, no-cache"
"""Whoever may not see it any more, or has signed out, is shown none from the browser's memory."""

Known = Annotated[str, Header(alias="If-None-Match")]


@router.get("/templates/messages/{template_id}/small.png")
def small_message(template_id: str, who: Reader, parts: OurParts, known: Known = "") -> Response:
    """A PDF that is the whole mailer has no such picture."""
    with parts.db.transaction(tenant(who.caller)) as tx:
        template = templates.read_message_template(tx, id_in_path(template_id))
        sender = sender_of(tx, who.caller, template.sub_account_id)
        code = template.giftcard_brand_code
        brand = find_brands(tx, [code]).get(code) if code else None
    if template.skip_creative_generation:
        raise NotFound
    words = drawing.Words(template.changed({}), sender, brand)
    if _is_known(words.name, known):
        return _same(words.name)
    picture = drawing.small_message(parts.studio, words, qr_base=parts.press.qr_base)
    return _picture(picture, words.name)


@router.get("/templates/images/{template_id}/small.png")
def small_image(template_id: str, who: Reader, parts: OurParts, known: Known = "") -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        template = templates.read_image_template(tx, id_in_path(template_id))
        key = tx.execute(sa.select(files.c.key).where(files.c.id == template.image_file_id)).scalar()
    name = drawing.image_name(template.type, template.image_file_id)
    if _is_known(name, known):
        return _same(name)
    if key is None:
        raise NotFound
    try:
        picture = drawing.small_image(
            parts.studio,
            template.type,
            template.image_file_id,
            lambda: kept_picture(parts.shelf.store, key).body,
        )
    except FileMissing:
        raise NotFound from None
    return _picture(picture, name)


def _is_known(name: str, known: str) -> bool:
    return f'"{name}"' in known


def _same(name: str) -> Response:
    return Response(status_code=304, headers={"ETag": f'"{name}"', "Cache-Control": ASKING})


def _picture(picture: bytes, name: str) -> Response:
    headers = {"ETag": f'"{name}"', "Cache-Control": ASKING}
    return Response(picture, media_type="image/png", headers=headers)
