"""All orders, the newest first."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import list_sub_accounts, titles_of
from quillpost.dashboard.orders.order_words import STATUSES, TYPE_WORDS, journey, piece_words
from quillpost.dashboard.orders.wanted import Wanted
from quillpost.dashboard.paging import asked_page
from quillpost.database import Tenant, Tx
from quillpost.kit.errors import NotFound
from quillpost.kit.paging import Page, PageRequest
from quillpost.orders import reading, store
from quillpost.orders.records import Order
from quillpost.orders.search import search
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception.show import show
from quillpost.reception.visits import OurParts, Reader, is_fragment
from quillpost.reception.zones import zone_of

router = APIRouter(include_in_schema=False)

MOST_COUNTED = 10_000
MOST_PIECES = 500
"""Of those that a search finds: who has more types more."""
MOST_ORDERS = 100


@dataclass(frozen=True, slots=True)
class Listed:
    """Orders to show. `is_cut`: there are more than are counted, or than a search looks at."""

    page: Page[Order]
    is_cut: bool


@router.get("/orders")
def list_page(request: Request, who: Reader, parts: OurParts, page: str = "") -> Response:
    wanted, zone = Wanted.of(request.query_params), zone_of(request)
    with parts.db.transaction(tenant(who.caller)) as tx:
        listed = _listed(parts, tx, who, wanted, asked_page(page), zone)
        titles = titles_of(list_sub_accounts(tx)) if who.here.sub_account_id is None else {}
    return show(
        request,
        "orders/found.html" if is_fragment(request) else "orders/list.html",
        who=who,
        now=parts.clock(),
        listed=listed,
        wanted=wanted,
        is_part=is_fragment(request),
        typed=wanted.typed,
        titles=titles,
        statuses=STATUSES,
        types=TYPE_WORDS,
        journey=journey,
        piece_words=piece_words,
    )


def _listed(
    parts: Parts, tx: Tx, who: SignedIn, wanted: Wanted, asked: PageRequest, zone: ZoneInfo
) -> Listed:
    if wanted.q and not wanted.metadata:
        return _searched(parts, tx, tenant(who.caller), wanted, zone)
    page = reading.list_orders(
        parts.db, tx, tenant(who.caller), asked, wanted.filter(zone), most=MOST_COUNTED
    )
    is_counted = not wanted.filter(zone).is_tallied
    return Listed(page, is_cut=is_counted and page.total > MOST_COUNTED)


def _searched(parts: Parts, tx: Tx, who: Tenant, wanted: Wanted, zone: ZoneInfo) -> Listed:
    """Orders with this number, or with pieces to somebody of this name, street or e-mail."""
    found, is_cut = _by_number(tx, wanted.number), False
    for sought in wanted.sought if not found else ():
        hits = search(parts.db, tx, who, sought, most=MOST_PIECES)
        found, is_cut = hits.orders, hits.is_cut
        if found:
            break
    kept = [order for order in found if wanted.takes(order, wanted.filter(zone))]
    shown = kept[:MOST_ORDERS]
    return Listed(
        Page(shown, len(shown), PageRequest(1, MOST_ORDERS)), is_cut=is_cut or len(kept) > MOST_ORDERS
    )


def _by_number(tx: Tx, number: int | None) -> Sequence[Order]:
    """The order of this number, or the one with the piece of this number."""
    if number is None:
        return []
    with suppress(NotFound):
        return [store.read_order(tx, number)]
    with suppress(NotFound):
        return [store.read_order(tx, reading.read_item(tx, number).order_id)]
    return []
