"""The print room today, feeds of carriers and printers, failing webhooks and jobs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any

import sqlalchemy as sa
from fastapi import APIRouter, Response

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.core import jobs
from quillpost.core.database import Tx
from quillpost.core.database.tables.fulfillment import batches
from quillpost.core.errors import Forbidden, Invalid, NotFound, Refused
from quillpost.core.jobs import StoppedJob
from quillpost.core.text import format_time_ago
from quillpost.fulfillment.batches.rules import batch_reference, next_cutoff
from quillpost.fulfillment.batches.service import read_pooling_backlog
from quillpost.fulfillment.ports import CarrierDown, RefusedScanFile
from quillpost.fulfillment.print_room import queries as print_room_queries
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.fulfillment.print_room.queries import MAX_PAUSED, OpenBatchCount, PartnerHandovers, StuckBatches
from quillpost.fulfillment.tracking.queries import CarrierActivity, read_carrier_activity
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks.deliveries import MAX_BACKLOG, count_failing_webhooks, list_failing_webhooks
from quillpost.notifications.webhooks.queries import read_webhook
from quillpost.web.api.print_room.schemas import Rush
from quillpost.web.dashboard.forms import EMPTY_FORM, FormState, parse_page, read_body
from quillpost.web.dashboard.print_room.labels import LABELS, STATUS_LABELS, parse_numbers
from quillpost.web.dashboard.responses import OperatorContext, PathId, RequestContext
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


def require_live(user: SignedInUser) -> None:
    """For what is the same in both modes."""
    if user.mode != "live":
        raise Forbidden(LIVE_MODE_ONLY)


def audit_count_writer(context: RequestContext, action: str, details: Mapping[str, Any]) -> Callable[[Tx, int], None]:
    """For an action on a number of things that is not known yet."""
    return lambda tx, count: context.audit(tx, action, {**details, "how_many": count})


router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class OperatorAlert:
    """What waits for a person. `page`: of the print room. `severity`: "bad", or "pending" if it can wait."""

    text: str
    page: str
    link_text: str
    severity: str = "bad"

    @property
    def href(self) -> str:
        return f"{PRINT_ROOM_PATH}/{self.page}"


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
        form_state = FormState.from_error(form, error, default_field="orders").regroup(["orders"], "orders")
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
        **LABELS,
        **values,
    )


def list_alerts(
    context: RequestContext, tx: Tx, batch_counts: dict[str, OpenBatchCount], *, now: datetime
) -> Sequence[OperatorAlert]:
    """The worst first."""
    environment, alerts = context.container.environments[context.user.mode], list[OperatorAlert]()
    if not jobs.are_workers_alive(tx, silent_seconds=context.container.job_stall_seconds):
        alerts.append(OperatorAlert("No worker is at work: nothing is composed or sent.", "jobs", "See the jobs"))
    alerts += [OperatorAlert(gap, "feeds", "See what is set up") for gap in environment.gaps]
    if stuck_count := sum(each.failing for each in batch_counts.values()):
        text = f"{pluralize(stuck_count, 'batch', 'batches')} cannot go on."
        alerts.append(OperatorAlert(text, "batches?show=trouble", "Look at them"))
    if late_count := sum(each.late for each in batch_counts.values()):
        batches_label = pluralize(late_count, "batch", "batches")
        text = f"{batches_label} went to the printer more than two days ago. Mark what is mailed."
        alerts.append(OperatorAlert(text, "batches?show=open", "Look at them", "pending"))
    if held_count := print_room_queries.count_paused_orders(tx, context.user.mode):
        is_cut = held_count == MAX_PAUSED
        held_label = f"{held_count:,} orders or more wait" if is_cut else f"{pluralize(held_count, 'order')} on hold"
        alerts.append(OperatorAlert(f"{held_label}: each needs your word.", "held", "Release or refuse", "pending"))
    if failed_count := sum(kind.how_many for kind in jobs.count_failed_by_task(tx)):
        alerts.append(OperatorAlert(f"{pluralize(failed_count, 'job')} failed for good.", "jobs", "Run again"))
    if silent_since := read_carrier_activity(tx, environment, now=now).silent_since:
        text = f"The carrier's last word came {format_time_ago(silent_since, now=now)}, and pieces are in the mail."
        alerts.append(OperatorAlert(text, "feeds", "See the feeds"))
    if failing_count := count_failing_webhooks(tx, context.user.mode):
        text = f"{pluralize(failing_count, 'webhook')} of senders cannot be delivered to."
        alerts.append(OperatorAlert(text, "webhooks", "See whose", "pending"))
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
        gap.code == "print_partner" for gap in context.container.environments["live"].gaps
    )


def _carrier_health(context: RequestContext, carrier_report: CarrierActivity) -> PartnerHealth:
    if carrier_report.silent_since is not None:
        return PartnerHealth("bad", "Silent")
    if not context.container.environments[context.user.mode].feeds:
        return PartnerHealth("pending", "Not set up")
    return PartnerHealth("good", "Good") if carrier_report.last_at else PartnerHealth("", "Nothing heard yet")


WEBHOOKS_PATH = f"{PRINT_ROOM_PATH}/webhooks"
OPERATOR_ACTOR = audit_service.Actor("whoever runs the service")  # in the owner's audit log


@router.get(WEBHOOKS_PATH)
def webhooks_page(context: OperatorContext, page: str = "") -> Response:
    with context.system_transaction() as tx:
        failing_webhooks = list_failing_webhooks(tx, context.user.mode, parse_page(page))
    return render_room_page(
        context, "webhooks.html", page=failing_webhooks, list_url=WEBHOOKS_PATH, max_backlog=MAX_BACKLOG
    )


@router.post(f"{WEBHOOKS_PATH}/{{webhook_id}}/resume")
def resume_webhook(context: OperatorContext, webhook_id: PathId, _form: PostedForm) -> Response:
    """The owner's audit log says that it was an operator."""
    now = context.now()
    with context.system_transaction() as tx:
        webhook = read_webhook(tx, webhook_id, locked=True)
        if webhook.mode != context.user.mode:
            raise NotFound
        if webhook.status in ("failing", "disabled"):
            webhook_service.resume_webhook(tx, webhook.id, now=now)
            details = {"id": webhook.id, "name": f"webhook {webhook.id}", "mode": webhook.mode}
            audit_service.record_audit_entry(
                tx,
                webhook.account_id,
                "webhook.resumed",
                OPERATOR_ACTOR,
                about=details,
                sub_account_id=webhook.sub_account_id,
                now=now,
            )
            if webhook.account_id != context.account_id:
                context.audit(tx, "webhook.resumed", details)
    return redirect(WEBHOOKS_PATH, flash="receiver_resumed")


