"""All sub accounts that the reader may see, with what each has sent and spent."""

from datetime import UTC

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import page_of_sub_accounts
from quillpost.dashboard.paging import asked_page
from quillpost.orders.reading import orders_by_sub_account
from quillpost.pricing.books import spent_by_sub_account
from quillpost.reception.show import show
from quillpost.reception.visits import OurParts, Reader

router = APIRouter(include_in_schema=False)

PAGE = "/sub-accounts"
A_PAGE = 50
LONGEST_SOUGHT = 200


@router.get(PAGE)
def list_page(request: Request, who: Reader, parts: OurParts, q: str = "", page: str = "") -> Response:
    now, whose = parts.clock(), tenant(who.caller)
    named = q.replace("\x00", "").strip()[:LONGEST_SOUGHT]
    month = now.astimezone(UTC).date().replace(day=1)
    with parts.db.transaction(whose) as tx:
        found = page_of_sub_accounts(tx, asked_page(page, per_page=A_PAGE), named=named)
        shown = [each.id for each in found.rows]
        orders = orders_by_sub_account(tx, whose, shown)
        spent = spent_by_sub_account(tx, whose, since=month, among=shown)
    return show(
        request,
        "sub_accounts/list.html",
        who=who,
        now=now,
        page=found,
        orders=orders,
        spent=spent,
        month=month,
        typed={"q": named},
    )
