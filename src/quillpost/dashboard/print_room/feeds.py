"""Who prints and who carries: what is set up, what was last heard, and what could not be read."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from fastapi import APIRouter, Request, Response

from quillpost.dashboard.print_room.room_pages import ROOM, room_page
from quillpost.fulfilment import floor
from quillpost.fulfilment.floor import HandOvers, Stuck
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.ports.carriers import CarrierDown, SetAside
from quillpost.reception.visits import Operator, OurParts, is_fragment
from quillpost.tracking.health import Heard, heard

router = APIRouter(include_in_schema=False)

PAGE = f"{ROOM}/feeds"
MOST_FILES = 50


@dataclass(frozen=True, slots=True)
class Health:
    """How somebody outside is, in a color and a word."""

    tint: str
    word: str


@router.get(PAGE)
def feeds_page(request: Request, who: Operator, parts: OurParts) -> Response:
    """From our own books: nobody outside is asked, so that it is there at once."""
    now, world = parts.clock(), parts.worlds[who.mode]
    with parts.db.work() as tx:
        given = floor.hand_overs(tx, who.mode, now=now)
        stuck = floor.stuck(tx, who.mode)
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


@router.get(f"{PAGE}/files")
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
