"""Retention, and opt-out requests.

How long each table's rows are retained, and the job that deletes older ones, a few at a time. What only another job
can delete names that job.

An opt-out request leads from the code on an item to a suppression list of its sender. It is stored before anything is
looked up, so that a response takes as long for an unknown code. A job then adds the item's address to a list of the
whole account, one for each mode. Codes are case-sensitive, and people mistype them: one that no item has stands for the
only item whose code reads alike.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
import structlog

from quillpost.core import jobs
from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.base import do_not_mail_inbox
from quillpost.core.encryption import Encryptor
from quillpost.core.text import Clock
from quillpost.core.tokens import BASE62_CHARS, PREVIEW_CODE, SHORT_CODE_LENGTH
from quillpost.privacy import service
from quillpost.recipients.addresses.rules import ADDRESS_PARTS, DELIVERABLE
from quillpost.recipients.lists import service as list_service

RetentionDays = Mapping[str, int | None]  # by setting; None: forever


@dataclass(slots=True, kw_only=True)
class RetentionStep:
    """One run of a rule. `after` and `until` are ids, for tables whose old rows have the lowest ids."""

    before: datetime
    limit: int
    now: datetime
    after: int = 0
    until: int | None = None


DeleteRows = Callable[[Tx, RetentionStep], int]
ORDER_ENDED = "status in ('fulfilled', 'cancelled', 'error')"
ITEM_ENDED = "(i.is_over or i.status in ('Delivered', 'Returned to Sender', 'Failed'))"


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """The days count from `counted_from`. `overdue_query` finds ids of rows before `:before`; `delete_rows` deletes
    them, or another `job` does."""

    table: str
    description: str
    setting: str
    counted_from: str
    overdue_query: str
    delete_rows: DeleteRows | None = None
    job: str | None = None


def _delete_by_column(table: str, column: str, overdue_query: str) -> DeleteRows:
    statement = sa.text(
        f"delete from {table} where {column} = any(array(select * from ({overdue_query}) old limit :most))"
    )

    def delete_rows(tx: Tx, step: RetentionStep) -> int:
        return tx.execute(statement, {"before": step.before, "most": step.limit}).rowcount

    return delete_rows


def _delete_by_cursor(table: str, alias: str, time: str, overdue_query: str) -> DeleteRows:
    """With a cursor, so that rows that stay are not scanned by each step. The index over times finds the last id that
    may be old."""
    newest_id_query = sa.text(f"select coalesce(max(id), 0) from {table} where {time} < :before")
    statement = sa.text(f"""
        with gone as (
            delete from {table} where id = any(array(
                {overdue_query} and {alias}.id > :after and {alias}.id <= :until
                 order by {alias}.id limit :most))
            returning id)
        select count(*) as rows, max(id) as last from gone
    """)

    def delete_rows(tx: Tx, step: RetentionStep) -> int:
        if step.until is None:
            step.until = int(tx.execute(newest_id_query, {"before": step.before}).scalar_one())
        params = {"before": step.before, "most": step.limit, "after": step.after, "until": step.until}
        deleted = tx.execute(statement, params).one()
        step.after = deleted.last or step.after
        return int(deleted.rows)

    return delete_rows


def _apply_to_ids(overdue_query: str, action: Callable[..., object]) -> DeleteRows:
    statement = sa.text(f"select * from ({overdue_query}) old limit :most")

    def delete_rows(tx: Tx, step: RetentionStep) -> int:
        ids = list(tx.execute(statement, {"before": step.before, "most": step.limit}).scalars())
        if ids:
            action(tx, ids, now=step.now)
        return len(ids)

    return delete_rows


def _delete_claims(tx: Tx, step: RetentionStep) -> int:
    """Claims that cannot be printed any more; their digests stay, so that the cards can be claimed. A reprint locks the
    card: the second query then skips it."""
    item_ids = tx.execute(LOCK_CLAIMS, {"before": step.before, "most": step.limit}).scalars().all()
    return tx.execute(DELETE_CLAIMS, {"before": step.before, "items": list(item_ids)}).rowcount


# An item in a batch that is not mailed may have to be drawn again, to the same bytes.
OVERDUE_PEOPLE = f"""
    select i.id from items i
     where i.person_gone_at is null and {ITEM_ENDED} and i.updated_at < :before
       and not exists (select from prints p join batches b on b.id = p.batch_id
                        where p.item_id = i.id and b.status <> 'mailed')
     order by i.updated_at
"""
# Pending deliveries and automations still need the facts.
OVERDUE_FACTS = f"""
    select f.id from facts f join orders o on o.id = f.order_id
     where f.at < :before and o.{ORDER_ENDED}
       and not exists (select from fact_queue q where q.fact_id = f.id)
       and not exists (select from deliveries d where d.status = 'pending' and d.fact_id = f.id)
