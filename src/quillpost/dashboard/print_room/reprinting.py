"""Pieces that are printed again: which, how many of them can be, and then, once one is sure, it is done."""

from fastapi import APIRouter, Request, Response

from quillpost.api.needs import id_in_path
from quillpost.api.v2.print_room_body import Reprint
from quillpost.dashboard.form_bodies import read_body
from quillpost.dashboard.form_pages import Filled, are_you_sure
from quillpost.dashboard.print_room.batches import PAGE, batch_page, read
from quillpost.dashboard.print_room.marking import FIELDS, about, pieces_form
from quillpost.dashboard.print_room.room_pages import moved_under, note
from quillpost.dashboard.print_room.words import joined, numbers_in
from quillpost.database import Tx
from quillpost.fulfilment import marking
from quillpost.fulfilment.paper import Paper, find_paper
from quillpost.fulfilment.rules import reference
from quillpost.fulfilment.store import Batch
from quillpost.kit.errors import Conflict, Invalid
from quillpost.pages.wording import plural
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception import once
from quillpost.reception.forms import Form, PostedForm
from quillpost.reception.once import DoneAlready, do_once
from quillpost.reception.show import go
from quillpost.reception.visits import Operator, OurParts

router = APIRouter(include_in_schema=False)

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
        do_once(tx, who, form.text(once.FIELD), instead=NOT_TWICE, leads_to=f"{PAGE}/{batch.id}")
        note(tx, who, parts, "batch.reprinted", about(batch) | {"reason": body.reason})

    made = marking.reprint(
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
