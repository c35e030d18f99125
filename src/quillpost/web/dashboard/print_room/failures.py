"""Failing webhooks and jobs, for operators."""

from collections.abc import Sequence

import sqlalchemy as sa
from fastapi import APIRouter, Response

from quillpost.accounts.audit import service as audit_service
from quillpost.core import jobs
from quillpost.core.database import Tx
from quillpost.core.database.tables.fulfillment import batches
from quillpost.core.errors import NotFound
from quillpost.core.jobs import StoppedJob
from quillpost.fulfillment.batches.rules import batch_reference
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks.deliveries import MAX_BACKLOG, list_failing_webhooks
from quillpost.notifications.webhooks.queries import read_webhook
from quillpost.web.dashboard.forms import parse_page
from quillpost.web.dashboard.print_room.pages import PRINT_ROOM_PATH, render_room_page, write_audit_entry
from quillpost.web.dashboard.responses import OperatorContext
from quillpost.web.dependencies import parse_path_id
from quillpost.web.forms import PostedForm
from quillpost.web.rendering import redirect

router = APIRouter(include_in_schema=False)

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
def resume_webhook(context: OperatorContext, webhook_id: str, _form: PostedForm) -> Response:
    """The owner's audit log says that it was an operator."""
    now = context.now()
    with context.system_transaction() as tx:
        webhook = read_webhook(tx, parse_path_id(webhook_id), locked=True)
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
                write_audit_entry(context, tx, "webhook.resumed", details)
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
def retry_job(context: OperatorContext, job_id: str, _form: PostedForm) -> Response:
    with context.system_transaction() as tx:
        task = jobs.retry_job(tx, parse_path_id(job_id))
        write_audit_entry(context, tx, "jobs.retried", {"name": task})
    return redirect(JOBS_PATH, flash="jobs_retried")


@router.post(f"{JOBS_PATH}/retry")
def retry_task_jobs(context: OperatorContext, form: PostedForm) -> Response:
    task = form.text("task")
    with context.system_transaction() as tx:
        if task not in {kind.task for kind in jobs.count_failed_by_task(tx)}:
            raise NotFound
        write_audit_entry(context, tx, "jobs.retried", {"name": task, "how_many": jobs.retry_failed_jobs(tx, task)})
    return redirect(JOBS_PATH, flash="jobs_retried")


def _read_batch_errors(tx: Tx, stopped_jobs: Sequence[StoppedJob]) -> dict[int, str]:
    """By batch. Other errors are in the log."""
    batch_ids = [job.args["batch_id"] for job in stopped_jobs if isinstance(job.args.get("batch_id"), int)]
    rows = tx.execute(sa.select(batches.c.id, batches.c.trouble).where(batches.c.id.in_(batch_ids)))
    return {row.id: row.trouble for row in rows if row.trouble}
