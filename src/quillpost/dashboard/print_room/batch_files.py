"""The files of a batch, for the operator who prints it. Whoever takes one is noted before it leaves."""

from fastapi import APIRouter, Response

from quillpost.api.needs import id_in_path
from quillpost.dashboard.print_room.batches import PAGE
from quillpost.dashboard.print_room.room_pages import note, noted
from quillpost.fulfilment.batch_store import BatchStore
from quillpost.fulfilment.downloads import take_files
from quillpost.fulfilment.production import ticket_of
from quillpost.fulfilment.rules import reference, saved_as
from quillpost.fulfilment.shown import find_batch, find_file, list_files
from quillpost.fulfilment.ticket import TICKET_JSON, TicketFile, ticket_files
from quillpost.kit.errors import NotFound
from quillpost.reception.visits import Operator, OurParts

router = APIRouter(include_in_schema=False)


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
