"""People on mailing lists: what is known of one, and the queries that read them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

import sqlalchemy as sa

from quillpost.core.database import Database, Tenant, Tx
from quillpost.core.database.search import found_page, recipients_with_words
from quillpost.core.database.tables.base import mailing_lists, recipients
from quillpost.core.errors import NotFound
from quillpost.core.paging import NEWEST_FIRST, OLDEST_FIRST, Page, PageRequest, Sorting, read_page, rows_of
from quillpost.recipients.addresses.keys import street_of
from quillpost.recipients.addresses.service import DELIVERABLE
from quillpost.recipients.lists.queries import MailingList
from quillpost.recipients.rules import CUSTOM, JUDGED, TEXTS, Person, Whereabouts

PERSON = (*(name for name in TEXTS if name not in CUSTOM), "dob", "anniversary")
"""The fields of a person that are columns of the same name."""

BY_CHANGE = Sorting(newest_first=False, by=(recipients.c.updated_at,))


@dataclass(frozen=True, slots=True)
class Recipient:
    """Someone on a list. The person's `refusal` belongs to orders, and is none here."""

    id: int
    mailing_list_id: int
    person: Person
    created_at: datetime
    updated_at: datetime


_SELECT = sa.select(recipients)
# Thousands may have one e-mail, such as none@example.com: of those with other streets two are enough to know
# that there are several.
_AT = sa.text(
    """
    with asked as (select distinct lower(email) as key from unnest(cast(:emails as text[])) as email)
    select * from recipients where id in (
        select r.id from unnest(cast(:keys as text[])) as asked (key)
          join recipients r on r.mailing_list_id = :list and r.address_key = asked.key
         union
        select r.id from asked join recipients r on r.account_id = :account and r.email_key = asked.key
         where r.mailing_list_id = :list
           and (r.address_key is null or split_part(r.address_key, '|', 1) = any(:streets))
         union
        select r.id from asked cross join lateral (
            select id from recipients
             where account_id = :account and email_key = asked.key and mailing_list_id = :list
             order by id limit 2) r)
     order by id
    """
)
_fields_of, _custom_of = attrgetter(*PERSON), attrgetter(*CUSTOM)


def _recipient(row: sa.Row[Any]) -> Recipient:
    person = Person(
        **dict(zip(PERSON, _fields_of(row), strict=True)),
        custom=_custom_of(row),
        **judged_of(row._mapping),
    )
    return Recipient(row.id, row.mailing_list_id, person, row.created_at, row.updated_at)


def judged_of(columns: Mapping[Any, Any]) -> dict[str, Any]:
    """What was found out about the person of a recipient's or an item's row.

    Rows of a release that did not judge addresses count as deliverable until they are looked at.
    """
    standard = columns["standard"]
    return {
        "surname": columns["surname"],
        "address_key": columns["address_key"],
        "standard": None if standard is None else tuple(standard),
        "deliverability": columns["deliverability"] or DELIVERABLE,
        "reasons": tuple(columns["reasons"] or ()),
    }


def columns_of(person: Person) -> dict[str, Any]:
    """The person as a row holds one."""
    return {
        **{name: getattr(person, name) for name in PERSON},
        **dict(zip(CUSTOM, person.custom, strict=True)),
        **dict(zip(JUDGED, person.judged, strict=True)),
    }


def read_recipient(tx: Tx, recipient_id: int, *, locked: bool = False) -> Recipient:
    """The recipient; `locked`, nobody else changes it before this transaction ends."""
    query = _SELECT.where(recipients.c.id == recipient_id)
    return _only(tx, query.with_for_update(key_share=True) if locked else query)


def recipients_by_id(tx: Tx, recipient_ids: Sequence[int]) -> list[Recipient]:
    """Those of them whom the caller sees, in this order."""
    found = {row.id: _recipient(row) for row in tx.execute(_SELECT.where(recipients.c.id.in_(recipient_ids)))}
    return [found[id_] for id_ in recipient_ids if id_ in found]


def newest_with_email(tx: Tx, email: str) -> Recipient:
    """Whoever was added last with this e-mail, in any case."""
    return _only(tx, _SELECT.where(_has_email(email)).order_by(recipients.c.id.desc()).limit(1))


def _only(tx: Tx, query: sa.Select[Any]) -> Recipient:
    row = tx.execute(query).first()
    if row is None:
        raise NotFound
    return _recipient(row)


