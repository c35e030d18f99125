"""All messages, or all images, that are kept, with a small picture of each."""

from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import list_sub_accounts, titles_of
from quillpost.creative import templates
from quillpost.dashboard.paging import asked_page
from quillpost.dashboard.piece_names import TYPE_NAMES
from quillpost.dashboard.templates.words import IMAGE_TYPES, MESSAGE_TYPES
from quillpost.reception.show import show
from quillpost.reception.visits import OurParts, Reader

router = APIRouter(include_in_schema=False)

MESSAGES, IMAGES = "/templates", "/templates/images"
A_PAGE = 24
LONGEST_SOUGHT = 200


@router.get(MESSAGES)
def list_messages(
    request: Request, who: Reader, parts: OurParts, q: str = "", kind: str = "", page: str = ""
) -> Response:
    return _list_page(request, who, parts, is_images=False, sought=(q, kind, page))


@router.get(IMAGES)
def list_images(
    request: Request, who: Reader, parts: OurParts, q: str = "", kind: str = "", page: str = ""
) -> Response:
    return _list_page(request, who, parts, is_images=True, sought=(q, kind, page))


def _list_page(
    request: Request, who: Reader, parts: OurParts, *, is_images: bool, sought: tuple[str, str, str]
) -> Response:
    types = IMAGE_TYPES if is_images else MESSAGE_TYPES
    named, kind = sought[0].replace("\x00", "").strip()[:LONGEST_SOUGHT], sought[1].strip()
    kind = kind if kind in dict(types) else ""
    asked = asked_page(sought[2], per_page=A_PAGE)
    how = {"sub_account_id": None, "types": [kind] if kind else None, "named": named}
    with parts.db.transaction(tenant(who.caller)) as tx:
        found = (
            templates.list_image_templates(tx, asked, **how)  # type: ignore[arg-type]
            if is_images
            else templates.list_message_templates(tx, asked, **how)  # type: ignore[arg-type]
        )
        has_branches = any(template.sub_account_id for template in found.rows)
        titles = titles_of(list_sub_accounts(tx)) if has_branches else {}
    address = IMAGES if is_images else MESSAGES
    query = urlencode({name: value for name, value in (("q", named), ("kind", kind)) if value})
    return show(
        request,
        "templates/images.html" if is_images else "templates/messages.html",
        who=who,
        now=parts.clock(),
        page=found,
        types=types,
        type_titles=TYPE_NAMES,
        titles=titles,
        typed={"q": named, "kind": kind},
        is_filtered=bool(query),
        address=f"{address}?{query}" if query else address,
    )
