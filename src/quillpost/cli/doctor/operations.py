"""Checks of the database and the work in it. A check never raises: it returns findings."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import sqlalchemy as sa

from quillpost.accounts.billing.queries import read_tariff
from quillpost.accounts.billing.rules import format_dollars
from quillpost.app import runtime
from quillpost.app.environments import read_partner_name
from quillpost.cli.console import format_count
from quillpost.cli.doctor.installation import DoctorFinding, is_service_running
from quillpost.core.database import Tx
from quillpost.core.database.embedded.binaries import MIN_MAJOR_VERSION
from quillpost.core.database.encrypted_columns import has_outdated_values, read_any_value
from quillpost.core.database.engine import create_admin_engine
from quillpost.core.database.schema import WORKER_ROLE, read_schema_state
from quillpost.core.database.tables.base import orders
from quillpost.core.database.tables.notifications import webhooks
from quillpost.core.database.tables.recipients import address_passes
from quillpost.core.encryption import DecryptionFailed, KeyFile
from quillpost.core.errors import QuillpostError
from quillpost.core.jobs import are_workers_alive
from quillpost.core.paging import PageRequest
from quillpost.core.settings import Settings
from quillpost.fulfillment.batches.files import BatchFileStorage, list_all_secret_files
from quillpost.fulfillment.batches.queries import ProductionBatch
from quillpost.fulfillment.batches.rules import batch_reference
from quillpost.fulfillment.print_room.queries import BatchQuery, list_batches
from quillpost.fulfillment.print_room.reports import is_other_partner
from quillpost.orders.giftcards import queries as giftcard_queries
from quillpost.orders.giftcards import stock
from quillpost.orders.giftcards.stock import MIN_VALIDITY
from quillpost.orders.products import DISPLAY_TYPES
from quillpost.orders.rules import OrderStatus
from quillpost.privacy.service import ENCRYPTED_COLUMNS, PRINT_FILES, count_files_by_key

LATE_JOB_MINUTES = 5

COUNT_JOBS = sa.text(
    """select count(*) filter (where status = 'failed') as failed,
              count(*) filter (where status = 'todo' and coalesce(scheduled_at, now())
                               < now() - make_interval(mins => :minutes)) as late,
              string_agg(distinct task_name, ', ') filter (where status = 'failed') as failed_names
         from procrastinate_jobs"""
)

ISSUER_NOTICE_PERIOD = timedelta(hours=1)  # issuers hear of a void card within minutes, while they can be reached
MAX_NAMED = 5

# Orders that have ended wait for nothing; those on hold do, once they are released.
SELECT_STOCK_SHORTAGES = sa.text(
    """
    with waiting as (
        select o.giftcard_brand as brand, o.giftcard_amount as cents, count(*) as wanted
          from orders o join items i on i.order_id = o.id
         where o.mode = 'live' and o.giftcard_amount is not null
           and o.status in ('reviewing', 'processing', 'printing', 'paused')
           and i.status = 'Processing' and i.giftcard_brand is null and i.gift_cents > 0
         group by 1, 2)
    select w.brand, w.cents, w.wanted, s.free
      from waiting w
     cross join lateral (
            select count(*) as free from giftcard_stock
             where mode = 'live' and brand = w.brand and cents = w.cents
               and taken_by is null and set_aside_at is null and coalesce(expires_on >= :good_on, true)) s
     where s.free < w.wanted order by w.brand, w.cents
    """
)

COUNT_SET_ASIDE = sa.text(
    "select count(*) from giftcard_stock where mode = 'live' and taken_by is null and set_aside_at is not null"
)

COUNT_UNREPORTED_VOIDS = sa.text(
    """
    select issuer, count(*) as cards from giftcards
     where status = 'void' and issuer is not null and given_back_at is null and voided_at < :long_ago
     group by issuer order by issuer
    """
)

LATE_AFTER = timedelta(minutes=5)

RECENT_PERIOD = timedelta(days=1)

COUNT_WAITING_NOTIFICATIONS = sa.text(
    """
    select count(*) filter (where status = 'pending' and channel = 'mail'
                              and (error is not null or next_at < :late)) as mails,
           count(*) filter (where status = 'pending' and channel = 'text'
                              and (error is not null or next_at < :late)) as texts,
           count(*) filter (where status = 'failed' and created_at > :lately) as failed
      from notices
     where status = 'pending' or created_at > :lately
    """
)

COUNT_USERS = sa.text(
    """
    select (select count(*) from people where password_hash is not null) as people,
           (select count(*) from accounts) as accounts,
           (select count(*) from accounts a
             where not exists (select from memberships m where m.account_id = a.id)) as deserted,
           (select count(*) from invitations
             where accepted_at is null and revoked_at is null and expires_at > :now) as invited
    """
)

OK_CLOCK_SKEW = timedelta(seconds=2)

MAX_CLOCK_SKEW = timedelta(seconds=20)  # pumps and workers lease what they do for a minute, each by its own clock
CLOCK_ADVICE = "Let every machine keep its clock by NTP."

RESTORE_KEY_ADVICE = "Bring back the key of this database: FILE.key of its last backup."


def check_with_database(settings: Settings, conninfo: str, *, now: datetime) -> Iterator[DoctorFinding]:
    """Of a database at another schema only that is reported."""
    try:
        with create_admin_engine(conninfo).connect() as tx:
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
    if are_workers_alive(tx, silent_seconds=settings.job_stall_seconds):
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


def check_addresses(tx: Tx) -> DoctorFinding:
    verification = tx.execute(sa.select(address_passes).where(address_passes.c.name == "verify")).one_or_none()
    if verification is not None and verification.trouble:
        since, error = verification.trouble_at.strftime("%Y-%m-%d %H:%M"), verification.trouble
        advice = "Mail goes on with our own verdicts. Look at QUILLPOST_VERIFIER and the service behind it."
        return DoctorFinding("addresses", "warning", f"not verified since {since}: {error}", advice)
    return DoctorFinding("addresses", "ok", "nothing stops their verification")


def _check_brands(tx: Tx, settings: Settings, *, now: datetime) -> DoctorFinding:
    """Whether live mail can bring what is offered: senders choose without knowing the issuer."""
    offered_brands = giftcard_queries.list_offered_brands(tx)
    if settings.giftcards is None:
        stocked = {storage.brand for storage in stock.count_stock(tx, now=now) if storage.free}
        unavailable = [brand.code for brand in offered_brands if brand.code not in stocked]
        problem, remedy = "no card is free", "Load some with `quillpost giftcards load`"
    else:
        unavailable = [brand.code for brand in offered_brands if brand.issuer_code is None]
        problem, remedy = "no issuer code is known", "Say it with `quillpost giftcards brand`"
    if not unavailable:
        return DoctorFinding("gift card brands", "ok", f"{len(offered_brands)} offered, and live mail can bring each")
    examples = ", ".join(unavailable[:MAX_NAMED])
    message = f"of {len(unavailable)} of the {len(offered_brands)} that are offered {problem}. First {examples}"
    return DoctorFinding("gift card brands", "warning", message, f"{remedy}, or `quillpost giftcards retire` them.")


def check_giftcards(tx: Tx, settings: Settings, *, now: datetime) -> Iterator[DoctorFinding]:
    """Brands without cards, cards that items wait for, and void cards that their issuer does not know of yet."""
    yield _check_brands(tx, settings, now=now)
    shortages = []
    if settings.giftcards is None:
        shortages = list(tx.execute(SELECT_STOCK_SHORTAGES, {"good_on": (now + MIN_VALIDITY).date()}))
    if shortages:
        labels = [f"{row.brand} over {format_dollars(row.cents)}: {row.wanted - row.free:,}" for row in shortages]
        examples = "; ".join(labels[:MAX_NAMED])
        advice = "Load them with `quillpost giftcards load`, or name an issuer in QUILLPOST_GIFTCARDS."
        yield DoctorFinding(
            "gift card stock", "warning", f"pieces wait for more cards than there are. {examples}", advice
        )
    if set_aside_count := int(tx.execute(COUNT_SET_ASIDE).scalar_one()):
        yield DoctorFinding(
            "restored gift cards",
            "warning",
            f"{set_aside_count:,} in stock are set aside, as they may have been mailed since the backup",
            "See Backups in docs/operate.md, then `quillpost giftcards release-stock`.",
        )
    unreported = list(tx.execute(COUNT_UNREPORTED_VOIDS, {"long_ago": now - ISSUER_NOTICE_PERIOD}))
    if unreported:
        examples = ", ".join(f"{row.cards:,} of {row.issuer}" for row in unreported)
        advice = "See that workers run, and that QUILLPOST_GIFTCARDS names who issued them."
        yield DoctorFinding("void gift cards", "warning", f"not given back yet: {examples}", advice)
    if not shortages and not unreported:
        yield DoctorFinding("gift card stock", "ok", "no piece waits for a card that is not there")


def check_notifications(tx: Tx, *, now: datetime) -> DoctorFinding:
    """What is overdue, and what failed for good recently."""
    counts = tx.execute(COUNT_WAITING_NOTIFICATIONS, {"late": now - LATE_AFTER, "lately": now - RECENT_PERIOD}).one()
    problems = [
        f"{count} {label}"
        for count, label in (
            (counts.mails, "e-mails wait"),
            (counts.texts, "text messages wait"),
            (counts.failed, "could not be sent since yesterday"),
        )
        if count
    ]
    if problems:
        advice = "The reasons are in the table `notices`, column `error`; see that workers run."
        return DoctorFinding("notices", "warning", "; ".join(problems), advice)
    return DoctorFinding("notices", "ok", "none waits")


def check_users(tx: Tx, settings: Settings, *, now: datetime) -> DoctorFinding:
    counts = tx.execute(COUNT_USERS, {"now": now}).one()
    if counts.invited and settings.smtp is None:
        message = f"{format_count(counts.invited, 'invitation')} cannot be brought: there is no mail server"
        advice = "Set QUILLPOST_SMTP, or hand the links over: `quillpost people invite` prints them."
        return DoctorFinding("people", "warning", message, advice)
    message = "1 person signs in" if counts.people == 1 else f"{counts.people:,} people sign in"
    if counts.deserted:
        message += f"; {counts.deserted} of {counts.accounts} accounts have nobody: `quillpost people invite`"
    return DoctorFinding("people", "ok", message)


def check_clock(tx: Tx, *, now: datetime) -> DoctorFinding:
    """Machines that disagree about the time would take each other's work."""
    skew = tx.execute(sa.text("select clock_timestamp()")).scalar_one() - now
    seconds = abs(skew.total_seconds())
    if abs(skew) <= OK_CLOCK_SKEW:
        return DoctorFinding("clock", "ok", "it agrees with the database's")
    message = f"{seconds:,.0f} seconds {'behind' if skew > timedelta(0) else 'ahead of'} the database's"
    return DoctorFinding("clock", "broken" if abs(skew) > MAX_CLOCK_SKEW else "warning", message, CLOCK_ADVICE)