"""
OVERDUE_VISITS = "select v.id from visits v where v.at < :before"
OVERDUE_CARRIER_SCANS = f"""
    select s.id from carrier_scans s left join items i on i.id = s.item_id
     where s.received_at < :before and (i.id is null or {ITEM_ENDED})
"""
OVERDUE_AUTOMATION_SENT = "select s.ctid from automation_sent s where s.at < :before"
OVERDUE_IMAGES = f"""
    select id from orders
     where pictures_gone_at is null and {ORDER_ENDED} and updated_at < :before order by updated_at
"""
OVERDUE_PRINT_FILES = """
    select distinct b.id from batches b join batch_files f on f.batch_id = b.id and f.name <> 'statement.json'
     where b.status = 'mailed' and b.mailed_at < :before
"""
OVERDUE_GIFTCARD_PRINTS = """
    select distinct b.id from batches b join batch_files f on f.batch_id = b.id and f.is_secret
     where b.status = 'mailed' and b.mailed_at < :before
"""
# A claim is stored as long as one of its batches may have to be printed again; that of a void card as long after.
OVERDUE_CLAIMS = """
    select g.item_id from giftcards g
     where g.claim_sealed is not null
       and (exists (select from prints p where p.item_id = g.item_id)
            or g.status = 'void' and g.voided_at < :before)
       and not exists (select from prints p join batches b on b.id = p.batch_id
                        where p.item_id = g.item_id and (b.status <> 'mailed' or b.mailed_at >= :before))
"""
OVERDUE_DELIVERIES = (
    "select id from deliveries where created_at < date_trunc('day', cast(:before as timestamptz), 'UTC')"
)
OVERDUE_NOTIFICATIONS = "select id from notices where status <> 'pending' and created_at < :before"
OVERDUE_STORED_SENDS = "select id from stored_sends where expires_at - interval '90 days' < :before"
OVERDUE_IMPORTS = "select id from imports where file_key is not null and created_at < :before"
OVERDUE_VERIFICATIONS = "select address_key from address_verdicts where answered_at < :before and expires_at < now()"
OVERDUE_JOBS = """
    select j.id from procrastinate_jobs j
     where j.status in ('succeeded', 'cancelled', 'aborted')
       and (select max(e.at) from procrastinate_events e where e.job_id = j.id) < :before
"""
OVERDUE_AUDIT_ENTRIES = "select id from audit_log where at < :before"
LOCK_CLAIMS = sa.text(f"{OVERDUE_CLAIMS} order by g.item_id limit :most for no key update of g")
DELETE_CLAIMS = sa.text(f"""
    update giftcards set claim_sealed = null
     where item_id = any(array({OVERDUE_CLAIMS} and g.item_id = any(:items)))
