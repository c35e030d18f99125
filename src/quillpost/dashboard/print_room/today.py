"""The print room at a glance: what is due, what needs a person, and what was done today."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time
from typing import Any

from fastapi import APIRouter, Request, Response

from quillpost import jobs
from quillpost.api.v2.print_room_body import Rush
from quillpost.dashboard.form_bodies import read_body
from quillpost.dashboard.form_pages import EMPTY, Filled
from quillpost.dashboard.piece_names import PIECE_NAMES
from quillpost.dashboard.print_room.room_pages import ROOM, counted, moved_under, room_page
from quillpost.dashboard.print_room.words import CLASSES, STATUSES, TINTS, numbers_in
from quillpost.database import Tx
from quillpost.fulfilment import floor, print_room
from quillpost.fulfilment.floor import MOST_HELD, Lying
from quillpost.fulfilment.rules import next_cutoff
from quillpost.fulfilment.waiting import list_due
from quillpost.kit.errors import Invalid, Refused
from quillpost.kit.times import ago
from quillpost.pages.wording import plural
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception.forms import PostedForm
from quillpost.reception.show import go
from quillpost.reception.visits import Operator, OurParts, is_fragment
from quillpost.reception.zones import zone_of
from quillpost.tracking.health import heard
from quillpost.webhooks.unwell import count_unwell

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
    early = print_room.pool_now(parts.db, who.mode, noted=told, now=parts.clock())
    return go(ROOM, said="batches_pooled" if early else "nothing_pooled")


@router.post(f"{ROOM}/rush")
def rush(request: Request, who: Operator, form: PostedForm, parts: OurParts) -> Response:
    try:
        body = read_body(Rush, {"order_ids": numbers_in(form.text("orders", most=5_000), field="orders")})
        rushed = print_room.rush(
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
        standing = floor.lying(tx, who.mode, now=now)
        values: dict[str, Any] = {
            "due": list_due(tx, who.mode),
            "done": floor.done_since(tx, who.mode, since=since, now=now),
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
    if held := floor.count_held(tx, who.mode):
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
