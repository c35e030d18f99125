"""The end of an import: everyone who was staged is put on the list, in one transaction.

Before it nobody of the file is on the list, after it all are who may be. Whoever is there already, and
whoever comes twice in the file, is a rejected row: the first stays as it is. Of several in the file that is
the first to whom mail can come.
"""

from collections.abc import Mapping

import sqlalchemy as sa

from quillpost.audience.importing import store
from quillpost.audience.importing.store import Import
from quillpost.audience.joining import ALREADY_THERE
from quillpost.audience.lists import MailingList, update_list
from quillpost.audience.rules import CUSTOM, JUDGED
from quillpost.database import Tx
from quillpost.kit.times import Clock
from quillpost.postal.judging import UNDELIVERABLE

SAME_ADDRESS = "address: Line %s of the file has the same address."
SAME_EMAIL = "email: Line %s of the file has the same e-mail."
UNDELIVERABLE_THERE = (
    "address: This address is on this mailing list already, as one that nothing can be delivered to: correct"
    " or delete recipient %s, and import this row again."
)
EMAIL_THERE = "email: This e-mail is already on this mailing list."

_PERSON = (
    "name", "company", "address", "address2", "city", "province", "postal_code", "country", "email",
    "phone", "dob", "anniversary", *CUSTOM, *JUDGED, "told_apart",
)  # fmt: skip

# Runs of rows that lie in order cost a sort next to nothing, and are compared in memory where there is some.
_AT_EASE = ("set local work_mem = '64MB'", "set local jit = off")

_TWICE = """
    insert into import_rejects (import_id, place, line, reason)
    select :id, s.place, s.line, format(:told, d.line)
      from {staging} s
      join (select {key} as key, told_apart,
                   coalesce(min(place) filter (where deliverability <> :undeliverable), min(place)) as place,
                   coalesce(min(line) filter (where deliverability <> :undeliverable), min(line)) as line
              from {staging} where {among} group by 1, 2 having count(*) > 1) d
        on {qualified} = d.key and s.told_apart = d.told_apart
     where {among} and s.place <> d.place
"""
_THERE = """
    insert into import_rejects (import_id, place, line, reason)
    select :id, s.place, s.line,
           case when r.deliverability = :undeliverable and s.deliverability <> :undeliverable
                then format(:told_undeliverable, r.id) else :told end
      from {staging} s
      join recipients r on r.mailing_list_id = :list and r.address_key = s.address_key
                       and r.told_apart = s.told_apart
    on conflict do nothing
"""
_EMAIL_THERE = """
    insert into import_rejects (import_id, place, line, reason)
    select :id, s.place, s.line, :told from {staging} s
     where s.address_key is null
       and exists (select from recipients r
                    where r.account_id = :account and r.email_key = lower(s.email)
                      and r.mailing_list_id = :list and r.address_key is null)
    on conflict do nothing
"""
_LEAVE_OUT = """
    delete from {staging} s using import_rejects x where x.import_id = :id and x.place = s.place
"""
# In the order of the file. They lie nearly so: a chunk may fill pages that one before it has left free.
_INSERT = f"""
    insert into recipients (account_id, sub_account_id, mailing_list_id, {", ".join(_PERSON)},
                            created_at, updated_at)
    select :account, cast(:sub_account as bigint), :list, {", ".join(_PERSON)}, :now, :now from {{staging}}
     order by place
"""


class SomeLost(Exception):
    """Not all who were staged are there: the database has crashed since, and they must be read anew."""


def put_on_list(tx: Tx, work: Import, into: MailingList, *, clock: Clock) -> None:
    """`into` is in this transaction's hands: nobody else writes its people. Undo it on `SomeLost`."""
    for setting in _AT_EASE:
        tx.execute(sa.text(setting))
    now = clock()
    these: dict[str, object] = {
        "id": work.id,
        "list": into.id,
        "account": into.account_id,
        "undeliverable": UNDELIVERABLE,
        "told_undeliverable": UNDELIVERABLE_THERE,
    }
    doubles = _reject_doubles(tx, work, these, is_empty=into.total_recipients == 0)
    if doubles:
        _run(tx, work, _LEAVE_OUT, these)
    added = _run(tx, work, _INSERT, these | {"sub_account": into.sub_account_id, "now": now})
    if added + doubles != work.staged:
        raise SomeLost(f"Of {work.staged} people {added + doubles} are staged.")
    is_first = into.type == "manual" and into.total_recipients == 0 and added > 0
    update_list(tx, into.id, {"processed": True, "updated_at": now} | ({"type": "csv"} if is_first else {}))
    store.finish(
        tx,
        work.id,
        "done",
        now=clock(),
        rows_total=work.rows_read,
        rows_imported=added,
        rows_rejected=work.rows_rejected + doubles,
        duplicates=doubles,
        bytes_read=work.file_bytes,
    )
    store.drop_staging(tx, work.id)


def _reject_doubles(tx: Tx, work: Import, these: dict[str, object], *, is_empty: bool) -> int:
    by_address = {"key": "address_key", "qualified": "s.address_key", "among": "address_key is not null"}
    by_email = {"key": "lower(email)", "qualified": "lower(s.email)", "among": "address_key is null"}
    found = 0
    for names, told in ((by_address, SAME_ADDRESS), (by_email, SAME_EMAIL)):
        found += _run(tx, work, _TWICE, these | {"told": told}, **names)
    if not is_empty:
        for query, told in ((_THERE, f"address: {ALREADY_THERE}"), (_EMAIL_THERE, EMAIL_THERE)):
            found += _run(tx, work, query, these | {"told": told})
    return found


def _run(tx: Tx, work: Import, query: str, values: Mapping[str, object], **names: str) -> int:
    text = query.format(staging=store.staging_name(work.id), **names)
    return tx.execute(sa.text(text), values).rowcount
