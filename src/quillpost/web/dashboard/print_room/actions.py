"""What an operator does with a batch: mark it, print items again."""

from functools import partial
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from quillpost.app.container import Container
from quillpost.core.database import Tx
from quillpost.core.errors import Conflict, Invalid
from quillpost.fulfillment.batches.queries import ProductionBatch, read_batch
from quillpost.fulfillment.batches.rules import batch_reference
from quillpost.fulfillment.print_room import reports
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.fulfillment.print_room.queries import PrintedItem, find_printed_items
from quillpost.web.api.print_room.schemas import Mark, Reprint
from quillpost.web.dashboard.forms import FormState, parse_moment, parse_zone, read_body
from quillpost.web.dashboard.print_room.batches.pages import BATCHES_PATH, read_batch_view, render_batch_page
from quillpost.web.dashboard.print_room.labels import STATUS_LABELS, format_ranges, parse_numbers
from quillpost.web.dashboard.print_room.pages import render_room_page
from quillpost.web.dashboard.responses import OperatorContext, PathId, RequestContext
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import pluralize, redirect
from quillpost.web.security import DuplicateSubmission, use_one_time_key

router = APIRouter(include_in_schema=False)

BATCH_PATH = f"{BATCHES_PATH}/{{batch_id}}"
FLASH_BY_STATUS: Final = {"printed": "batch_printed", "mailed": "batch_mailed", "acknowledged": "batch_acknowledged"}
IDENTIFIER_FIELDS: Final = {"places": "position", "items": "item_id"}  # by form field
FORM_FIELDS = ("at", "which", "reason", "by")


class BatchMovedOn(Conflict):
    """A form about a batch whose status changed meanwhile."""

    def __init__(self, status: str) -> None:
        super().__init__(
            f"Meanwhile the batch has moved on: it is “{STATUS_LABELS[status]}” now. Nothing was done. Look at it"
            " again, and decide anew."
        )


@router.post(f"{BATCH_PATH}/mark")
def mark_batch(context: OperatorContext, batch_id: PathId, form: PostedForm) -> Response:
    batch = read_batch_view(context, batch_id).batch
    try:
        body = read_body(Mark, {"status": form.text("status"), "at": _read_moment(context.request, form)})
        require_unchanged(batch, form)
        _apply_mark(context, batch, body)
    except Invalid as error:
        form_state = FormState.from_error(form, error, default_field="at").regroup(("at",), "")
        return render_batch_page(context, batch_id, form=form_state)
    except Conflict as error:
        return render_batch_page(context, batch_id, error_message=error.message)
    return redirect(f"{BATCHES_PATH}/{batch_id}", flash=FLASH_BY_STATUS[body.status])


@router.get(f"{BATCH_PATH}/spoiled")
def spoiled_items_page(context: OperatorContext, batch_id: PathId) -> Response:
    return _render_spoil_page(context, read_batch_view(context, batch_id).batch)


@router.post(f"{BATCH_PATH}/spoiled")
def spoil_items(context: OperatorContext, batch_id: PathId, form: PostedForm) -> Response:
    """The items fail and are not billed."""
    batch = read_batch_view(context, batch_id).batch
    try:
        identifier_field = IDENTIFIER_FIELDS.get(form.text("by"), "position")
        reason = form.text("reason", max_length=500)
        numbers = parse_numbers(form.text("which", max_length=20_000), field="which")
        spoiled_items = [{identifier_field: number, "reason": reason or None} for number in numbers]
        _apply_mark(context, batch, read_body(Mark, {"status": "spoiled", "spoiled": spoiled_items}))
    except Invalid as error:
        form_state = FormState.from_error(form, error, default_field="which").regroup(FORM_FIELDS, "which")
        return _render_spoil_page(context, batch, form_state)
    except Conflict as error:
        return render_batch_page(context, batch.id, error_message=error.message)
    return redirect(f"{BATCHES_PATH}/{batch.id}", flash="pieces_spoiled")


@router.post(f"{BATCH_PATH}/retry")
def retry_batch(context: OperatorContext, batch_id: PathId, form: PostedForm) -> Response:
    return _retry_batch(context, read_batch_view(context, batch_id).batch, form, is_reoffer=False)