""")

RETENTION_RULES = (
    RetentionRule("items", "recipients of pieces", "keep_people_days", "the piece's end", OVERDUE_PEOPLE,
         _apply_to_ids(OVERDUE_PEOPLE, service.erase_ended_items)),
    RetentionRule("facts", "what happened to orders", "keep_facts_days", "when it happened", OVERDUE_FACTS,
         _delete_by_cursor("facts", "f", "at", OVERDUE_FACTS)),
    RetentionRule("visits", "scans of QR codes", "keep_visits_days", "the scan", OVERDUE_VISITS,
         _delete_by_cursor("visits", "v", "at", OVERDUE_VISITS)),
    RetentionRule("carrier_scans", "the carrier's scans", "keep_carrier_scans_days", "when they came",
        OVERDUE_CARRIER_SCANS,
         _delete_by_cursor("carrier_scans", "s", "received_at", OVERDUE_CARRIER_SCANS)),
    RetentionRule("automation_sent", "whom automations mailed", "keep_mailed_days", "the order",
        OVERDUE_AUTOMATION_SENT,
         _delete_by_column("automation_sent", "ctid", OVERDUE_AUTOMATION_SENT)),
    RetentionRule("files", "pictures and PDFs of orders", "keep_pictures_days", "the order's end", OVERDUE_IMAGES,
         _apply_to_ids(OVERDUE_IMAGES, service.delete_images)),
    RetentionRule("batch_files", "print files", "keep_print_files_days", "the mailing", OVERDUE_PRINT_FILES,
         _apply_to_ids(OVERDUE_PRINT_FILES, service.delete_print_files)),
    RetentionRule("batch_files", "print files of gift cards", "keep_giftcard_prints_days", "the mailing",
         OVERDUE_GIFTCARD_PRINTS, _apply_to_ids(OVERDUE_GIFTCARD_PRINTS, service.delete_secret_print_files)),
    RetentionRule("giftcards", "claims, to print them again", "keep_giftcard_prints_days", "the mailing",
         OVERDUE_CLAIMS, _delete_claims),
    RetentionRule("audit_log", "who did what in accounts", "keep_audit_days", "the act", OVERDUE_AUDIT_ENTRIES,
         _delete_by_column("audit_log", "id", OVERDUE_AUDIT_ENTRIES)),
    RetentionRule("deliveries", "what webhooks were told", "keep_deliveries_days", "its making", OVERDUE_DELIVERIES,
         job="webhooks.maintain_partitions"),
    RetentionRule("notices", "e-mails and texts", "keep_notices_days", "its making", OVERDUE_NOTIFICATIONS,
         job="notifications.delete_expired"),
    RetentionRule("stored_sends", "sends that wait", "keep_stored_sends_days", "the last look at it",
        OVERDUE_STORED_SENDS,
         job="stored_sends.delete_expired"),
    RetentionRule("imports", "files that lists were filled from", "keep_imports_days", "the upload", OVERDUE_IMPORTS,
         job="imports.delete_expired"),
    RetentionRule("address_verdicts", "what a verifier said", "verified_days", "its answer", OVERDUE_VERIFICATIONS,
         job="verification.delete_expired"),
    RetentionRule("procrastinate_jobs", "jobs that are done", "keep_jobs_days", "their end", OVERDUE_JOBS,
         job="jobs.delete_finished"),
)  # fmt: skip


def read_retention_days(settings: object) -> RetentionDays:
    return {rule.setting: getattr(settings, rule.setting) for rule in RETENTION_RULES}


log = structlog.get_logger(__name__)
BATCH_SIZE = 2_000
MAX_STEPS = 500  # of one rule in one run
MAX_COUNTED = 100_000


@dataclass(frozen=True, slots=True)
class RetentionStatus:
    """`overdue` is at most `MAX_COUNTED`."""

    rule: RetentionRule
    days: int | None
    overdue_count: int


def delete_overdue(
    db: Database, days: RetentionDays, *, now: datetime, rules: Sequence[RetentionRule] = RETENTION_RULES
) -> None:
    """A job: apply every rule with a time, until nothing is left or its steps are used up."""
    for rule in rules:
        retention_days = days.get(rule.setting)
        if retention_days is None or rule.delete_rows is None:
            continue
        step, total = RetentionStep(before=now - timedelta(days=retention_days), limit=BATCH_SIZE, now=now), 0
        for _ in range(MAX_STEPS):
            with db.system_transaction() as tx:
                deleted = rule.delete_rows(tx, step)
            total += deleted
            if deleted < BATCH_SIZE:
                break
        if total:
            log.info("privacy.expired_rows_deleted", table=rule.table, rows=total)


def list_retention(db: Database, days: RetentionDays, *, now: datetime) -> list[RetentionStatus]:
    statuses = []
    for rule in RETENTION_RULES:
        retention_days = days.get(rule.setting)
        overdue_count = 0
        if retention_days is not None:
            query = sa.text(f"select count(*) from (select * from ({rule.overdue_query}) old limit :most) counted")
            params = {"before": now - timedelta(days=retention_days), "most": MAX_COUNTED}
            with db.system_transaction() as tx:
                overdue_count = int(tx.execute(query, params).scalar_one())
        statuses.append(RetentionStatus(rule, retention_days, overdue_count))
    return statuses


PROCESS_REQUESTS = "do_not_mail.process_requests"
REQUEST_BATCH_SIZE = 1_000
CODE_PATTERN = re.compile(f"[{BASE62_CHARS}]{{{SHORT_CODE_LENGTH}}}")
SEPARATOR_PATTERN = re.compile(r"[\s\-\u2010-\u2015]+")  # what people put between or around the characters of a code
LIST_NAMES = {"live": "Do-not-mail requests", "test": "Do-not-mail requests (testing)"}
_LOCK_NEXT_REQUESTS = sa.text("select id from do_not_mail_inbox order by id limit :most for update skip locked")

_ITEM_HAS_CODE = """i.id = coalesce(
           (select id from items where code = request.code),
           (select min(id) from items
             where code is not null and code_as_read(code) = code_as_read(request.code) having count(*) = 1))"""

# An item of a moved recipient went to the new address, so that one is suppressed.
_REQUESTED_ADDRESSES = f"""
    select distinct on (i.account_id, i.mode, coalesce(i.moved_key, i.address_key))
           i.account_id, i.mode, coalesce(i.moved_key, i.address_key) as address_key, i.country, i.standard,
           {
    ", ".join(
        f"case when i.moved_key is null then i.{name} else i.standard[{place}] end as {name}"
        for place, name in enumerate(ADDRESS_PARTS, 1)
    )
},
           case when i.moved_key is null then i.deliverability else '{DELIVERABLE}' end as deliverability,
           case when i.moved_key is null then i.reasons else '{{}}' end as reasons
      from do_not_mail_inbox request join items i on {_ITEM_HAS_CODE}
     where request.id = any(:ids) and i.address_key is not null
     order by i.account_id, i.mode, coalesce(i.moved_key, i.address_key), i.id
