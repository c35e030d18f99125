"""All webhooks of an account, and how each has fared lately."""

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.dashboard.paging import asked_page
from quillpost.dashboard.webhooks.own_receiver import receiver_address
from quillpost.dashboard.webhooks.webhook_pages import PAGE, webhook_page
from quillpost.reception.visits import OurParts, Reader
from quillpost.webhooks import store
from quillpost.webhooks.health import lately

router = APIRouter(include_in_schema=False)


@router.get(PAGE)
def list_page(request: Request, who: Reader, parts: OurParts, page: str = "") -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        found = store.list_webhooks(tx, asked_page(page), sub_account_id=None)
    return webhook_page(
        request,
        "list.html",
        who,
        parts,
        page=found,
        lately=lately(parts.db, [each.id for each in found.rows]),
        receiver=receiver_address(request, who, parts),
    )
