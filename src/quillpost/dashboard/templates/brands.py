"""The gift cards that can be given."""

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.giftcards import catalogue
from quillpost.giftcards.rules import GROUPS
from quillpost.reception.show import show
from quillpost.reception.visits import OurParts, Reader

router = APIRouter(include_in_schema=False)


@router.get("/templates/giftcards")
def brands_page(request: Request, who: Reader, parts: OurParts) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        offered = catalogue.offered(tx)
    groups = [(title, [b for b in offered if b.section == group]) for group, title in GROUPS.items()]
    return show(request, "templates/giftcards.html", who=who, groups=[group for group in groups if group[1]])
