"""Opt-out requests: from the code on an item to a suppression list of its sender. A request is stored before anything
is looked up, so that a response takes as long for an unknown code. A job then adds the item's address to a list of the
whole account, one for each mode. Codes are case-sensitive, and people mistype them: one that no item has stands for the
only item whose code reads alike."""

import re
from datetime import datetime

import sqlalchemy as sa
import structlog

from quillpost.core import jobs
from quillpost.core.clock import Clock
from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.base import do_not_mail_inbox
from quillpost.core.encryption import Encryptor
from quillpost.core.tokens import BASE62_CHARS, PREVIEW_CODE, SHORT_CODE_LENGTH
from quillpost.recipients.addresses.rules import ADDRESS_PARTS, DELIVERABLE
from quillpost.recipients.lists import service as list_service

log = structlog.get_logger(__name__)
PROCESS_REQUESTS = "do_not_mail.process_requests"
BATCH_SIZE = 1_000
CODE_PATTERN = re.compile(f"[{BASE62_CHARS}]{{{SHORT_CODE_LENGTH}}}")
SEPARATOR_PATTERN = re.compile(r"[\s\-\u2010-\u2015]+")  # what people put between or around the characters of a code
LIST_NAMES = {"live": "Do-not-mail requests", "test": "Do-not-mail requests (testing)"}
_LOCK_NEXT_REQUESTS = sa.text("select id from do_not_mail_inbox order by id limit :most for update skip locked")

_ITEM_HAS_CODE = """i.id = coalesce(
           (select id from items where code = asked.code),
           (select min(id) from items
             where code is not null and code_as_read(code) = code_as_read(asked.code) having count(*) = 1))"""

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
      from do_not_mail_inbox asked join items i on {_ITEM_HAS_CODE}
     where asked.id = any(:ids) and i.address_key is not null
     order by i.account_id, i.mode, coalesce(i.moved_key, i.address_key), i.id
"""
# Of erased recipients only a digest is stored.
_SUPPRESS_ERASED = sa.text(f"""
    insert into barred_digests (account_id, sub_account_id, kind, digest, at)
    select distinct i.account_id, cast(null as bigint), 'address', i.door_digest, cast(:now as timestamptz)
      from do_not_mail_inbox asked join items i on {_ITEM_HAS_CODE}
     where asked.id = any(:ids) and i.door_digest is not null
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
    while (count := _process_batch(db, encryptor, clock)) == BATCH_SIZE:
        log.info("do_not_mail.backlog", requests=count)


def _process_batch(db: Database, encryptor: Encryptor, clock: Clock) -> int:
    with db.system_transaction() as tx:
        ids = list(tx.execute(_LOCK_NEXT_REQUESTS, {"most": BATCH_SIZE}).scalars())
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
