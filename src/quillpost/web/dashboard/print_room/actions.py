"""What an operator does with a batch: mark it, print items again."""

from typing import Any, Final

from fastapi import APIRouter, Request, Response

from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.database import Tx
from quillpost.core.errors import Conflict, Invalid
from quillpost.fulfillment.print_room import marks
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.fulfillment.print_room.queries import Paper, find_paper
from quillpost.fulfillment.queries import Batch, read_batch
from quillpost.fulfillment.rules import reference
from quillpost.web import csrf
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.api.print_room.requests import Mark, Reprint
from quillpost.web.csrf import DoneAlready, do_once
from quillpost.web.dashboard.forms import Filled, are_you_sure, read_body, typed_moment, typed_zone
from quillpost.web.dashboard.print_room.batches import PAGE, batch_page, read
from quillpost.web.dashboard.print_room.labels import STATUSES, joined, numbers_in
from quillpost.web.dashboard.print_room.pages import moved_under, note, noted, room_page
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import go, plural
from quillpost.web.sessions import Operator, OurParts

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
        print_room_service.retry(parts.db, batch.id, anew=anew, noted=as_seen)
    except Conflict as refused:
        return batch_page(request, who, parts, batch.id, refused=refused.message)
    return go(f"{PAGE}/{batch.id}", said="batch_retried")


def _mark(who: SignedIn, parts: Parts, batch: Batch, body: Mark) -> None:
    marks.mark(
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


HERE = f"{PAGE}/{{batch_id}}/reprint"
NOT_TWICE = "The pieces are in a batch of their own already."


@router.get(HERE)
def which_page(request: Request, batch_id: str, who: Operator, parts: OurParts) -> Response:
    return _which_page(request, who, parts, read(who, parts, id_in_path(batch_id)).batch)


@router.post(HERE)
def reprint(request: Request, batch_id: str, who: Operator, form: PostedForm, parts: OurParts) -> Response:
    """First it says how many that are; sent once more, from there, it is done."""
    batch = read(who, parts, id_in_path(batch_id)).batch
    try:
        body = _wanted(form)
        if form.text("sure") == "yes":
            return _reprint(who, parts, batch, form, body)
        papers = _papers(parts, batch, body)
    except Invalid as refused:
        filled = moved_under(Filled.back(form, refused, at="which"), FIELDS, "which")
        return _which_page(request, who, parts, batch, filled)
    except DoneAlready:
        raise
    except Conflict as refused:
        return batch_page(request, who, parts, batch.id, refused=refused.message)
    return _sure_page(request, who, parts, batch, form, papers)


def _wanted(form: Form) -> Reprint:
    numbers = numbers_in(form.text("which", most=20_000), field="which")
    name = "item_ids" if form.text("by") == "items" else "positions"
    return read_body(Reprint, {name: numbers, "reason": form.text("reason", most=600)})


def _papers(parts: Parts, batch: Batch, body: Reprint) -> list[Paper]:
    wanted = body.pieces()
    with parts.db.work() as tx:
        found = find_paper(tx, batch.id, positions=wanted.positions, item_ids=wanted.item_ids)
    there = {paper.position for paper in found} if wanted.positions else {paper.item_id for paper in found}
    missing = [number for number in (*wanted.positions, *wanted.item_ids) if number not in there]
    if missing:
        raise Invalid({"which": [f"{reference(batch.id)} has no piece {joined(missing)}."]})
    return found


def _reprint(who: SignedIn, parts: Parts, batch: Batch, form: Form, body: Reprint) -> Response:
    def told(tx: Tx) -> None:
        do_once(tx, who, form.text(csrf.FIELD), instead=NOT_TWICE, leads_to=f"{PAGE}/{batch.id}")
        note(tx, who, parts, "batch.reprinted", about(batch) | {"reason": body.reason})

    made = marks.reprint(
        parts.db,
        parts.worlds[who.mode],
        batch.id,
        body.pieces(),
        reason=body.reason,
        noted=told,
        now=parts.clock(),
    )
    return go(f"{PAGE}/{made.batch_id}", said="pieces_reprinted")


def _sure_page(
    request: Request, who: SignedIn, parts: Parts, batch: Batch, form: Form, papers: list[Paper]
) -> Response:
    left_out = dict[str, list[int]]()
    for paper in papers:
        if why := paper.why_not_reprinted:
            left_out.setdefault(why, []).append(paper.position)
    how_many = len(papers) - sum(map(len, left_out.values()))
    if not how_many:
        words = [f"{joined(places)}: {why}" for why, places in left_out.items()]
        refused = Invalid({"which": ["None of these can be printed again.", *words]})
        return _which_page(request, who, parts, batch, Filled.back(form, refused, at="which"))
    carried = {name: form.text(name, most=20_000) for name in ("which", "by", "reason")}
    return are_you_sure(
        request,
        who,
        title=f"Print {plural(how_many, 'piece')} again?",
        means=[
            f"{'It gets' if how_many == 1 else 'They get'} a new barcode, in a batch that goes first.",
            "What was printed before is void: see that it does not get into the mail.",
            *(f"Left out: {joined(places)}. {why}" for why, places in left_out.items()),
        ],
        button=f"Print {plural(how_many, 'piece')} again",
        back=f"{PAGE}/{batch.id}",
        carried={**carried, "sure": "yes"},
        is_once=True,
    )


def _which_page(
    request: Request, who: SignedIn, parts: Parts, batch: Batch, form: Filled | None = None
) -> Response:
    return pieces_form(
        request,
        who,
        parts,
        batch,
        form,
        title=f"Print pieces of {reference(batch.id)} again",
        lead="They come in a new batch, under new barcodes. Whoever sent them pays once.",
        reason="Why",
        reason_hint="Kept in the audit log, such as: The sheets were cut askew.",
        button="Go on",
        is_end=False,
    )
