"""How long each table's rows are retained, and the task that deletes what is older.

Each rule is a step that forgets some rows at a time, so that nobody waits for it. What only another part can
forget (a day's table of deliveries, say) names that part's job.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
import structlog

from quillpost.core.database import Database, Tx
from quillpost.privacy import files, items

Days = Mapping[str, int | None]
"""By the name of a setting, so many; None: for ever."""


@dataclass(slots=True, kw_only=True)
class Step:
    """Some rows from before a time, so many at most, at this moment; one for all steps of a run. In tables
    where what is old lies in the order of its ids, a run goes from one id to another."""

    before: datetime
    most: int
    now: datetime
    after: int = 0
    until: int | None = None


Forget = Callable[[Tx, Step], int]
"""Forgets some rows; how many they were."""

ENDED = "status in ('fulfilled', 'cancelled', 'error')"
IS_OVER = "(i.is_over or i.status in ('Delivered', 'Returned to Sender', 'Failed'))"


@dataclass(frozen=True, slots=True)
class Rule:
    """`since` says from when on the days count; `overdue` finds the ids of rows that are kept too long, those
    before `:before`; `forget` is what is done about them, or `job` the name of whose it is."""

    table: str
    what: str
    setting: str
    since: str
    overdue: str
    forget: Forget | None = None
    job: str | None = None


def _delete(table: str, column: str, overdue: str) -> Forget:
    statement = sa.text(
        f"delete from {table} where {column} = any(array(select * from ({overdue}) old limit :most))"
    )

    def forget(tx: Tx, step: Step) -> int:
        return tx.execute(statement, {"before": step.before, "most": step.most}).rowcount

    return forget


def _delete_along(table: str, alias: str, time: str, overdue: str) -> Forget:
    """The same by a cursor: what stays, and what has just gone, is not looked through again by each step. The
    last id that may be old is found by the index over times, which says roughly where rows lie."""
    newest = sa.text(f"select coalesce(max(id), 0) from {table} where {time} < :before")
    statement = sa.text(
        f"""
        with gone as (
            delete from {table} where id = any(array(
                {overdue} and {alias}.id > :after and {alias}.id <= :until
                 order by {alias}.id limit :most))
            returning id)
        select count(*) as rows, max(id) as last from gone
        """
    )

    def forget(tx: Tx, step: Step) -> int:
        if step.until is None:
            step.until = int(tx.execute(newest, {"before": step.before}).scalar_one())
        here = {"before": step.before, "most": step.most, "after": step.after, "until": step.until}
        gone = tx.execute(statement, here).one()
        step.after = gone.last or step.after
        return int(gone.rows)

    return forget


def _each(overdue: str, deed: Callable[..., object]) -> Forget:
    """What Python does about rows that are found by their ids."""
    statement = sa.text(f"select * from ({overdue}) old limit :most")

    def forget(tx: Tx, step: Step) -> int:
        ids = list(tx.execute(statement, {"before": step.before, "most": step.most}).scalars())
        if ids:
            deed(tx, ids, now=step.now)
        return len(ids)

    return forget


def _forget_claims(tx: Tx, step: Step) -> int:
    """Claims that nobody can print any more. Their digests stay: whoever has the piece claims its card.

    Who has one printed again holds its card meanwhile: the second look sees that, and passes it by.
    """
    held = tx.execute(HOLD_CLAIMS, {"before": step.before, "most": step.most}).scalars().all()
    return tx.execute(FORGET_CLAIMS, {"before": step.before, "items": list(held)}).rowcount


# A piece in a batch that is not mailed may have to be drawn again, to the same bytes.
PEOPLE = f"""
    select i.id from items i
     where i.person_gone_at is null and {IS_OVER} and i.updated_at < :before
       and not exists (select from prints p join batches b on b.id = p.batch_id
                        where p.item_id = i.id and b.status <> 'mailed')
     order by i.updated_at
"""
# Whoever is yet to be told of something, or waits for a piece's next step, needs what happened.
FACTS = f"""
    select f.id from facts f join orders o on o.id = f.order_id
     where f.at < :before and o.{ENDED}
       and not exists (select from fact_queue q where q.fact_id = f.id)
       and not exists (select from deliveries d where d.status = 'pending' and d.fact_id = f.id)
"""
VISITS = "select v.id from visits v where v.at < :before"
CARRIER_SCANS = f"""
    select s.id from carrier_scans s left join items i on i.id = s.item_id
     where s.received_at < :before and (i.id is null or {IS_OVER})
"""
SENT = "select s.ctid from automation_sent s where s.at < :before"
PICTURES = f"""
    select id from orders
     where pictures_gone_at is null and {ENDED} and updated_at < :before order by updated_at
"""
PRINT_FILES = """
    select distinct b.id from batches b join batch_files f on f.batch_id = b.id and f.name <> 'statement.json'
     where b.status = 'mailed' and b.mailed_at < :before