def recipient_page(
    tx: Tx,
    asked: PageRequest,
    *,
    email: str | None = None,
    mailing_list_id: int | None = None,
    sub_account_id: int | None = None,
) -> Page[Recipient]:
    """Newest first."""
    wanted: list[sa.ColumnElement[bool]] = []
    of_lists: list[sa.ColumnElement[bool]] = []
    if mailing_list_id is not None:
        wanted.append(recipients.c.mailing_list_id == mailing_list_id)
        of_lists.append(mailing_lists.c.id == mailing_list_id)
    if sub_account_id is not None:
        wanted.append(recipients.c.sub_account_id == sub_account_id)
        of_lists.append(mailing_lists.c.sub_account_id == sub_account_id)
    if email:
        wanted.append(_has_email(email))
        total = _counted(tx, wanted)
    else:  # lists know how many they are
        everyone = sa.func.coalesce(sa.func.sum(mailing_lists.c.total_recipients), 0)
        total = int(tx.execute(sa.select(everyone).where(*of_lists)).scalar_one())
    rows = read_page(tx, recipients, wanted, asked, total=total)
    return Page([_recipient(row) for row in rows], total, asked)


def list_recipients(
    tx: Tx, mailing_list: MailingList, asked: PageRequest, *, updated_since: datetime | None = None
) -> Page[Recipient]:
    """A list's people as they were added; or those who changed since then, in the order of their changes."""
    wanted = [recipients.c.mailing_list_id == mailing_list.id]
    total, sorting = mailing_list.total_recipients, OLDEST_FIRST
    if updated_since is not None:
        wanted.append(recipients.c.updated_at >= updated_since)
        total, sorting = _counted(tx, wanted), BY_CHANGE
    rows = read_page(tx, recipients, wanted, asked, total=total, sorting=sorting)
    return Page([_recipient(row) for row in rows], total, asked)


def searched_recipients(
    db: Database,
    tx: Tx,
    who: Tenant,
    asked: PageRequest,
    search: str,
    *,
    email: str | None = None,
    mailing_list_id: int | None = None,
    sub_account_id: int | None = None,
    updated_since: datetime | None = None,
    sorting: Sorting = NEWEST_FIRST,
) -> Page[Recipient]:
    """Those who have the words, of all who are wanted. The service finds them: see `database.search`."""
    some = recipients_with_words(search, who.account_id, list_id=mailing_list_id)
    wanted = rows_of(some, who)
    if email:
        wanted.append(some.c.email_key == sa.func.lower(email))
    if mailing_list_id is not None:
        wanted.append(some.c.mailing_list_id == mailing_list_id)
    if sub_account_id is not None:
        wanted.append(some.c.sub_account_id == sub_account_id)
    if updated_since is not None:
        wanted.append(some.c.updated_at >= updated_since)
    by = (some.c.updated_at,) if sorting is BY_CHANGE else ()
    found = sa.select(some.c.id, *by).where(*wanted)
    with db.work() as service:
        ids, total = found_page(service, found, asked, sorting=sorting)
    rows = tx.execute(_SELECT.where(recipients.c.id.in_(ids)).order_by(*sorting.columns(recipients)))
    return Page([_recipient(row) for row in rows], total, asked)


def _counted(tx: Tx, wanted: list[sa.ColumnElement[bool]]) -> int:
    return int(tx.execute(sa.select(sa.func.count()).select_from(recipients).where(*wanted)).scalar_one())


def those_at(
    tx: Tx, list_id: int, where: Whereabouts | None, email: str | None, *, most: int
) -> list[Recipient]:
    """Those of a list who live there and have this e-mail; what is not known does not matter."""
    wanted = [recipients.c.mailing_list_id == list_id]
    if where is not None:
        wanted += _lives_at(where)
    if email is not None:
        wanted.append(_has_email(email))
    rows = tx.execute(_SELECT.where(*wanted).order_by(recipients.c.id).limit(most))
    return [_recipient(row) for row in rows]


def recipients_at(
    tx: Tx, mailing_list: MailingList, *, keys: Sequence[str], emails: Sequence[str]
) -> list[Recipient]:
    """Those of a list who have one of these addresses; of those who have one of these e-mails, each without
    an address or in one of these streets, and whether there are several; oldest first."""
    streets = sorted({street_of(key) for key in keys})
    asked = {"keys": keys, "emails": emails, "streets": streets}
    rows = tx.execute(_AT, {"account": mailing_list.account_id, "list": mailing_list.id, **asked})
    return [_recipient(row) for row in rows]


def _lives_at(where: Whereabouts) -> list[sa.ColumnElement[bool]]:
    if where.address_key is not None:
        return [recipients.c.address_key == where.address_key]
    return [
        recipients.c.address_key.startswith(f"{where.beginning}|", autoescape=True),
        *(sa.func.lower(recipients.c[name]) == sa.func.lower(text) for name, text in where.parts.items()),
    ]


def _has_email(email: str) -> sa.ColumnElement[bool]:
    return recipients.c.email_key == sa.func.lower(email)


def update_recipient(tx: Tx, recipient_id: int, values: Mapping[str, Any]) -> None:
    tx.execute(sa.update(recipients).where(recipients.c.id == recipient_id).values(**values))


def delete_recipient(tx: Tx, recipient_id: int) -> None:
    """A recipient who was there a moment ago may be gone."""
    if tx.execute(sa.delete(recipients).where(recipients.c.id == recipient_id)).rowcount == 0:
        raise NotFound
