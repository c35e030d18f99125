"""Batches and their files."""

from functools import partial
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Response

from quillpost.core.errors import NotFound
from quillpost.fulfillment.batches.files import BatchFileStorage
from quillpost.fulfillment.batches.rules import (
    TICKET_JSON,
    TICKET_XJDF,
    TicketFile,
    batch_reference,
    build_ticket_files,
    download_name,
    parse_batch_reference,
)
from quillpost.fulfillment.batches.tasks import build_batch_ticket
from quillpost.fulfillment.print_room.queries import (
    BEFORE_MAIL_STATUSES,
    BatchDetails,
    BatchQuery,
    find_batch,
    find_file,
    list_batch_items,
    list_batches,
    list_files,
    read_batch_details,
)
from quillpost.fulfillment.print_room.reports import is_other_partner
from quillpost.fulfillment.print_room.service import read_files_for_download
from quillpost.orders.rules import ItemStatus
from quillpost.web.dashboard.forms import (
    EMPTY_FORM,
    FormState,
    parse_day,
    parse_page,
    parse_zone,
    start_of_day,
    zone_context,
)
from quillpost.web.dashboard.labels import PRODUCT_NAMES
from quillpost.web.dashboard.print_room.labels import LABELS
from quillpost.web.dashboard.print_room.pages import PRINT_ROOM_PATH, render_room_page
from quillpost.web.dashboard.responses import OperatorContext, PathId, RequestContext
from quillpost.web.rendering import download_headers, redirect
from quillpost.web.security import get_zone

router = APIRouter(include_in_schema=False)

BATCHES_PATH = f"{PRINT_ROOM_PATH}/batches"
FILTER_LABELS = {"open": "On their way", "trouble": "In trouble", "mailed": "Mailed", "all": "All"}
ITEMS_PER_PAGE = 25
TIMESTAMP_LABELS = (
    ("created_at", "Made"),
    ("composed_at", "Composed"),
    ("handed_at", "Handed to the printer"),
    ("acknowledged_at", "Taken on by the printer"),
    ("printed_at", "Printed"),
    ("mailed_at", "Mailed"),
    ("settled_at", "Nothing of it on its way any more"),
)


@router.get(BATCHES_PATH)
def batches_page(
    context: OperatorContext,
    show: str = "",
    piece: str = "",
    since: str = "",
    until: str = "",
    find: str = "",
    page: str = "",
) -> Response:
    """Invalid filters are ignored."""
    number = parse_batch_reference(find.strip()) or (int(find) if find.strip().isdecimal() and len(find) < 18 else None)
    if number:
        return redirect(f"{BATCHES_PATH}/{number}")
    show, piece = show if show in FILTER_LABELS else "all", piece if piece in PRODUCT_NAMES else ""
    first_day, last_day, zone = parse_day(since), parse_day(until), get_zone(context.request)
    batch_filter = BatchQuery(
        mode=context.user.mode,
        status="mailed" if show == "mailed" else None,
        is_open=True if show in ("open", "trouble") else None,
        has_error=show == "trouble",
        product_name=piece or None,
        created_since=start_of_day(first_day, zone) if first_day else None,
        created_before=start_of_day(last_day, zone, days_later=1) if last_day else None,
    )
    with context.system_transaction() as tx:
        batches_found = list_batches(tx, parse_page(page), batch_filter)
    filter_values = {
        "show": show,
        "piece": piece,
        "since": since if first_day else "",
        "until": until if last_day else "",
    }
    query_values = {name: value for name, value in filter_values.items() if value and (name, value) != ("show", "all")}
    return render_room_page(
        context,
        "batches.html",
        page=batches_found,
        filter_values=filter_values,
        search_text=find,
        is_filtered=bool(query_values),
        list_url=f"{BATCHES_PATH}?{urlencode(query_values)}" if query_values else BATCHES_PATH,
        batch_reference=batch_reference,
        **LABELS,
        filter_labels=FILTER_LABELS,
    )


@router.get(f"{BATCHES_PATH}/{{batch_id}}")
def show_batch(context: OperatorContext, batch_id: PathId, page: str = "") -> Response:
    return render_batch_page(context, batch_id, page=page)


