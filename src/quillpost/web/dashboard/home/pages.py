"""The first page: what this is, to a visitor; to whoever is signed in, what happened and what to do."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from fastapi import APIRouter, FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

from quillpost.accounts.service import tenant
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.database import Tx
from quillpost.core.database.tables.notifications import webhooks
from quillpost.core.errors import NotFound, Unavailable
from quillpost.core.hosts import is_this_machine
from quillpost.core.paging import PageRequest
from quillpost.orders.queries import OrderFilter, list_orders
from quillpost.orders.stats import read_days
from quillpost.web import rendering as pages
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.api.errors import answer_to
from quillpost.web.cookies import zone_of
from quillpost.web.dashboard.home.queries import Need, first_steps, has_return_address, needs_of
from quillpost.web.dashboard.lists_common import OtherMode, find_in_other_mode
from quillpost.web.dashboard.orders.labels import journey, piece_words, pieces_words
from quillpost.web.live_updates import stream
from quillpost.web.rendering import show
from quillpost.web.sessions import MaybeReader, OurParts, Reader, is_for_people, is_fragment, reader_of

router = APIRouter(include_in_schema=False)

NOTHING_HERE = "What this was about is gone. Load the page again."
PERIODS: Final = (7, 30, 90)
USUAL_PERIOD = 30
RECENT = PageRequest(page=1, per_page=5)
LIVE_PARTS: Final[Mapping[str, str]] = {
    "needs": "home/needs.html",
    "steps": "home/steps.html",
    "figures": "home/figures.html",
    "days": "home/days.html",
    "recent": "home/recent.html",
}
"""What of the page changes while somebody looks at it, by the name that it has there."""


@router.get("/")
def home(request: Request, parts: OurParts, who: MaybeReader, days: str = "") -> Response:
    if who is None:
        return _show_to_visitor(request, parts)
    now = parts.clock()
    period = _period(days)
    has_receiver, receiver_path = _receiver(request, parts, who)
    return show(
        request,
        "home/page.html",
        who=who,
        period=period,
        periods=PERIODS,
        has_receiver=has_receiver,
        receiver_path=receiver_path,
        **_moving(who, parts, period, zone_of(request), now=now),
    )


@router.get("/home/{account_id}/live")
def follow(request: Request, account_id: str, parts: OurParts, who: Reader, days: str = "") -> Response:
    """The same while it happens. The page says whose it is: a reader who has gone on to another account sees
    nothing of that one here."""
    if id_in_path(account_id) != who.here.account_id:
        raise NotFound
    period, zone = _period(days), zone_of(request)

    def draw() -> Mapping[str, str]:
        shown = _moving(who, parts, period, zone, now=parts.clock())
        return {
            name: pages.text_of(template, who=who, zone=zone, period=period, **shown)
            for name, template in LIVE_PARTS.items()
        }

    return stream(request, who, ("account", who.here.account_id), draw)


def _moving(who: SignedIn, parts: Parts, period: int, zone: ZoneInfo, *, now: datetime) -> dict[str, Any]:
    """What the parts of the page show that change."""
    whose = tenant(who.caller)
    with parts.db.transaction(who.tenant) as tx:
        steps = first_steps(tx, who)
    with parts.db.transaction(whose) as tx:
        return {
            "steps": steps,
            "happened": read_days(tx, whose, days=period, zone=zone, now=now),
            "recent": list_orders(parts.db, tx, whose, RECENT, OrderFilter()),
            "journey": journey,
            "piece_words": piece_words,
            "pieces_words": pieces_words,
            "needs": [*needs_of(tx, who, parts, now=now), *_return_address(tx, who)],
            "now": now,
        }


def _return_address(tx: Tx, who: SignedIn) -> list[Need]:
    """Live mail needs one. To whoever is still testing the first steps say so."""
    if who.mode != "live" or has_return_address(tx, who):
        return []
    text = "No real mail can be sent without one."
    if who.is_owner:
        return [Need("There is no return address", text, "/settings/account", "Set the address")]
    return [Need("There is no return address", f"{text} Ask an owner of the account to set it.", "", "")]


def _period(days: str) -> int:
    return int(days) if days in {str(period) for period in PERIODS} else USUAL_PERIOD


def _show_to_visitor(request: Request, parts: Parts) -> Response:
    has_receiver, receiver_path = _receiver(request, parts, None)
    return show(request, "home/welcome.html", has_receiver=has_receiver, receiver_path=receiver_path)


def _receiver(request: Request, parts: Parts, who: SignedIn | None) -> tuple[bool, str | None]:
    """Whether the built-in receiver tells of this reader's account, and where it is if they may be told."""
    key = parts.receiver_key
    is_theirs = key is not None and (who is None or _is_receiver_of(who, parts))
    may_see = is_theirs and _is_at_this_machine(request)
    return is_theirs, f"/receiver/{key}" if may_see else None


def add_missing_page(app: FastAPI) -> None:
    """People who lose their way get a page; programs, and whoever calls the API, get JSON."""

    async def answer_missing(request: Request, failure: Exception) -> Response:
        if not is_for_people(request):
            return answer_to(request, failure)
        who = await reader_of(request)
        if is_fragment(request):
            return show(request, "part_trouble.html", who=who, status=404, message=NOTHING_HERE)
        found = await _in_other_mode(request, who)
        if found is not None:
            return show(request, "other_mode.html", who=who, found=found)
        return show(request, "missing.html", who=who, status=404)

    app.add_exception_handler(NotFound, answer_missing)
    app.add_exception_handler(404, answer_missing)


async def _in_other_mode(request: Request, who: SignedIn | None) -> OtherMode | None:
    """What a page is about that the reader asked for in the wrong mode."""
    if who is None or request.method not in ("GET", "HEAD"):
        return None
    try:
        return await run_in_threadpool(find_in_other_mode, request.app.state.parts.db, who, request.url.path)
    except Unavailable:
        return None


def _is_at_this_machine(request: Request) -> bool:
    """The receiver's address is its key. Only a visitor from this machine is told it, and only under a
    name of this machine: another site that points its own name here learns nothing."""
    if request.client is None:
        return False
    return is_this_machine(request.client.host) and is_this_machine(request.url.hostname or "")


def _is_receiver_of(who: SignedIn, parts: Parts) -> bool:
    """Whether it tells of this reader's account, and they decide there: it shows every test event of all that
    subscribe it."""
    if not who.is_owner:
        return False
    its_own = sa.or_(
        *(webhooks.c.url.endswith(f"/receiver/{key}/hook", autoescape=True) for key in parts.receiver_keys)
    )
    with parts.db.transaction(who.tenant) as tx:
        mine = webhooks.c.account_id == who.here.account_id
        return tx.execute(sa.select(webhooks.c.id).where(its_own, mine).limit(1)).first() is not None
