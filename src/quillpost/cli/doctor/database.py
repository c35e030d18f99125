"""What `quillpost doctor` finds out from the database. A check never raises: it returns findings."""

from collections.abc import Iterator
from datetime import datetime

import sqlalchemy as sa

from quillpost.accounts.billing.queries import read_tariff
from quillpost.app import runtime
from quillpost.app.environments import read_partner_name
from quillpost.cli.doctor.installation import is_service_running
from quillpost.cli.doctor.models import DoctorFinding
from quillpost.cli.doctor.operations import (
    check_addresses,
    check_clock,
    check_giftcards,
    check_key,
    check_notifications,
    check_users,
)
from quillpost.core.database import Tx
from quillpost.core.database.embedded.binaries import MIN_MAJOR_VERSION
from quillpost.core.database.engine import create_admin_engine
from quillpost.core.database.schema import WORKER_ROLE, read_schema_state
from quillpost.core.database.tables.base import orders
from quillpost.core.database.tables.notifications import webhooks
from quillpost.core.paging import PageRequest
from quillpost.core.settings import Settings
from quillpost.fulfillment.batches.queries import ProductionBatch
from quillpost.fulfillment.batches.rules import batch_reference
from quillpost.fulfillment.print_room.queries import BatchQuery, list_batches
from quillpost.fulfillment.print_room.reports import is_other_partner
from quillpost.orders.products import DISPLAY_TYPES
from quillpost.orders.rules import OrderStatus

LATE_JOB_MINUTES = 5
MAX_NAMED = 5

COUNT_JOBS = sa.text(
    """select count(*) filter (where status = 'failed') as failed,
              count(*) filter (where status = 'todo' and coalesce(scheduled_at, now())
                               < now() - make_interval(mins => :minutes)) as late,
              string_agg(distinct task_name, ', ') filter (where status = 'failed') as failed_names
         from procrastinate_jobs"""
)
COUNT_LIVE_WORKERS = sa.text(
    "select count(*) from procrastinate_workers where last_heartbeat > now() - make_interval(secs => :s)"
)


def check_with_database(settings: Settings, conninfo: str, *, now: datetime) -> Iterator[DoctorFinding]:
    """Of a database at another schema only that is reported."""
    engine = create_admin_engine(conninfo)
    try:
        with engine.connect() as tx:
            yield check_version(tx)
            schema = check_schema(tx)
            yield schema
            if schema.status != "ok":
                return
            tx.execute(sa.text(f"set local role {WORKER_ROLE}"))
            yield from check_key(settings, tx)
            yield check_clock(tx, now=runtime.now())
            yield check_prices(tx, now=now)
            yield check_workers(tx, settings)
            yield check_jobs(tx)
            yield check_batches(tx, settings)
            yield check_paused_orders(tx)
            yield check_webhooks(tx)
            yield check_notifications(tx, now=now)
            yield check_users(tx, settings, now=now)
            yield check_addresses(tx)
            yield from check_giftcards(tx, settings, now=now)
    except sa.exc.DBAPIError as error:
        reason = str(error.orig).strip().splitlines()[0]
        yield DoctorFinding("database", "broken", f"it refused an answer: {reason}", "Read PostgreSQL's log.")
    finally:
        engine.dispose()


def check_version(tx: Tx) -> DoctorFinding:
    version = str(tx.execute(sa.text("show server_version")).scalar_one())
    version_text = f"PostgreSQL {version} answers"
    if int(version.partition(".")[0]) < MIN_MAJOR_VERSION:
        return DoctorFinding(
            "database", "warning", version_text, f"Quillpost is tested on {MIN_MAJOR_VERSION} and newer."
        )
    return DoctorFinding("database", "ok", version_text)


def check_schema(tx: Tx) -> DoctorFinding:
    schema = read_schema_state(tx)
    match schema.status:
        case "current":
            return DoctorFinding("schema", "ok", f"{schema.revision}, as this release needs it")
        case "empty":
            return DoctorFinding("schema", "warning", "the database is empty", "`quillpost serve` fills it.")
        case "older":
            message = f"{schema.revision} is older than {schema.required_revision}"
            return DoctorFinding("schema", "broken", message, "Take a backup, then run `quillpost migrate`.")
        case "newer":
            message = f"{schema.revision} is newer than {schema.required_revision}"
            return DoctorFinding("schema", "broken", message, "Run the release that wrote it, or a later one.")


