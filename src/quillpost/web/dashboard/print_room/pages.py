"""The print room today, and the feeds of carriers and printers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any

from fastapi import APIRouter, Request, Response

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core import jobs
from quillpost.core.clock import ago
from quillpost.core.database import Tx
from quillpost.core.errors import Forbidden, Invalid, Refused
from quillpost.fulfillment.batching import list_due
from quillpost.fulfillment.print_room import counts
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.fulfillment.print_room.counts import MOST_HELD, HandOvers, Lying, Stuck
from quillpost.fulfillment.rules import next_cutoff
from quillpost.fulfillment.tracking.ports import CarrierDown, SetAside
from quillpost.fulfillment.tracking.queries import Heard, heard
from quillpost.notifications.webhooks.health import count_unwell
from quillpost.web.api.print_room.requests import Rush
from quillpost.web.cookies import zone_of
from quillpost.web.dashboard.forms import EMPTY, Filled, read_body, show_form
from quillpost.web.dashboard.labels import PIECE_NAMES
from quillpost.web.dashboard.print_room.labels import CLASSES, STATUSES, TINTS, numbers_in
from quillpost.web.forms import PostedForm
from quillpost.web.rendering import go, plural
from quillpost.web.sessions import Operator, OurParts, is_fragment

ROOM = "/print-room"
LIVE_ALONE = (
    "This holds for live mail, too, so it is changed in live mode alone. Switch to live at the top of the"
    " page, and try again."
)


def room_page(
    request: Request,
    template: str,
    who: SignedIn,
    parts: Parts,
    *,
    form: Filled = EMPTY,
    status: int | None = None,
    **values: Any,
) -> Response:
    """The page. Faults of no field that it has are its template's to show at the top, as `faults[""]`."""
    return show_form(
        request,
        f"print_room/{template}",
        who,
        form,
        status=status,
        now=parts.clock(),
        world=parts.worlds[who.mode],
        **values,
    )


def moved_under(form: Filled, known: Sequence[str], top: str) -> Filled:
    """Faults of a part of a field, such as `amounts.3`, told at the field, and those of fields that the form
    does not have at `top`."""
    faults: dict[str, list[str]] = {}
    for name, sentences in form.faults.items():
        field = name.partition(".")[0]
        faults.setdefault(field if field in known else top, []).extend(sentences)
    return Filled(form.typed, faults)


def require_live(who: SignedIn) -> None:
    """For what is one and the same in both modes."""
    if who.mode != "live":
        raise Forbidden(LIVE_ALONE)


def noted(who: SignedIn, parts: Parts, act: str, about: Mapping[str, Any]) -> Callable[[Tx], None]:
    """A line in the log of the operator's account, for a deed that has a transaction of its own."""
    return lambda tx: note(tx, who, parts, act, about)


def counted(who: SignedIn, parts: Parts, act: str, about: Mapping[str, Any]) -> Callable[[Tx, int], None]:
    """The same for one that is done to several, which are not known yet."""
    return lambda tx, how_many: note(tx, who, parts, act, {**about, "how_many": how_many})


def note(tx: Tx, who: SignedIn, parts: Parts, act: str, about: Mapping[str, Any]) -> None:
    audit_service.note(tx, who.here.account_id, act, who.actor, about=about, now=parts.clock())


router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Need:
    """Something that goes on only if a person looks at it. `how` is bad, or pending: it can wait a little."""

    words: str
    href: str
    do: str
    how: str = "bad"


@router.get(ROOM)
def today(request: Request, who: Operator, parts: OurParts) -> Response:
    """A page that asks for the part of it that changes gets that alone."""
    return _page(request, who, parts, template="today_part.html" if is_fragment(request) else "today.html")


@router.post(f"{ROOM}/pool")
def pool(who: Operator, _form: PostedForm, parts: OurParts) -> Response:
    told = counted(who, parts, "orders.pooled", {"mode": who.mode})
    early = print_room_service.pool_now(parts.db, who.mode, noted=told, now=parts.clock())
    return go(ROOM, said="batches_pooled" if early else "nothing_pooled")


@router.post(f"{ROOM}/rush")
def rush(request: Request, who: Operator, form: PostedForm, parts: OurParts) -> Response:
    try:
        body = read_body(Rush, {"order_ids": numbers_in(form.text("orders", most=5_000), field="orders")})
        rushed = print_room_service.rush(
            parts.db,
            who.mode,
            body.order_ids,
            operator_id=who.here.account_id,
            noted=counted(who, parts, "orders.rushed", {"mode": who.mode}),
            now=parts.clock(),
        )
    except (Invalid, Refused) as refused:
        filled = moved_under(Filled.back(form, refused, at="orders"), ["orders"], "orders")
        return _page(request, who, parts, form=filled)
    return go(ROOM, said="orders_rushed" if rushed else "orders_unrushed")