@router.get(f"{BATCH_PATH}/anew")
def reoffer_page(context: OperatorContext, batch_id: PathId) -> Response:
    batch = read_batch_view(context, batch_id).batch
    return context.confirm(
        title=f"Offer {batch_reference(batch.id)} to another printer?",
        consequences=[
            f"It was offered to {batch.partner or 'nobody yet'}. From now on it is offered to "
            f"{context.container.environments[context.user.mode].partner}.",
            "Only you can know that the former one does not have it. If it does, people are mailed twice.",
        ],
        button_label="They do not have it: offer it anew",
        back_url=f"{BATCHES_PATH}/{batch.id}",
        hidden_fields={"seen": batch.status},
    )


@router.post(f"{BATCH_PATH}/anew")
def reoffer_batch(context: OperatorContext, batch_id: PathId, form: PostedForm) -> Response:
    return _retry_batch(context, read_batch_view(context, batch_id).batch, form, is_reoffer=True)


def require_unchanged(batch: ProductionBatch, form: Form) -> None:
    """`BatchMovedOn` if the status is not the one that the form's page showed."""
    if form.text("seen") not in ("", batch.status):
        raise BatchMovedOn(batch.status)


def _retry_batch(context: RequestContext, batch: ProductionBatch, form: Form, *, is_reoffer: bool) -> Response:
    seen_status = form.text("seen")

    def check_and_record(tx: Tx) -> None:
        """Checked again under the lock: of two operators, one is refused."""
        if seen_status and (status := read_batch(tx, batch.id).status) != seen_status:
            raise BatchMovedOn(status)
        context.audit(tx, "batch.retried", audit_details(batch) | {"anew": is_reoffer})

    try:
        require_unchanged(batch, form)
        print_room_service.retry_batch(context.container.db, batch.id, reoffer=is_reoffer, write_audit=check_and_record)
    except Conflict as error:
        return render_batch_page(context, batch.id, error_message=error.message)
    return redirect(f"{BATCHES_PATH}/{batch.id}", flash="batch_retried")


def _apply_mark(context: RequestContext, batch: ProductionBatch, body: Mark) -> None:
    reports.mark_batch(
        context.container.db,
        batch.id,
        body.status,
        at=body.parse_time(),
        spoiled=body.spoiled_items(),
        mode=context.user.mode,
        write_audit=partial(context.audit, action="batch.marked", about=audit_details(batch) | {"status": body.status}),
        now=context.now(),
    )


def audit_details(batch: ProductionBatch) -> dict[str, Any]:
    return {"name": batch_reference(batch.id), "mode": batch.mode}


def _read_moment(request: Request, form: Form) -> str | None:
    """None: now."""
    if not form.text("at", max_length=64):
        return None
    return parse_moment(form, "at", parse_zone(request, form.fields)).isoformat()


def _render_spoil_page(context: RequestContext, batch: ProductionBatch, form: FormState | None = None) -> Response:
    return render_items_form(
        context,
        batch,
        form,
        title=f"Spoiled pieces of {batch_reference(batch.id)}",
        introduction="A spoiled piece is given up: it fails, its sender is told, and it is not billed. To print it"
        " again, choose “Print again” instead.",
        reason_label="What happened to them",
        reason_hint="The sender reads it, such as: Torn in the folder. You may leave it empty.",
        button_label="Give these pieces up",
        is_destructive=True,
    )


def render_items_form(
    context: RequestContext, batch: ProductionBatch, form: FormState | None, **values: Any
) -> Response:
    form, batch_path = form or FormState({"by": ["places"]}), f"{BATCHES_PATH}/{batch.id}"
    return render_room_page(context, "items_form.html", form=form, batch=batch, back_url=batch_path, **values)


REPRINT_PATH = f"{BATCHES_PATH}/{{batch_id}}/reprint"
ALREADY_REPRINTED = "The pieces are in a batch of their own already."


@router.get(REPRINT_PATH)
def reprint_page(context: OperatorContext, batch_id: PathId) -> Response:
    return _render_reprint_page(context, read_batch_view(context, batch_id).batch)