@router.get(f"{BATCHES_PATH}/{{batch_id}}/live")
def stream_batch(context: OperatorContext, batch_id: PathId) -> Response:
    read_batch_view(context, batch_id)
    return context.stream(
        ("batch", batch_id),
        {"far": "print_room/batch_progress.html"},
        lambda: {**_progress_context(read_batch_view(context, batch_id)), **LABELS},
    )


def render_batch_page(
    context: RequestContext,
    batch_id: int,
    *,
    page: str = "",
    form: FormState = EMPTY_FORM,
    error_message: str | None = None,
) -> Response:
    """With `error_message`, it says why something was refused, above the current state."""
    with context.system_transaction() as tx:
        view = read_batch_details(tx, batch_id, mode=context.user.mode)
        items = list_batch_items(tx, view.batch, parse_page(page, per_page=ITEMS_PER_PAGE))
    partner = context.container.environments[context.user.mode].partner
    return render_room_page(
        context,
        "batch.html",
        form=form,
        status=409 if error_message else None,
        error_message=error_message,
        page=items,
        list_url=f"{BATCHES_PATH}/{batch_id}",
        ticket_names=(TICKET_JSON, TICKET_XJDF),
        is_other_partner=is_other_partner(view.batch.partner, partner),
        partner=partner,
        batch_reference=batch_reference,
        **zone_context(parse_zone(context.request, form.fields), now=context.now()),
        **_progress_context(view),
        **LABELS,
    )


def read_batch_view(context: RequestContext, batch_id: int) -> BatchDetails:
    with context.system_transaction() as tx:
        return read_batch_details(tx, batch_id, mode=context.user.mode)


def _progress_context(view: BatchDetails) -> dict[str, Any]:
    reached_steps = [(label, at) for name, label in TIMESTAMP_LABELS if (at := getattr(view.batch, name)) is not None]
    counts = {status.value: view.pieces.get(status.value, 0) for status in ItemStatus}
    return {
        "batch": view.batch,
        "details": view,
        "reached_steps": reached_steps,
        "item_counts": counts,
        "unmailed_count": sum(counts[status] for status in BEFORE_MAIL_STATUSES),
    }


@router.get(f"{BATCHES_PATH}/{{batch_id}}/files/{{name}}")
def download_file(context: OperatorContext, batch_id: PathId, name: str) -> Response:
    """In clear, as composed; some files hold the codes of gift cards."""
    with context.system_transaction() as tx:
        file = find_file(tx, find_batch(tx, batch_id, mode=context.user.mode).id, name)
    details = {"name": batch_reference(batch_id), "mode": context.user.mode, "files": [file.name]}
    batch_store = BatchFileStorage(context.container.storage.store, context.container.encryptor)
    write_entry = partial(context.audit, action="print_file.downloaded", about=details)
    contents = read_files_for_download(context.container.db, batch_store, batch_id, [file], write_audit=write_entry)
    return _download_response(batch_id, file.name, contents[file.name], file.content_type)


@router.get(f"{BATCHES_PATH}/{{batch_id}}/ticket/{{name}}")
def download_ticket(context: OperatorContext, batch_id: PathId, name: str) -> Response:
    """As the printer gets it with the files."""
    with context.system_transaction() as tx:
        batch = find_batch(tx, batch_id, mode=context.user.mode)
        files = [TicketFile(file.name, file.size, file.sha256) for file in list_files(tx, batch_id)]
        tickets = (
            build_ticket_files(build_batch_ticket(tx, context.container.production, batch, files)) if files else {}
        )
        if name not in tickets:
            raise NotFound
        details = {"name": batch_reference(batch_id), "mode": context.user.mode, "files": [name]}
        context.audit(tx, "print_file.downloaded", details)
    content_type = "application/json" if name == TICKET_JSON else "application/octet-stream"
    return _download_response(batch_id, name, tickets[name], content_type)


def _download_response(batch_id: int, name: str, data: bytes, content_type: str) -> Response:
    headers = download_headers(download_name(batch_id, name))
    return Response(data, media_type=content_type, headers=headers)