"""
GIFTCARD_PRINTS = """
    select distinct b.id from batches b join batch_files f on f.batch_id = b.id and f.is_secret
     where b.status = 'mailed' and b.mailed_at < :before
"""
# A claim is kept to be printed again, as long as one of the batches that it is on may have to be; one that
# ended before it reached paper, as long after.
PRINTED_CLAIMS = """
    select g.item_id from giftcards g
     where g.claim_sealed is not null
       and (exists (select from prints p where p.item_id = g.item_id)
            or g.status = 'void' and g.voided_at < :before)
       and not exists (select from prints p join batches b on b.id = p.batch_id
                        where p.item_id = g.item_id and (b.status <> 'mailed' or b.mailed_at >= :before))
"""
DELIVERIES = (
    "select id from deliveries where created_at < date_trunc('day', cast(:before as timestamptz), 'UTC')"
)
NOTICES = "select id from notices where status <> 'pending' and created_at < :before"
STORED = "select id from stored_sends where expires_at - interval '90 days' < :before"
IMPORTS = "select id from imports where file_key is not null and created_at < :before"
VERDICTS = "select address_key from address_verdicts where answered_at < :before and expires_at < now()"
JOBS = """
    select j.id from procrastinate_jobs j
     where j.status in ('succeeded', 'cancelled', 'aborted')
       and (select max(e.at) from procrastinate_events e where e.job_id = j.id) < :before