JOBS_PATH = f"{PRINT_ROOM_PATH}/jobs"


@router.get(JOBS_PATH)
def jobs_page(context: OperatorContext, task: str = "", page: str = "") -> Response:
    with context.system_transaction() as tx:
        kinds = jobs.count_failed_by_task(tx)
        task = task if task in {kind.task for kind in kinds} else ""
        failed_jobs = jobs.list_failed_jobs(tx, parse_page(page), task=task or None)
        stalled_jobs = jobs.list_stalled_jobs(tx, silent_seconds=context.container.job_stall_seconds)
        queues = jobs.list_queues(tx)
        has_workers = jobs.are_workers_alive(tx, silent_seconds=context.container.job_stall_seconds)
        batch_errors = _read_batch_errors(tx, [*failed_jobs.rows, *stalled_jobs])
    return render_room_page(
        context,
        "jobs.html",
        failed_tasks=kinds,
        task=task,
        page=failed_jobs,
        list_url=f"{JOBS_PATH}?task={task}" if task else JOBS_PATH,
        stalled_jobs=stalled_jobs,
        queues=queues,
        has_workers=has_workers,
        batch_errors=batch_errors,
        batch_reference=batch_reference,
    )


@router.post(f"{JOBS_PATH}/{{job_id}}/retry")
def retry_job(context: OperatorContext, job_id: PathId, _form: PostedForm) -> Response:
    with context.system_transaction() as tx:
        task = jobs.retry_job(tx, job_id)
        context.audit(tx, "jobs.retried", {"name": task})
    return redirect(JOBS_PATH, flash="jobs_retried")


@router.post(f"{JOBS_PATH}/retry")
def retry_task_jobs(context: OperatorContext, form: PostedForm) -> Response:
    task = form.text("task")
    with context.system_transaction() as tx:
        if task not in {kind.task for kind in jobs.count_failed_by_task(tx)}:
            raise NotFound
        context.audit(tx, "jobs.retried", {"name": task, "how_many": jobs.retry_failed_jobs(tx, task)})
    return redirect(JOBS_PATH, flash="jobs_retried")


def _read_batch_errors(tx: Tx, stopped_jobs: Sequence[StoppedJob]) -> dict[int, str]:
    """By batch. Other errors are in the log."""
    batch_ids = [job.args["batch_id"] for job in stopped_jobs if isinstance(job.args.get("batch_id"), int)]
    rows = tx.execute(sa.select(batches.c.id, batches.c.trouble).where(batches.c.id.in_(batch_ids)))
    return {row.id: row.trouble for row in rows if row.trouble}
