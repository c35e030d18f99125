"""Failing webhooks and jobs, for operators."""

from collections.abc import Sequence

import sqlalchemy as sa
from fastapi import APIRouter, Request, Response

from quillpost.accounts.audit import service as audit_service
from quillpost.core import jobs
from quillpost.core.database import Tx
from quillpost.core.database.tables.print_room import batches
from quillpost.core.errors import NotFound
from quillpost.core.jobs import StoppedJob
from quillpost.fulfillment.rules import reference
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks.health import MOST_WAITING, list_unwell
from quillpost.notifications.webhooks.queries import read_webhook
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.dashboard.lists_common import asked_page
from quillpost.web.dashboard.print_room.pages import ROOM, note, room_page
from quillpost.web.forms import PostedForm
from quillpost.web.rendering import go
from quillpost.web.sessions import Operator, OurParts

router = APIRouter(include_in_schema=False)

WEBHOOKS_PAGE = f"{ROOM}/webhooks"
US = audit_service.Actor("whoever runs the service")
"""As the owner's own log calls an operator."""


@router.get(WEBHOOKS_PAGE)
def webhooks_page(request: Request, who: Operator, parts: OurParts, page: str = "") -> Response:
    with parts.db.work() as tx:
        found = list_unwell(tx, who.mode, asked_page(page))
    return room_page(
        request, "webhooks.html", who, parts, page=found, address=WEBHOOKS_PAGE, most=MOST_WAITING
    )


@router.post(f"{WEBHOOKS_PAGE}/{{webhook_id}}/resume")
def resume(webhook_id: str, who: Operator, _form: PostedForm, parts: OurParts) -> Response:
    """Its owner sees in their log that it was not one of them."""
    now = parts.clock()
    with parts.db.work() as tx:
        webhook = read_webhook(tx, id_in_path(webhook_id), locked=True)
        if webhook.mode != who.mode:
            raise NotFound
        if webhook.status in ("failing", "disabled"):
            webhook_service.resume(tx, webhook.id, now=now)
            about = {"id": webhook.id, "name": f"webhook {webhook.id}", "mode": webhook.mode}
            audit_service.note(
                tx,
                webhook.account_id,
                "webhook.resumed",
                US,
                about=about,
                sub_account_id=webhook.sub_account_id,
                now=now,
            )
            if webhook.account_id != who.here.account_id:
                note(tx, who, parts, "webhook.resumed", about)
    return go(WEBHOOKS_PAGE, said="receiver_resumed")


JOBS_PAGE = f"{ROOM}/jobs"


@router.get(JOBS_PAGE)
def jobs_page(request: Request, who: Operator, parts: OurParts, task: str = "", page: str = "") -> Response:
    with parts.db.work() as tx:
        kinds = jobs.failed_kinds(tx)
        task = task if task in {kind.task for kind in kinds} else ""
        found = jobs.failed(tx, asked_page(page), task=task or None)
        stalled = jobs.stalled(tx, silent_seconds=parts.stall_seconds)
        queues = jobs.queues(tx)
        has_workers = jobs.are_workers_alive(tx, silent_seconds=parts.stall_seconds)
        troubles = _troubles(tx, [*found.rows, *stalled])
    return room_page(
        request,
        "jobs.html",
        who,
        parts,
        kinds=kinds,
        task=task,
        page=found,
        address=f"{JOBS_PAGE}?task={task}" if task else JOBS_PAGE,
        stalled=stalled,
        queues=queues,
        has_workers=has_workers,
        troubles=troubles,
        reference=reference,
    )


@router.post(f"{JOBS_PAGE}/{{job_id}}/retry")
def retry(job_id: str, who: Operator, _form: PostedForm, parts: OurParts) -> Response:
    with parts.db.work() as tx:
        task = jobs.retry(tx, id_in_path(job_id))
        note(tx, who, parts, "jobs.retried", {"name": task})
    return go(JOBS_PAGE, said="jobs_retried")


@router.post(f"{JOBS_PAGE}/retry")
def retry_kind(who: Operator, form: PostedForm, parts: OurParts) -> Response:
    """All of a task."""
    task = form.text("task")
    with parts.db.work() as tx:
        if task not in {kind.task for kind in jobs.failed_kinds(tx)}:
            raise NotFound
        note(tx, who, parts, "jobs.retried", {"name": task, "how_many": jobs.retry_kind(tx, task)})
    return go(JOBS_PAGE, said="jobs_retried")


def _troubles(tx: Tx, stopped: Sequence[StoppedJob]) -> dict[int, str]:
    """What is known of the batches that some of them are about, by batch. Of all else the log tells."""
    ids = [job.args["batch_id"] for job in stopped if isinstance(job.args.get("batch_id"), int)]
    rows = tx.execute(sa.select(batches.c.id, batches.c.trouble).where(batches.c.id.in_(ids)))
    return {row.id: row.trouble for row in rows if row.trouble}
