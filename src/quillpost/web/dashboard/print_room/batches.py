"""Batches and their files."""

from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.errors import NotFound
from quillpost.fulfillment.files import BatchStore
from quillpost.fulfillment.partners import is_another
from quillpost.fulfillment.print_room.downloads import take_files
from quillpost.fulfillment.print_room.queries import (
    IN_THE_HOUSE,
    BatchFilter,
    BatchShown,
    find_batch,
    find_file,
    list_batches,
    list_files,
    list_pieces,
    read_batch_shown,
)
from quillpost.fulfillment.production import ticket_of
from quillpost.fulfillment.rules import batch_of, reference, saved_as
from quillpost.fulfillment.tickets import TICKET_JSON, TICKET_XJDF, TicketFile, ticket_files
from quillpost.orders.rules import ItemStatus
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.cookies import zone_of
from quillpost.web.dashboard.forms import EMPTY, Filled, day_in, start_of, typed_zone, zone_values
from quillpost.web.dashboard.labels import PIECE_NAMES
from quillpost.web.dashboard.lists_common import asked_page
from quillpost.web.dashboard.print_room.labels import CLASSES, STATUSES, TINTS
from quillpost.web.dashboard.print_room.pages import ROOM, note, noted, room_page
from quillpost.web.live_updates import stream
from quillpost.web.rendering import go, text_of
from quillpost.web.sessions import Operator, OurParts

router = APIRouter(include_in_schema=False)

PAGE = f"{ROOM}/batches"
SHOWN = {"open": "On their way", "trouble": "In trouble", "mailed": "Mailed", "all": "All"}
PIECES_A_PAGE = 25
MOMENTS = (
    ("created_at", "Made"),
    ("composed_at", "Composed"),
    ("handed_at", "Handed to the printer"),
    ("acknowledged_at", "Taken on by the printer"),
    ("printed_at", "Printed"),
    ("mailed_at", "Mailed"),
    ("settled_at", "Nothing of it on its way any more"),
)


@router.get(PAGE)
def list_page(
    request: Request,
    who: Operator,
    parts: OurParts,
    show: str = "",
    piece: str = "",
    since: str = "",
    until: str = "",
    find: str = "",
    page: str = "",
) -> Response:
    """What is odd in the address counts as not said."""
    number = batch_of(find.strip()) or (int(find) if find.strip().isdecimal() and len(find) < 18 else None)
    if number:
        return go(f"{PAGE}/{number}")
    show, piece = show if show in SHOWN else "all", piece if piece in PIECE_NAMES else ""
    first, last, zone = day_in(since), day_in(until), zone_of(request)
    wanted = BatchFilter(
        mode=who.mode,
        status="mailed" if show == "mailed" else None,
        is_open=True if show in ("open", "trouble") else None,
        in_trouble=show == "trouble",
        piece=piece or None,
        made_since=start_of(first, zone) if first else None,
        made_before=start_of(last, zone, later=1) if last else None,
    )
    with parts.db.work() as tx:
        found = list_batches(tx, asked_page(page), wanted)
    chosen = {"show": show, "piece": piece, "since": since if first else "", "until": until if last else ""}
    said = {name: value for name, value in chosen.items() if value and (name, value) != ("show", "all")}
    return room_page(
        request,
        "batches.html",
        who,
        parts,
        page=found,
        chosen=chosen,
        find=find,
        is_narrowed=bool(said),
        address=f"{PAGE}?{urlencode(said)}" if said else PAGE,
        reference=reference,
        **words(),
        shown=SHOWN,
    )


@router.get(f"{PAGE}/{{batch_id}}")
def read_page(request: Request, batch_id: str, who: Operator, parts: OurParts, page: str = "") -> Response:
    return batch_page(request, who, parts, id_in_path(batch_id), page=page)


@router.get(f"{PAGE}/{{batch_id}}/live")
def follow(request: Request, batch_id: str, who: Operator, parts: OurParts) -> Response:
    """How far it is, as it changes."""
    number, zone = id_in_path(batch_id), zone_of(request)
    read(who, parts, number)

    def draw() -> dict[str, str]:
        shown = read(who, parts, number)
        return {"far": text_of("print_room/far.html", zone=zone, now=parts.clock(), **_far(shown), **words())}

    return stream(request, who, ("batch", number), draw)