"""
AUDIT = "select id from audit_log where at < :before"

HOLD_CLAIMS = sa.text(f"{PRINTED_CLAIMS} order by g.item_id limit :most for no key update of g")
FORGET_CLAIMS = sa.text(
    f"""
    update giftcards set claim_sealed = null
     where item_id = any(array({PRINTED_CLAIMS} and g.item_id = any(:items)))
    """
)

RULES = (
    Rule("items", "recipients of pieces", "keep_people_days", "the piece's end", PEOPLE,
         _each(PEOPLE, items.empty_ended)),
    Rule("facts", "what happened to orders", "keep_facts_days", "when it happened", FACTS,
         _delete_along("facts", "f", "at", FACTS)),
    Rule("visits", "scans of QR codes", "keep_visits_days", "the scan", VISITS,
         _delete_along("visits", "v", "at", VISITS)),
    Rule("carrier_scans", "the carrier's scans", "keep_carrier_scans_days", "when they came", CARRIER_SCANS,
         _delete_along("carrier_scans", "s", "received_at", CARRIER_SCANS)),
    Rule("automation_sent", "whom automations mailed", "keep_mailed_days", "the order", SENT,
         _delete("automation_sent", "ctid", SENT)),
    Rule("files", "pictures and PDFs of orders", "keep_pictures_days", "the order's end", PICTURES,
         _each(PICTURES, files.delete_images)),
    Rule("batch_files", "print files", "keep_print_files_days", "the mailing", PRINT_FILES,
         _each(PRINT_FILES, files.delete_print_files)),
    Rule("batch_files", "print files of gift cards", "keep_giftcard_prints_days", "the mailing",
         GIFTCARD_PRINTS, _each(GIFTCARD_PRINTS, files.forget_secret)),
    Rule("giftcards", "claims, to print them again", "keep_giftcard_prints_days", "the mailing",
         PRINTED_CLAIMS, _forget_claims),
    Rule("audit_log", "who did what in accounts", "keep_audit_days", "the act", AUDIT,
         _delete("audit_log", "id", AUDIT)),
    Rule("deliveries", "what webhooks were told", "keep_deliveries_days", "its making", DELIVERIES,
         job="webhooks.keep_days"),
    Rule("notices", "e-mails and texts", "keep_notices_days", "its making", NOTICES,
         job="notices.forget_old"),
    Rule("stored_sends", "sends that wait", "keep_stored_sends_days", "the last look at it", STORED,
         job="stored_sends.forget_expired"),
    Rule("imports", "files that lists were filled from", "keep_imports_days", "the upload", IMPORTS,
         job="audience.forget_imports"),
    Rule("address_verdicts", "what a verifier said", "verified_days", "its answer", VERDICTS,
         job="audience.forget_verdicts"),
    Rule("procrastinate_jobs", "jobs that are done", "keep_jobs_days", "their end", JOBS,
         job="jobs.forget_finished"),
)  # fmt: skip
"""What is kept for as long as a setting says."""

ELSEWHERE: Mapping[str, str] = {
    "accounts": "an account's own, until it is closed",
    "sub_accounts": "an account's own",
    "tokens": "an account's own; those of apps and pages go a while after they have ended",
    "people": "whoever can sign in, until they are in no account any more",
    "memberships": "an account's own: who belongs to it",
    "sessions": "empties itself: where somebody is signed in, for 30 days at most",
    "recovery_codes": "a person's own: digests",
    "password_resets": "empties itself: links that set another password, an hour",
    "invitations": "an account's own: who was invited",
    "oauth_clients": "an account's own",
    "oauth_grants": "an account's own: which apps may act for it, or might",
    "oauth_codes": "empties itself: what apps exchange for tokens, a minute",
    "refresh_tokens": "empties itself: what apps exchange for tokens, a year: digests",
    "mailing_lists": "an account's own",
    "recipients": "an account's own: on a list until someone takes them off, or erases them",
    "image_templates": "an account's own",
    "message_templates": "an account's own",
    "webhooks": "an account's own",
    "automations": "an account's own",
    "orders": "the books: what was sent, and for how much; names nobody but the sender",
    "order_counts": "the books: counters",
    "recipient_search": "the words that people on lists are found by: they change and go with the people",
    "item_search": "the words that pieces are found by: they change and go with the pieces",
    "search_backlog": "empties itself: ids of what has come and has no words to be found by yet",
    "ledger_moves": "the books: money",
    "account_credit": "the books: money",
    "account_spending": "the books: money",
    "hourly_counts": "the books: counters",
    "prices": "the books: prices",
    "batches": "the books: what was printed",
    "prints": "the books: which piece has which barcode",
    "order_verdicts": "the books: what operators decided",
    "mailers": "one row for each mailer id",
    "barred_digests": "whom nobody may mail again: digests",
    "erasures": "that somebody was erased, and when: names nobody once it is done",
    "erasing_pieces": "empties itself: pieces that are not mailed yet",
    "erasing_files": "empties itself: files to be removed",
    "fact_queue": "empties itself: what nobody was told of yet",
    "visit_inbox": "empties itself: scans that are not counted yet",
    "scan_news": "empties itself: scans of which somebody is to be told",
    "automation_due": "empties itself: who is to be mailed",
    "webhook_lanes": "one row for each subscription",
    "webhook_replays": "empties itself: replays under way",
    "webhooks_gone": "empties itself: subscriptions that are gone, until their deliveries are",
    "news_threads": "one row for each order and address that is told of its scans",
    "notice_refusals": "who wants no more notices: forgetting it would send them again",
    "import_rejects": "which rows of a file were not taken: goes with the file",
    "do_not_mail_inbox": "empties itself: requests that are not heeded yet",
    "recipients_to_verify": "empties itself: whose address is to be verified",
    "address_passes": "one row for each job that goes through all addresses",
    "lead_sources": "the operator's addresses that can be bought, until they are replaced",
    "lead_files": "which files those came from",
    "leads": "the operator's addresses that can be bought, until they are replaced",
    "lead_density": "counters",
    "lead_purchases": "the books: what was bought",
    "giftcard_brands": "the operator's catalogue",
    "giftcard_stock": "the operator's cards, sealed: which piece has which",
    "merged_lists": "what became of merged lists: ids",
    "idempotency_keys": "24 hours, by the interface; those with a secret ten minutes",
    "rate_windows": "an hour; attempts to sign in a day",
    "received_events": "the newest 500, of a first run's receiver page",
}
"""Every other table, and why no setting is about it."""


def overdue(tx: Tx, rule: Rule, *, before: datetime, most: int) -> int:
    """How many rows are kept too long; looked through no further than that many."""
    counted = sa.text(f"select count(*) from (select * from ({rule.overdue}) old limit :most) counted")
    return int(tx.execute(counted, {"before": before, "most": most}).scalar_one())


def days_of(settings: object) -> Days:
    """What the settings say, each by its name."""
    return {rule.setting: getattr(settings, rule.setting) for rule in RULES}


log = structlog.get_logger(__name__)

AT_ONCE = 2_000
"""Rows of one transaction: nobody waits long for it."""
MOST_STEPS = 500
"""Of one rule in one run; what is left waits for the next."""
MOST_COUNTED = 100_000


@dataclass(frozen=True, slots=True)
class Kept:
    """How long something is kept, and how much of it is overdue by now, at most `MOST_COUNTED`."""

    rule: Rule
    days: int | None
    overdue: int


def forget_old(db: Database, days: Days, *, now: datetime, rules: Sequence[Rule] = RULES) -> None:
    """A job: every rule that has a time, until nothing is left of it or its steps are used up."""
    for rule in rules:
        kept = days.get(rule.setting)
        if kept is None or rule.forget is None:
            continue
        step, gone = Step(before=now - timedelta(days=kept), most=AT_ONCE, now=now), 0
        for _ in range(MOST_STEPS):
            with db.work() as tx:
                some = rule.forget(tx, step)
            gone += some
            if some < AT_ONCE:
                break
        if gone:
            log.info("privacy.forgotten", table=rule.table, rows=gone)


def show_kept(db: Database, days: Days, *, now: datetime) -> list[Kept]:
    """Each rule as it is set."""
    shown = []
    for rule in RULES:
        kept = days.get(rule.setting)
        late = 0
        if kept is not None:
            with db.work() as tx:
                late = overdue(tx, rule, before=now - timedelta(days=kept), most=MOST_COUNTED)
        shown.append(Kept(rule, kept, late))
    return shown
