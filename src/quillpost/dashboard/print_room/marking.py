"""What an operator says of a batch: it is printed, mailed, partly spoiled; its step is to be tried again."""

from typing import Any, Final

from fastapi import APIRouter, Request, Response

from quillpost.api.needs import id_in_path
from quillpost.api.v2.print_room_body import Mark
from quillpost.dashboard.form_bodies import read_body
from quillpost.dashboard.form_pages import Filled, are_you_sure
from quillpost.dashboard.print_room.batches import PAGE, batch_page, read
from quillpost.dashboard.print_room.room_pages import moved_under, noted, room_page
from quillpost.dashboard.print_room.words import STATUSES, numbers_in
from quillpost.dashboard.typed_times import typed_moment, typed_zone
from quillpost.database import Tx
from quillpost.fulfilment import marking, print_room
from quillpost.fulfilment.rules import reference
from quillpost.fulfilment.store import Batch, read_batch
from quillpost.kit.errors import Conflict, Invalid
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception.forms import Form, PostedForm
from quillpost.reception.show import go
from quillpost.reception.visits import Operator, OurParts

router = APIRouter(include_in_schema=False)

BATCH = f"{PAGE}/{{batch_id}}"
DONE: Final = {"printed": "batch_printed", "mailed": "batch_mailed", "acknowledged": "batch_acknowledged"}
BY: Final = {"places": "position", "items": "item_id"}
"""How a form names pieces, and what the interface calls that."""
FIELDS = ("at", "which", "reason", "by")


class MovedOn(Conflict):
    """A form about a batch that somebody, or the printer, has moved on meanwhile."""

    def __init__(self, status: str) -> None:
        super().__init__(
            f"Meanwhile the batch has moved on: it is “{STATUSES[status]}” now. Nothing was done. Look at it"
            " again, and decide anew."
        )


@router.post(f"{BATCH}/mark")
def mark(request: Request, batch_id: str, who: Operator, form: PostedForm, parts: OurParts) -> Response:
    number = id_in_path(batch_id)
    batch = read(who, parts, number).batch
    try:
        body = read_body(Mark, {"status": form.text("status"), "at": _moment(request, form)})
        require_as_seen(batch, form)
        _mark(who, parts, batch, body)
    except Invalid as refused:
        filled = moved_under(Filled.back(form, refused, at="at"), ("at",), "")
        return batch_page(request, who, parts, number, form=filled)
    except Conflict as refused:
        return batch_page(request, who, parts, number, refused=refused.message)
    return go(f"{PAGE}/{number}", said=DONE[body.status])


@router.get(f"{BATCH}/spoiled")
def spoil_page(request: Request, batch_id: str, who: Operator, parts: OurParts) -> Response:
    return _spoil_page(request, who, parts, read(who, parts, id_in_path(batch_id)).batch)


@router.post(f"{BATCH}/spoiled")
def spoil(request: Request, batch_id: str, who: Operator, form: PostedForm, parts: OurParts) -> Response:
    """They fail, and are not billed: an end, which the form itself asks about."""
    batch = read(who, parts, id_in_path(batch_id)).batch
    try:
        name, reason = BY.get(form.text("by"), "position"), form.text("reason", most=500)
        numbers = numbers_in(form.text("which", most=20_000), field="which")
        pieces = [{name: number, "reason": reason or None} for number in numbers]
        _mark(who, parts, batch, read_body(Mark, {"status": "spoiled", "spoiled": pieces}))
    except Invalid as refused:
        filled = moved_under(Filled.back(form, refused, at="which"), FIELDS, "which")
        return _spoil_page(request, who, parts, batch, filled)
    except Conflict as refused:
        return batch_page(request, who, parts, batch.id, refused=refused.message)
    return go(f"{PAGE}/{batch.id}", said="pieces_spoiled")


@router.post(f"{BATCH}/retry")
def retry(request: Request, batch_id: str, who: Operator, form: PostedForm, parts: OurParts) -> Response:
    return _retry(request, who, parts, read(who, parts, id_in_path(batch_id)).batch, form, anew=False)


@router.get(f"{BATCH}/anew")
def anew_page(request: Request, batch_id: str, who: Operator, parts: OurParts) -> Response:
    batch = read(who, parts, id_in_path(batch_id)).batch
    return are_you_sure(
        request,
        who,
        title=f"Offer {reference(batch.id)} to another printer?",
        means=[
            f"It was offered to {batch.partner or 'nobody yet'}. From now on it is offered to "
            f"{parts.worlds[who.mode].partner}.",
            "Only you can know that the former one does not have it. If it does, people are mailed twice.",
        ],
        button="They do not have it: offer it anew",
        back=f"{PAGE}/{batch.id}",
        carried={"seen": batch.status},
    )


@router.post(f"{BATCH}/anew")
def offer_anew(request: Request, batch_id: str, who: Operator, form: PostedForm, parts: OurParts) -> Response:
    return _retry(request, who, parts, read(who, parts, id_in_path(batch_id)).batch, form, anew=True)


def require_as_seen(batch: Batch, form: Form) -> None:
    """The form says how far the batch was on the page that it stood on."""
    if form.text("seen") not in ("", batch.status):
        raise MovedOn(batch.status)


def _retry(
    request: Request, who: SignedIn, parts: Parts, batch: Batch, form: Form, *, anew: bool
) -> Response:
    seen = form.text("seen")
    note = noted(who, parts, "batch.retried", about(batch) | {"anew": anew})

    def as_seen(tx: Tx) -> None:
        """Once more while nobody else can move it: of two that decide, one is told."""
        if seen and (status := read_batch(tx, batch.id).status) != seen:
            raise MovedOn(status)
        note(tx)

    try:
        require_as_seen(batch, form)
        print_room.retry(parts.db, batch.id, anew=anew, noted=as_seen)
    except Conflict as refused:
        return batch_page(request, who, parts, batch.id, refused=refused.message)
    return go(f"{PAGE}/{batch.id}", said="batch_retried")


def _mark(who: SignedIn, parts: Parts, batch: Batch, body: Mark) -> None:
    marking.mark(
        parts.db,
        batch.id,
        body.status,
        at=body.moment(),
        spoiled=body.pieces(),
        mode=who.mode,
        noted=noted(who, parts, "batch.marked", about(batch) | {"status": body.status}),
        now=parts.clock(),
    )


def about(batch: Batch) -> dict[str, Any]:
    return {"name": reference(batch.id), "mode": batch.mode}


def _moment(request: Request, form: Form) -> str | None:
    """None: now."""
    if not form.text("at", most=64):
        return None
    return typed_moment(form, "at", typed_zone(request, form.fields)).isoformat()


def _spoil_page(
    request: Request, who: SignedIn, parts: Parts, batch: Batch, form: Filled | None = None
) -> Response:
    return pieces_form(
        request,
        who,
        parts,
        batch,
        form,
        title=f"Spoiled pieces of {reference(batch.id)}",
        lead="A spoiled piece is given up: it fails, its sender is told, and it is not billed. To print it"
        " again, choose “Print again” instead.",
        reason="What happened to them",
        reason_hint="The sender reads it, such as: Torn in the folder. You may leave it empty.",
        button="Give these pieces up",
        is_end=True,
    )


def pieces_form(
    request: Request, who: SignedIn, parts: Parts, batch: Batch, form: Filled | None, **values: Any
) -> Response:
    """Which pieces, and why."""
    form, back = form or Filled({"by": ["places"]}), f"{PAGE}/{batch.id}"
    return room_page(request, "pieces_form.html", who, parts, form=form, batch=batch, back=back, **values)
