"""Work that was given up, or whose worker fell silent; the queues; and another try."""

from collections.abc import Sequence

import sqlalchemy as sa
from fastapi import APIRouter, Request, Response

from quillpost import jobs
from quillpost.api.needs import id_in_path
from quillpost.dashboard.paging import asked_page
from quillpost.dashboard.print_room.room_pages import ROOM, note, room_page
from quillpost.database import Tx
from quillpost.database.press_tables import batches
from quillpost.fulfilment.rules import reference
from quillpost.jobs import StoppedJob
from quillpost.kit.errors import NotFound
from quillpost.reception.forms import PostedForm
from quillpost.reception.show import go
from quillpost.reception.visits import Operator, OurParts

router = APIRouter(include_in_schema=False)

PAGE = f"{ROOM}/jobs"


@router.get(PAGE)
def list_page(request: Request, who: Operator, parts: OurParts, task: str = "", page: str = "") -> Response:
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
        address=f"{PAGE}?task={task}" if task else PAGE,
        stalled=stalled,
        queues=queues,
        has_workers=has_workers,
        troubles=troubles,
        reference=reference,
    )


@router.post(f"{PAGE}/{{job_id}}/retry")
def retry(job_id: str, who: Operator, _form: PostedForm, parts: OurParts) -> Response:
    with parts.db.work() as tx:
        task = jobs.retry(tx, id_in_path(job_id))
        note(tx, who, parts, "jobs.retried", {"name": task})
    return go(PAGE, said="jobs_retried")


@router.post(f"{PAGE}/retry")
def retry_kind(who: Operator, form: PostedForm, parts: OurParts) -> Response:
    """All of a task."""
    task = form.text("task")
    with parts.db.work() as tx:
        if task not in {kind.task for kind in jobs.failed_kinds(tx)}:
            raise NotFound
        note(tx, who, parts, "jobs.retried", {"name": task, "how_many": jobs.retry_kind(tx, task)})
    return go(PAGE, said="jobs_retried")


def _troubles(tx: Tx, stopped: Sequence[StoppedJob]) -> dict[int, str]:
    """What is known of the batches that some of them are about, by batch. Of all else the log tells."""
    ids = [job.args["batch_id"] for job in stopped if isinstance(job.args.get("batch_id"), int)]
    rows = tx.execute(sa.select(batches.c.id, batches.c.trouble).where(batches.c.id.in_(ids)))
    return {row.id: row.trouble for row in rows if row.trouble}
