"""The print room today, and the feeds of carriers and printers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any

from fastapi import APIRouter, Response

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.core import jobs
from quillpost.core.clock import format_time_ago
from quillpost.core.database import Tx
from quillpost.core.errors import Forbidden, Invalid, Refused
from quillpost.fulfillment.batches.rules import next_cutoff
from quillpost.fulfillment.batches.service import read_pooling_backlog
from quillpost.fulfillment.ports import CarrierDown, RefusedScanFile
from quillpost.fulfillment.print_room import queries as print_room_queries
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.fulfillment.print_room.queries import MAX_PAUSED, OpenBatchCount, PartnerHandovers, StuckBatches
from quillpost.fulfillment.tracking.queries import CarrierActivity, read_carrier_activity
from quillpost.notifications.webhooks.deliveries import count_failing_webhooks
from quillpost.web.api.print_room.schemas import Rush
from quillpost.web.dashboard.forms import EMPTY_FORM, FormState, read_body
from quillpost.web.dashboard.labels import PRODUCT_NAMES
from quillpost.web.dashboard.print_room.labels import CLASS_LABELS, STATUS_LABELS, STATUS_TINTS, parse_numbers
from quillpost.web.dashboard.responses import OperatorContext, RequestContext
from quillpost.web.forms import PostedForm
from quillpost.web.rendering import pluralize, redirect
from quillpost.web.security import get_zone
from quillpost.web.sessions import is_fragment

PRINT_ROOM_PATH = "/print-room"
LIVE_MODE_ONLY = (
    "This holds for live mail, too, so it is changed in live mode alone. Switch to live at the top of the"
    " page, and try again."
)


def render_room_page(
    context: RequestContext, template: str, *, form: FormState = EMPTY_FORM, status: int | None = None, **values: Any
) -> Response:
    """Templates show errors of no field as `errors[""]`."""
    return context.render(
        f"print_room/{template}",
        form,
        status=status,
        environment=context.container.environments[context.user.mode],
        **values,
    )


def regroup_errors(form: FormState, fields: Sequence[str], default_field: str) -> FormState:
    """Move errors of a field's part, such as `amounts.3`, to the field, and those of unknown fields to
    `default_field`."""
    errors: dict[str, list[str]] = {}
    for name, messages in form.errors.items():
        field = name.partition(".")[0]
        errors.setdefault(field if field in fields else default_field, []).extend(messages)
    return FormState(form.fields, errors)


def require_live(user: SignedInUser) -> None:
    """For what is the same in both modes."""
    if user.mode != "live":
        raise Forbidden(LIVE_MODE_ONLY)


def audit_writer(context: RequestContext, action: str, details: Mapping[str, Any]) -> Callable[[Tx], None]:
    """For an action that opens its own transaction."""
    return lambda tx: write_audit_entry(context, tx, action, details)


def audit_count_writer(context: RequestContext, action: str, details: Mapping[str, Any]) -> Callable[[Tx, int], None]:
    """For an action on a number of things that is not known yet."""
    return lambda tx, count: write_audit_entry(context, tx, action, {**details, "how_many": count})


def write_audit_entry(context: RequestContext, tx: Tx, action: str, details: Mapping[str, Any]) -> None:
    audit_service.record_audit_entry(
        tx, context.account_id, action, context.user.actor, about=details, now=context.now()
    )


router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class OperatorAlert:
    """What waits for a person. `severity`: "bad", or "pending" if it can wait."""

    text: str
    href: str
    link_text: str
    severity: str = "bad"


@router.get(PRINT_ROOM_PATH)
def today_page(context: OperatorContext) -> Response:
    return _render_today(context, template="today_fragment.html" if is_fragment(context.request) else "today.html")


@router.post(f"{PRINT_ROOM_PATH}/pool")
def pool_orders(context: OperatorContext, _form: PostedForm) -> Response:
    write_entry = audit_count_writer(context, "orders.pooled", {"mode": context.user.mode})
    pooled_count = print_room_service.pool_orders_now(
        context.container.db, context.user.mode, write_audit=write_entry, now=context.now()
    )
    return redirect(PRINT_ROOM_PATH, flash="batches_pooled" if pooled_count else "nothing_pooled")


@router.post(f"{PRINT_ROOM_PATH}/rush")
def rush_orders(context: OperatorContext, form: PostedForm) -> Response:
    try:
        body = read_body(Rush, {"order_ids": parse_numbers(form.text("orders", max_length=5_000), field="orders")})
        rushed_count = print_room_service.rush_orders(
            context.container.db,
            context.user.mode,
            body.order_ids,
            operator_id=context.account_id,
            write_audit=audit_count_writer(context, "orders.rushed", {"mode": context.user.mode}),
            now=context.now(),
        )
    except (Invalid, Refused) as error:
        form_state = regroup_errors(FormState.from_error(form, error, default_field="orders"), ["orders"], "orders")
        return _render_today(context, form=form_state)
    return redirect(PRINT_ROOM_PATH, flash="orders_rushed" if rushed_count else "orders_unrushed")


def _render_today(context: RequestContext, *, form: FormState = EMPTY_FORM, template: str = "today.html") -> Response:
    now, zone = context.now(), get_zone(context.request)
    since = datetime.combine(now.astimezone(zone).date(), time(), zone)
    with context.system_transaction() as tx:
        batch_counts = print_room_queries.count_open_batches(tx, context.user.mode, now=now)
        values: dict[str, Any] = {
            "backlog": read_pooling_backlog(tx, context.user.mode),
            "output": print_room_queries.count_output_since(tx, context.user.mode, since=since, now=now),
            "alerts": list_alerts(context, tx, batch_counts, now=now),
        }
    environment = context.container.environments[context.user.mode]
    return render_room_page(
        context,
        template,
        form=form,
        batch_counts={
            status: batch_counts.get(status, OpenBatchCount()) for status in STATUS_LABELS if status != "mailed"
        },
        cutoff=next_cutoff(now, environment.cutoff, environment.zone) if environment.cutoff else None,
        product_names=PRODUCT_NAMES,
        class_labels=CLASS_LABELS,
        status_labels=STATUS_LABELS,
        tints=STATUS_TINTS,
        **values,
    )


def list_alerts(
    context: RequestContext, tx: Tx, batch_counts: dict[str, OpenBatchCount], *, now: datetime
) -> Sequence[OperatorAlert]:
    """The worst first."""
    environment, alerts = context.container.environments[context.user.mode], list[OperatorAlert]()
    if not jobs.are_workers_alive(tx, silent_seconds=context.container.job_stall_seconds):
        alerts.append(
            OperatorAlert(
                "No worker is at work: nothing is composed or sent.", f"{PRINT_ROOM_PATH}/jobs", "See the jobs"
            )
        )
    alerts += [OperatorAlert(gap, f"{PRINT_ROOM_PATH}/feeds", "See what is set up") for gap in environment.gaps]
    if stuck_count := sum(each.failing for each in batch_counts.values()):
        text = f"{pluralize(stuck_count, 'batch', 'batches')} cannot go on."
        alerts.append(OperatorAlert(text, f"{PRINT_ROOM_PATH}/batches?show=trouble", "Look at them"))
    if late_count := sum(each.late for each in batch_counts.values()):
        text = f"{pluralize(late_count, 'batch', 'batches')} went to the printer more than two days ago."
        alerts.append(
            OperatorAlert(
                f"{text} Mark what is mailed.", f"{PRINT_ROOM_PATH}/batches?show=open", "Look at them", "pending"
            )
        )
    if held_count := print_room_queries.count_paused_orders(tx, context.user.mode):
        held_label = (
            f"{held_count:,} orders or more wait"
            if held_count == MAX_PAUSED
            else f"{pluralize(held_count, 'order')} on hold"
        )
        alerts.append(
            OperatorAlert(
                f"{held_label}: each needs your word.", f"{PRINT_ROOM_PATH}/held", "Release or refuse", "pending"
            )
        )
    if failed_count := sum(kind.how_many for kind in jobs.count_failed_by_task(tx)):
        alerts.append(
            OperatorAlert(f"{pluralize(failed_count, 'job')} failed for good.", f"{PRINT_ROOM_PATH}/jobs", "Run again")
        )
    if silent_since := read_carrier_activity(tx, environment, now=now).silent_since:
        text = f"The carrier's last word came {format_time_ago(silent_since, now=now)}, and pieces are in the mail."
        alerts.append(OperatorAlert(text, f"{PRINT_ROOM_PATH}/feeds", "See the feeds"))
    if failing_count := count_failing_webhooks(tx, context.user.mode):
        text = f"{pluralize(failing_count, 'webhook')} of senders cannot be delivered to."
        alerts.append(OperatorAlert(text, f"{PRINT_ROOM_PATH}/webhooks", "See whose", "pending"))
    return alerts


FEEDS_PATH = f"{PRINT_ROOM_PATH}/feeds"
MAX_FILES_SHOWN = 50


@dataclass(frozen=True, slots=True)
class PartnerHealth:
    tint: str
    label: str


@router.get(FEEDS_PATH)
def feeds_page(context: OperatorContext) -> Response:
    """From our own records, without asking anybody outside."""
    now, environment = context.now(), context.container.environments[context.user.mode]
    with context.system_transaction() as tx:
        hand_overs = print_room_queries.list_handovers(tx, context.user.mode, now=now)
        stuck_batches = print_room_queries.read_stuck_batches(tx, context.user.mode)
        carrier_report = read_carrier_activity(tx, environment, now=now)
    return render_room_page(
        context,
        "feeds.html",
        handovers=hand_overs,
        stuck_batches=stuck_batches,
        carrier_activity=carrier_report,
        printer_health=_printer_health(context, hand_overs, stuck_batches),
        is_printer_missing=_is_printer_missing(context),
        carrier_health=_carrier_health(context, carrier_report),
        poll_interval=_interval_label(environment.poll_interval),
        callback_partners=sorted(context.container.print_partner_secrets) if context.user.mode == "live" else [],
    )


@router.get(f"{FEEDS_PATH}/files")
def files_page(context: OperatorContext) -> Response:
    """On its own page, as the carrier's folder may be remote and slow."""
    files, carrier_error = list[RefusedScanFile](), None
    try:
        files = list(context.container.environments[context.user.mode].carrier.set_aside())
    except CarrierDown as error:
        carrier_error = str(error)
    template = "feed_files_fragment.html" if is_fragment(context.request) else "feed_files.html"
    return render_room_page(
        context, template, files=files[:MAX_FILES_SHOWN], file_count=len(files), carrier_error=carrier_error
    )