def check_key(settings: Settings, tx: Tx) -> Iterator[DoctorFinding]:
    file = KeyFile(runtime.key_path(settings.home))
    path = file.path
    encrypted_values = [
        encrypted_value for column in ENCRYPTED_COLUMNS if (encrypted_value := read_any_value(tx, column)) is not None
    ]
    if settings.secret_key is None and not path.exists():
        yield _missing_key_finding(is_needed=bool(encrypted_values))
        return
    if settings.secret_key is None and file.is_accessible_to_others:
        yield DoctorFinding("secret key", "broken", f"others may use {path}", f"Run chmod 600 {path}.")
    try:
        encryptor = runtime.build_encryptor(settings)
        for context, value in encrypted_values:
            encryptor.decrypt(value, context=context)
    except QuillpostError as error:
        yield DoctorFinding("secret key", "broken", error.message, RESTORE_KEY_ADVICE)
    except DecryptionFailed:
        message = "it does not open the secrets in this database"
        yield DoctorFinding("secret key", "broken", message, RESTORE_KEY_ADVICE)
    else:
        location = "QUILLPOST_SECRET_KEY" if settings.secret_key else str(path)
        if len(encryptor.key_ids) > 1:
            yield _check_several_keys(tx, BatchFileStorage(runtime.build_file_store(settings), encryptor), location)
        else:
            yield DoctorFinding("secret key", "ok", location)