@router.post(REPRINT_PATH)
def reprint_items(context: OperatorContext, batch_id: PathId, form: PostedForm) -> Response:
    """The first time shows how many items; the second, confirmed, reprints them."""
    batch = read_batch_view(context, batch_id).batch
    try:
        body = _read_reprint(form)
        if form.text("sure") == "yes":
            return _create_reprint(context, batch, form, body)
        papers = _find_papers(context.container, batch, body)
    except Invalid as error:
        form_state = FormState.from_error(form, error, default_field="which").regroup(FORM_FIELDS, "which")
        return _render_reprint_page(context, batch, form_state)
    except DuplicateSubmission:
        raise
    except Conflict as error:
        return render_batch_page(context, batch.id, error_message=error.message)
    return _render_reprint_confirmation(context, batch, form, papers)


def _read_reprint(form: Form) -> Reprint:
    numbers = parse_numbers(form.text("which", max_length=20_000), field="which")
    identifier_field = "item_ids" if form.text("by") == "items" else "positions"
    return read_body(Reprint, {identifier_field: numbers, "reason": form.text("reason", max_length=600)})


def _find_papers(container: Container, batch: ProductionBatch, body: Reprint) -> list[PrintedItem]:
    selection = body.selected_items()
    with container.db.system_transaction() as tx:
        papers = find_printed_items(tx, batch.id, positions=selection.positions, item_ids=selection.item_ids)
    existing_numbers = (
        {paper.position for paper in papers} if selection.positions else {paper.item_id for paper in papers}
    )
    missing = [number for number in (*selection.positions, *selection.item_ids) if number not in existing_numbers]
    if missing:
        raise Invalid({"which": [f"{batch_reference(batch.id)} has no piece {format_ranges(missing)}."]})
    return papers


def _create_reprint(context: RequestContext, batch: ProductionBatch, form: Form, body: Reprint) -> Response:
    def record(tx: Tx) -> None:
        use_one_time_key(
            tx, context.user, form.one_time_key, hint=ALREADY_REPRINTED, result_path=f"{BATCHES_PATH}/{batch.id}"
        )
        context.audit(tx, "batch.reprinted", audit_details(batch) | {"reason": body.reason})

    new_batch = reports.reprint_selection(
        context.container.db,
        context.container.environments[context.user.mode],
        batch.id,
        body.selected_items(),
        reason=body.reason,
        write_audit=record,
        now=context.now(),
    )
    return redirect(f"{BATCHES_PATH}/{new_batch.batch_id}", flash="pieces_reprinted")


def _render_reprint_confirmation(
    context: RequestContext, batch: ProductionBatch, form: Form, papers: list[PrintedItem]
) -> Response:
    excluded = dict[str, list[int]]()
    for paper in papers:
        if reason := paper.reprint_error:
            excluded.setdefault(reason, []).append(paper.position)
    count = len(papers) - sum(map(len, excluded.values()))
    if not count:
        explanations = [f"{format_ranges(places)}: {reason}" for reason, places in excluded.items()]
        refused = Invalid({"which": ["None of these can be printed again.", *explanations]})
        return _render_reprint_page(context, batch, FormState.from_error(form, refused, default_field="which"))
    hidden_fields = {name: form.text(name, max_length=20_000) for name in ("which", "by", "reason")}
    return context.confirm(
        title=f"Print {pluralize(count, 'piece')} again?",
        consequences=[
            f"{'It gets' if count == 1 else 'They get'} a new barcode, in a batch that goes first.",
            "What was printed before is void: see that it does not get into the mail.",
            *(f"Left out: {format_ranges(places)}. {reason}" for reason, places in excluded.items()),
        ],
        button_label=f"Print {pluralize(count, 'piece')} again",
        back_url=f"{BATCHES_PATH}/{batch.id}",
        hidden_fields={**hidden_fields, "sure": "yes"},
        has_one_time_key=True,
    )


def _render_reprint_page(context: RequestContext, batch: ProductionBatch, form: FormState | None = None) -> Response:
    return render_items_form(
        context,
        batch,
        form,
        title=f"Print pieces of {batch_reference(batch.id)} again",
        introduction="They come in a new batch, under new barcodes. Whoever sent them pays once.",
        reason_label="Why",
        reason_hint="Kept in the audit log, such as: The sheets were cut askew.",
        button_label="Go on",
        is_destructive=False,
    )