def _interval_label(interval: timedelta) -> str:
    seconds = round(interval.total_seconds())
    if seconds <= 1:
        return "second"
    return f"{seconds} seconds" if seconds < 120 else f"{seconds // 60} minutes"


def _printer_health(
    context: RequestContext, hand_overs: Sequence[PartnerHandovers], stuck_batches: StuckBatches
) -> PartnerHealth:
    if stuck_batches.batches:
        return PartnerHealth("bad", "Failing")
    if _is_printer_missing(context):
        return PartnerHealth("pending", "Not set up")
    return PartnerHealth("good", "Good") if hand_overs else PartnerHealth("", "Nothing to print yet")


def _is_printer_missing(context: RequestContext) -> bool:
    """No partner is set for live mail: the stand-in prints nothing."""
    return context.user.mode == "live" and any(
        "PRINT_PARTNER" in gap for gap in context.container.environments["live"].gaps
    )


def _carrier_health(context: RequestContext, carrier_report: CarrierActivity) -> PartnerHealth:
    if carrier_report.silent_since is not None:
        return PartnerHealth("bad", "Silent")
    if not context.container.environments[context.user.mode].feeds:
        return PartnerHealth("pending", "Not set up")
    return PartnerHealth("good", "Good") if carrier_report.last_at else PartnerHealth("", "Nothing heard yet")