def batch_page(
    request: Request,
    who: SignedIn,
    parts: Parts,
    batch_id: int,
    *,
    page: str = "",
    form: Filled = EMPTY,
    refused: str | None = None,
) -> Response:
    """One batch. Where something was `refused`, it says why, above how the batch is by now."""
    with parts.db.work() as tx:
        shown = read_batch_shown(tx, batch_id, mode=who.mode)
        pieces = list_pieces(tx, shown.batch, asked_page(page, per_page=PIECES_A_PAGE))
    partner = parts.worlds[who.mode].partner
    return room_page(
        request,
        "batch.html",
        who,
        parts,
        form=form,
        status=409 if refused else None,
        refused=refused,
        page=pieces,
        address=f"{PAGE}/{batch_id}",
        tickets=(TICKET_JSON, TICKET_XJDF),
        is_elsewhere=is_another(shown.batch.partner, partner),
        partner=partner,
        reference=reference,
        **zone_values(typed_zone(request, form.typed), now=parts.clock()),
        **_far(shown),
        **words(),
    )


def read(who: SignedIn, parts: Parts, batch_id: int) -> BatchShown:
    with parts.db.work() as tx:
        return read_batch_shown(tx, batch_id, mode=who.mode)


def words() -> dict[str, Any]:
    return {"pieces": PIECE_NAMES, "classes": CLASSES, "statuses": STATUSES, "tints": TINTS}


def _far(shown: BatchShown) -> dict[str, Any]:
    reached = [(words, at) for name, words in MOMENTS if (at := getattr(shown.batch, name)) is not None]
    counts = {status.value: shown.pieces.get(status.value, 0) for status in ItemStatus}
    return {
        "batch": shown.batch,
        "shown": shown,
        "reached": reached,
        "counts": counts,
        "in_the_house": sum(counts[status] for status in IN_THE_HOUSE),
    }


@router.get(f"{PAGE}/{{batch_id}}/files/{{name}}")
def download(batch_id: str, name: str, who: Operator, parts: OurParts) -> Response:
    """As it was composed, in clear, to be saved. What gift cards are claimed with is in some of them."""
    number = id_in_path(batch_id)
    with parts.db.work() as tx:
        file = find_file(tx, find_batch(tx, number, mode=who.mode).id, name)
    about = {"name": reference(number), "mode": who.mode, "files": [file.name]}
    kept = BatchStore(parts.shelf.store, parts.sealer)
    told = noted(who, parts, "print_file.downloaded", about)
    found = take_files(parts.db, kept, number, [file], noted=told)
    return _to_be_saved(number, file.name, found[file.name], file.content_type)


@router.get(f"{PAGE}/{{batch_id}}/ticket/{{name}}")
def download_ticket(batch_id: str, name: str, who: Operator, parts: OurParts) -> Response:
    """What the printer is told about the batch, as it goes to them with the files."""
    number = id_in_path(batch_id)
    with parts.db.work() as tx:
        batch = find_batch(tx, number, mode=who.mode)
        files = [TicketFile(file.name, file.size, file.sha256) for file in list_files(tx, number)]
        made = ticket_files(ticket_of(tx, parts.press, batch, files)) if files else {}
        if name not in made:
            raise NotFound
        about = {"name": reference(number), "mode": who.mode, "files": [name]}
        note(tx, who, parts, "print_file.downloaded", about)
    kind = "application/json" if name == TICKET_JSON else "application/octet-stream"
    return _to_be_saved(number, name, made[name], kind)


def _to_be_saved(batch_id: int, name: str, data: bytes, kind: str) -> Response:
    headers = {
        "Content-Disposition": f'attachment; filename="{saved_as(batch_id, name)}"',
        "Cache-Control": "no-store",
    }
    return Response(data, media_type=kind, headers=headers)