def check_prices(tx: Tx, *, now: datetime) -> DoctorFinding:
    unpriced = [
        label
        for (kind, size), label in DISPLAY_TYPES.items()
        if read_tariff(tx, type=kind, size=size, mail_class="first", on=now.date()).unit_cents("US") is None
    ]
    if unpriced:
        advice = "Run `quillpost migrate`, which loads the shipped prices, or enter your own."
        return DoctorFinding("prices", "broken", f"none in force for {', '.join(unpriced)}", advice)
    return DoctorFinding("prices", "ok", f"in force today for {', '.join(DISPLAY_TYPES.values())}")


def check_workers(tx: Tx, settings: Settings) -> DoctorFinding:
    alive = tx.execute(COUNT_LIVE_WORKERS, {"s": settings.job_stall_seconds}).scalar_one()
    if alive:
        return DoctorFinding("workers", "ok", "they are at work")
    if is_service_running(settings):
        return DoctorFinding("workers", "broken", "the service runs, its work does not", "Start `quillpost work`.")
    return DoctorFinding("workers", "warning", "none at work", "Start `quillpost serve`, or `quillpost work`.")


def check_jobs(tx: Tx) -> DoctorFinding:
    counts = tx.execute(COUNT_JOBS, {"minutes": LATE_JOB_MINUTES}).one()
    problems = []
    if counts.failed:
        problems.append(f"{counts.failed} failed ({counts.failed_names})")
    if counts.late:
        problems.append(f"{counts.late} wait for more than {LATE_JOB_MINUTES} minutes")
    if problems:
        advice = "Read the service's log for the reason; see that workers run."
        return DoctorFinding("jobs", "warning", "; ".join(problems), advice)
    return DoctorFinding("jobs", "ok", "none failed, none late")


def check_batches(tx: Tx, settings: Settings) -> DoctorFinding:
    page = list_batches(tx, PageRequest(per_page=MAX_NAMED), BatchQuery(is_open=True, has_error=True))
    if page.total:
        examples = "; ".join(f"{batch_reference(batch.id)}: {batch.trouble}" for batch in page.rows)
        advice = "`quillpost print list --trouble` shows them"
        if page.total > (former_partner_count := sum(_is_with_former_partner(batch, settings) for batch in page.rows)):
            retry_target = "the others again" if former_partner_count else "again"
            advice += f", `quillpost print retry BATCH` tries {retry_target}"
        return DoctorFinding("batches", "warning", f"{page.total} in trouble. {examples}", f"{advice}.")
    return DoctorFinding("batches", "ok", "none in trouble")


def _is_with_former_partner(batch: ProductionBatch, settings: Settings) -> bool:
    """Its error says what to do; trying again is useless."""
    return batch.mode == "live" and is_other_partner(batch.partner, read_partner_name(settings))


def check_paused_orders(tx: Tx) -> DoctorFinding:
    is_paused = orders.c.status == OrderStatus.PAUSED.value
    by_mode = sa.select(orders.c.mode, sa.func.count().label("held")).where(is_paused).group_by(orders.c.mode)
    rows = tx.execute(by_mode.order_by(orders.c.mode)).all()
    if rows:
        message = ", ".join(f"{row.held} {row.mode}" for row in rows)
        oldest = tx.execute(sa.select(orders.c.id).where(is_paused).order_by(orders.c.id).limit(MAX_NAMED))
        examples = ", ".join(map(str, oldest.scalars()))
        advice = "`quillpost print held` says why (`--mode test`: of test orders); release or refuse each."
        return DoctorFinding("paused", "warning", f"{message} orders wait for an operator, first {examples}", advice)
    return DoctorFinding("paused", "ok", "no order waits for an operator")


def check_webhooks(tx: Tx) -> DoctorFinding:
    """By number, as an address may hold a secret."""
    rows = tx.execute(
        sa.select(webhooks.c.id).where(webhooks.c.status.in_(("failing", "disabled"))).order_by(webhooks.c.id)
    )
    failing = [str(number) for number in rows.scalars()]
    if failing:
        message = f"{len(failing)} cannot be reached: {', '.join(failing[:10])}"
        return DoctorFinding("webhooks", "warning", message, "Tell their owners, who can see why in the deliveries.")
    return DoctorFinding("webhooks", "ok", "every endpoint answers")