"""
# Of erased recipients only a digest is stored.
_SUPPRESS_ERASED = sa.text(f"""
    insert into barred_digests (account_id, sub_account_id, kind, digest, at)
    select distinct i.account_id, cast(null as bigint), 'address', i.door_digest, cast(:now as timestamptz)
      from do_not_mail_inbox request join items i on {_ITEM_HAS_CODE}
     where request.id = any(:ids) and i.door_digest is not null
    on conflict do nothing
""")
_IS_REQUEST_LIST = """l.account_id = i.account_id and l.kept_for = i.mode and l.is_suppression_list
             and l.sub_account_id is null"""

_CREATE_LISTS = sa.text(f"""
    insert into mailing_lists (account_id, description, kept_for, is_suppression_list, created_at, updated_at)
    select distinct i.account_id,
           case i.mode when 'live' then '{LIST_NAMES["live"]}' else '{LIST_NAMES["test"]}' end, i.mode, true,
           cast(:now as timestamptz), cast(:now as timestamptz)
      from ({_REQUESTED_ADDRESSES}) i
     where not exists (select from mailing_lists l where {_IS_REQUEST_LIST})
    on conflict do nothing
    returning id
""")
_LOCK_LISTS = sa.text(f"""
    select id from mailing_lists
     where id in (select l.id from ({_REQUESTED_ADDRESSES}) i join mailing_lists l on {_IS_REQUEST_LIST})
     order by id for no key update
""")

# Without a name: the whole address is suppressed, but no e-mail.
_ADDRESS_COLUMNS = (
    "address", "address2", "city", "province", "postal_code", "country",
    "address_key", "standard", "deliverability", "reasons",
)  # fmt: skip
_ADD_RECIPIENTS = sa.text(f"""
    insert into recipients (account_id, mailing_list_id, {", ".join(_ADDRESS_COLUMNS)}, created_at, updated_at)
    select l.account_id, l.id, {", ".join(f"i.{name}" for name in _ADDRESS_COLUMNS)}, :now, :now
      from ({_REQUESTED_ADDRESSES}) i join mailing_lists l on {_IS_REQUEST_LIST}
     where not exists (select from recipients r
                        where r.mailing_list_id = l.id and r.address_key = i.address_key)
""")


def parse_code(text: str) -> str | None:
    """The code that was typed, without separators; None where it cannot be one. It may be unknown, or a specimen."""
    code = SEPARATOR_PATTERN.sub("", text)
    return code if CODE_PATTERN.fullmatch(code) else None


def is_specimen(code: str) -> bool:
    return code.upper() == PREVIEW_CODE


def record_request(tx: Tx, code: str, *, now: datetime) -> None:
    tx.execute(sa.insert(do_not_mail_inbox).values(code=code, at=now))
    jobs.enqueue_unique(tx, PROCESS_REQUESTS, at=now)


def process_requests(db: Database, encryptor: Encryptor, *, clock: Clock) -> None:
    """Suppress the address of every item with a requested code; unknown codes are dropped."""
    while (count := _process_batch(db, encryptor, clock)) == REQUEST_BATCH_SIZE:
        log.info("do_not_mail.backlog", requests=count)


def _process_batch(db: Database, encryptor: Encryptor, clock: Clock) -> int:
    with db.system_transaction() as tx:
        ids = list(tx.execute(_LOCK_NEXT_REQUESTS, {"most": REQUEST_BATCH_SIZE}).scalars())
        if not ids:
            return 0
        params = {"ids": ids, "now": clock()}
        list_ids = list(tx.execute(_CREATE_LISTS, params).scalars())
        tx.execute(_LOCK_LISTS, {"ids": ids})
        # A list that was deleted before it was locked is created again.
        list_ids += tx.execute(_CREATE_LISTS, params).scalars()
        list_service.assign_keys(tx, encryptor, list_ids)
        # Read after locking, as everywhere that recipients are added to a list.
        added_count = tx.execute(_ADD_RECIPIENTS, params | {"now": clock()}).rowcount
        added_count += tx.execute(_SUPPRESS_ERASED, params).rowcount
        tx.execute(sa.delete(do_not_mail_inbox).where(do_not_mail_inbox.c.id.in_(ids)))
    log.info("do_not_mail.processed", requests=len(ids), addresses=added_count)
    return len(ids)