def _check_several_keys(tx: Tx, files: BatchFileStorage, location: str) -> DoctorFinding:
    encryptor = files.encryptor
    outdated = [
        str(column) for column in ENCRYPTED_COLUMNS if has_outdated_values(tx, column, encryptor.current_header)
    ]
    try:
        if count_files_by_key(files, list_all_secret_files(tx)).keys() - {encryptor.current_key_id}:
            outdated.append(PRINT_FILES)
    except QuillpostError as error:
        message = f"nobody can tell which key the {PRINT_FILES} need: {error.message}"
        return DoctorFinding("secret key", "warning", message, "Bring the file store back.")
    if not outdated:
        return DoctorFinding(
            "secret key", "ok", f"{location}, with {len(encryptor.key_ids)} keys: all is under the first"
        )
    message = f"there are {len(encryptor.key_ids)} keys, and {', '.join(outdated)} still need a former one"
    return DoctorFinding("secret key", "warning", message, "`quillpost keys list` says what to do next.")


def _missing_key_finding(*, is_needed: bool) -> DoctorFinding:
    if is_needed:
        message = "it is gone, and this database has secrets that only it opens"
        return DoctorFinding("secret key", "broken", message, RESTORE_KEY_ADVICE)
    return DoctorFinding("secret key", "warning", "there is none yet", "`quillpost serve` makes it.")