def _page(
    request: Request, who: SignedIn, parts: Parts, *, form: Filled = EMPTY, template: str = "today.html"
) -> Response:
    now, zone = parts.clock(), zone_of(request)
    since = datetime.combine(now.astimezone(zone).date(), time(), zone)
    with parts.db.work() as tx:
        standing = counts.lying(tx, who.mode, now=now)
        values: dict[str, Any] = {
            "due": list_due(tx, who.mode),
            "done": counts.done_since(tx, who.mode, since=since, now=now),
            "needs": needs(tx, who, parts, standing, now=now),
        }
    world = parts.worlds[who.mode]
    return room_page(
        request,
        template,
        who,
        parts,
        form=form,
        standing={status: standing.get(status, Lying()) for status in STATUSES if status != "mailed"},
        cutoff=next_cutoff(now, world.cutoff, world.zone) if world.cutoff else None,
        pieces=PIECE_NAMES,
        classes=CLASSES,
        statuses=STATUSES,
        tints=TINTS,
        **values,
    )


def needs(
    tx: Tx, who: SignedIn, parts: Parts, standing: dict[str, Lying], *, now: datetime
) -> Sequence[Need]:
    """What does not go on by itself, the worst first."""
    world, found = parts.worlds[who.mode], list[Need]()
    if not jobs.are_workers_alive(tx, silent_seconds=parts.stall_seconds):
        found.append(
            Need("No worker is at work: nothing is composed or sent.", f"{ROOM}/jobs", "See the jobs")
        )
    found += [Need(gap, f"{ROOM}/feeds", "See what is set up") for gap in world.gaps]
    if stuck := sum(each.in_trouble for each in standing.values()):
        words = f"{plural(stuck, 'batch', 'batches')} cannot go on."
        found.append(Need(words, f"{ROOM}/batches?show=trouble", "Look at them"))
    if late := sum(each.late for each in standing.values()):
        words = f"{plural(late, 'batch', 'batches')} went to the printer more than two days ago."
        found.append(
            Need(f"{words} Mark what is mailed.", f"{ROOM}/batches?show=open", "Look at them", "pending")
        )
    if held := counts.count_held(tx, who.mode):
        many = f"{held:,} orders or more wait" if held == MOST_HELD else f"{plural(held, 'order')} on hold"
        found.append(Need(f"{many}: each needs your word.", f"{ROOM}/held", "Release or refuse", "pending"))
    if failed := sum(kind.how_many for kind in jobs.failed_kinds(tx)):
        found.append(Need(f"{plural(failed, 'job')} failed for good.", f"{ROOM}/jobs", "Run again"))
    if silent := heard(tx, world, now=now).silent_since:
        words = f"The carrier's last word came {ago(silent, now=now)}, and pieces are in the mail."
        found.append(Need(words, f"{ROOM}/feeds", "See the feeds"))
    if unwell := count_unwell(tx, who.mode):
        words = f"{plural(unwell, 'webhook')} of senders cannot be delivered to."
        found.append(Need(words, f"{ROOM}/webhooks", "See whose", "pending"))
    return found


FEEDS_PAGE = f"{ROOM}/feeds"
MOST_FILES = 50


@dataclass(frozen=True, slots=True)
class Health:
    """How somebody outside is, in a color and a word."""

    tint: str
    word: str


@router.get(FEEDS_PAGE)
def feeds_page(request: Request, who: Operator, parts: OurParts) -> Response:
    """From our own books: nobody outside is asked, so that it is there at once."""
    now, world = parts.clock(), parts.worlds[who.mode]
    with parts.db.work() as tx:
        given = counts.hand_overs(tx, who.mode, now=now)
        stuck = counts.stuck(tx, who.mode)
        told = heard(tx, world, now=now)
    return room_page(
        request,
        "feeds.html",
        who,
        parts,
        given=given,
        stuck=stuck,
        told=told,
        printer=_printer(who, parts, given, stuck),
        is_unset=_is_unset(who, parts),
        carrier=_carrier(who, parts, told),
        asked_every=_span(world.poll_every),
        calls_back=sorted(parts.print_secrets) if who.mode == "live" else [],
    )


@router.get(f"{FEEDS_PAGE}/files")
def files_page(request: Request, who: Operator, parts: OurParts) -> Response:
    """What could not be read. The carrier's folder may be on another machine, and slow: hence by itself."""
    files, down = list[SetAside](), None
    try:
        files = list(parts.worlds[who.mode].carrier.set_aside())
    except CarrierDown as fault:
        down = str(fault)
    template = "feed_files.html" if is_fragment(request) else "feed_files_page.html"
    return room_page(request, template, who, parts, files=files[:MOST_FILES], how_many=len(files), down=down)


def _span(time: timedelta) -> str:
    seconds = round(time.total_seconds())
    if seconds <= 1:
        return "second"
    return f"{seconds} seconds" if seconds < 120 else f"{seconds // 60} minutes"


def _printer(who: SignedIn, parts: Parts, given: Sequence[HandOvers], stuck: Stuck) -> Health:
    if stuck.batches:
        return Health("bad", "Failing")
    if _is_unset(who, parts):
        return Health("pending", "Not set up")
    return Health("good", "Good") if given else Health("", "Nothing to print yet")


def _is_unset(who: SignedIn, parts: Parts) -> bool:
    """Whether nobody is named who prints live mail: the one that stands in for them prints nothing."""
    return who.mode == "live" and any("PRINT_PARTNER" in gap for gap in parts.worlds["live"].gaps)


def _carrier(who: SignedIn, parts: Parts, told: Heard) -> Health:
    if told.silent_since is not None:
        return Health("bad", "Silent")
    if not parts.worlds[who.mode].feeds:
        return Health("pending", "Not set up")
    return Health("good", "Good") if told.last_at else Health("", "Nothing heard yet")
