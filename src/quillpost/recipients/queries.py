"""SQL that reads and searches recipients."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

import sqlalchemy as sa

from quillpost.core.database import Database, Tenant, Tx, read_row
from quillpost.core.database.search import read_search_page, select_matching_recipients
from quillpost.core.database.tables.base import mailing_lists, recipients
from quillpost.core.errors import Invalid, NotFound
from quillpost.core.paging import NEWEST_FIRST, OLDEST_FIRST, Page, PageRequest, Sorting, read_page, tenant_conditions
from quillpost.recipients.addresses.rules import DELIVERABLE, HOME_COUNTRY, get_street
from quillpost.recipients.addresses.text import normalize_for_key
from quillpost.recipients.models import (
    CUSTOM_FIELDS,
    DERIVED_COLUMNS,
    PERSON_COLUMNS,
    MailingList,
    PartialAddress,
    Person,
    Recipient,
)
from quillpost.recipients.rules import parse_partial_address


def lacks_address_parts_sql(table_alias: str) -> str:
    """Whether the row has an address that is too incomplete to be mailed."""
    return f"""({table_alias}.city is null or coalesce({table_alias}.country, '{HOME_COUNTRY}') = '{HOME_COUNTRY}'
                and ({table_alias}.province is null or {table_alias}.postal_code is null))"""


BY_UPDATED_AT = Sorting(is_newest_first=False, sort_columns=(recipients.c.updated_at,))
_SELECT = sa.select(recipients)
# Thousands may have one e-mail, such as none@example.com: of those with other streets two are enough to know
# that there are several.
_SELECT_AT_ADDRESSES = sa.text(
    """
    with requested as (select distinct lower(email) as key from unnest(cast(:emails as text[])) as email)
    select * from recipients where id in (
        select r.id from unnest(cast(:keys as text[])) as requested (key)
          join recipients r on r.mailing_list_id = :list and r.address_key = requested.key
         union
        select r.id from requested join recipients r on r.account_id = :account and r.email_key = requested.key
         where r.mailing_list_id = :list
           and (r.address_key is null or split_part(r.address_key, '|', 1) = any(:streets))
         union
        select r.id from requested cross join lateral (
            select id from recipients
             where account_id = :account and email_key = requested.key and mailing_list_id = :list
             order by id limit 2) r)
     order by id
    """
)
_get_person_values, _get_custom_values = attrgetter(*PERSON_COLUMNS), attrgetter(*CUSTOM_FIELDS)


def _build_recipient(row: sa.Row[Any]) -> Recipient:
    person = Person(
        **dict(zip(PERSON_COLUMNS, _get_person_values(row), strict=True)),
        custom=_get_custom_values(row),
        **get_derived_fields(row._mapping),
    )
    return Recipient(row.id, row.mailing_list_id, person, row.created_at, row.updated_at)


def get_derived_fields(row: Mapping[Any, Any]) -> dict[str, Any]:
    """The derived fields in the row of a recipient or an item."""
    standard = row["standard"]
    return {
        "surname": row["surname"],
        "address_key": row["address_key"],
        "standard": None if standard is None else tuple(standard),
        "deliverability": row["deliverability"] or DELIVERABLE,
        "reasons": tuple(row["reasons"] or ()),
    }


def build_recipient_columns(person: Person) -> dict[str, Any]:
    """The person as a row holds one."""
    return {
        **{name: getattr(person, name) for name in PERSON_COLUMNS},
        **dict(zip(CUSTOM_FIELDS, person.custom, strict=True)),
        **dict(zip(DERIVED_COLUMNS, person.derived_values, strict=True)),
    }


def read_recipient(tx: Tx, recipient_id: int, *, for_update: bool = False) -> Recipient:
    """The recipient; `for_update`, no one else changes it before this transaction ends."""
    query = _SELECT.where(recipients.c.id == recipient_id)
    return _read_one(tx, query.with_for_update(key_share=True) if for_update else query)


def read_recipients(tx: Tx, recipient_ids: Sequence[int]) -> list[Recipient]:
    """Those of them whom the caller sees, in this order."""
    recipients_by_id = {
        row.id: _build_recipient(row) for row in tx.execute(_SELECT.where(recipients.c.id.in_(recipient_ids)))
    }
    return [recipients_by_id[id_] for id_ in recipient_ids if id_ in recipients_by_id]


def read_newest_recipient(tx: Tx, email: str) -> Recipient:
    """The last one added with this e-mail, in upper or lower case."""
    return _read_one(tx, _SELECT.where(_email_condition(email)).order_by(recipients.c.id.desc()).limit(1))


def _read_one(tx: Tx, query: sa.Select[Any]) -> Recipient:
    return _build_recipient(read_row(tx, query))


def read_recipient_page(
    tx: Tx,
    page_request: PageRequest,
    *,
    email: str | None = None,
    mailing_list_id: int | None = None,
    sub_account_id: int | None = None,
) -> Page[Recipient]:
    """Newest first."""
    conditions: list[sa.ColumnElement[bool]] = []
    list_conditions: list[sa.ColumnElement[bool]] = []
    if mailing_list_id is not None:
        conditions.append(recipients.c.mailing_list_id == mailing_list_id)
        list_conditions.append(mailing_lists.c.id == mailing_list_id)
    if sub_account_id is not None:
        conditions.append(recipients.c.sub_account_id == sub_account_id)
        list_conditions.append(mailing_lists.c.sub_account_id == sub_account_id)
    if email:
        conditions.append(_email_condition(email))
        total = _count_recipients(tx, conditions)
    else:  # lists know how many they are
        recipient_sum = sa.func.coalesce(sa.func.sum(mailing_lists.c.total_recipients), 0)
        total = int(tx.execute(sa.select(recipient_sum).where(*list_conditions)).scalar_one())
    rows = read_page(tx, recipients, conditions, page_request, total=total)
    return Page([_build_recipient(row) for row in rows], total, page_request)


def read_list_page(
    tx: Tx, mailing_list: MailingList, page_request: PageRequest, *, updated_since: datetime | None = None
) -> Page[Recipient]:
    """A list's people as they were added; or those changed since then, in the order of their changes."""
    conditions = [recipients.c.mailing_list_id == mailing_list.id]
    total, sorting = mailing_list.total_recipients, OLDEST_FIRST
    if updated_since is not None:
        conditions.append(recipients.c.updated_at >= updated_since)
        total, sorting = _count_recipients(tx, conditions), BY_UPDATED_AT
    rows = read_page(tx, recipients, conditions, page_request, total=total, sorting=sorting)
    return Page([_build_recipient(row) for row in rows], total, page_request)


def search_recipients(
    db: Database,
    tx: Tx,
    tenant: Tenant,
    page_request: PageRequest,
    search_text: str,
    *,
    email: str | None = None,
    mailing_list_id: int | None = None,
    sub_account_id: int | None = None,
    updated_since: datetime | None = None,
    sorting: Sorting = NEWEST_FIRST,
) -> Page[Recipient]:
    """Those that match the text and the filters. See `core.database.search`."""
    matching_recipients = select_matching_recipients(search_text, tenant.account_id, list_id=mailing_list_id)
    conditions = tenant_conditions(matching_recipients, tenant)
    if email:
        conditions.append(matching_recipients.c.email_key == sa.func.lower(email))
    if mailing_list_id is not None:
        conditions.append(matching_recipients.c.mailing_list_id == mailing_list_id)
    if sub_account_id is not None:
        conditions.append(matching_recipients.c.sub_account_id == sub_account_id)
    if updated_since is not None:
        conditions.append(matching_recipients.c.updated_at >= updated_since)
    sort_columns = (matching_recipients.c.updated_at,) if sorting is BY_UPDATED_AT else ()
    matching_ids = sa.select(matching_recipients.c.id, *sort_columns).where(*conditions)
    with db.system_transaction() as service_tx:
        ids, total = read_search_page(service_tx, matching_ids, page_request, sorting=sorting)
    rows = tx.execute(_SELECT.where(recipients.c.id.in_(ids)).order_by(*sorting.columns(recipients)))
    return Page([_build_recipient(row) for row in rows], total, page_request)


def _count_recipients(tx: Tx, conditions: list[sa.ColumnElement[bool]]) -> int:
    return int(tx.execute(sa.select(sa.func.count()).select_from(recipients).where(*conditions)).scalar_one())


def find_matching_recipients(
    tx: Tx, list_id: int, partial_address: PartialAddress | None, email: str | None, *, limit: int
) -> list[Recipient]:
    """Those of a list with this address and this e-mail, as far as given."""
    conditions = [recipients.c.mailing_list_id == list_id]
    if partial_address is not None:
        conditions += _address_conditions(partial_address)
    if email is not None:
        conditions.append(_email_condition(email))
    rows = tx.execute(_SELECT.where(*conditions).order_by(recipients.c.id).limit(limit))
    return [_build_recipient(row) for row in rows]


def find_recipients_at(
    tx: Tx, mailing_list: MailingList, *, keys: Sequence[str], emails: Sequence[str]
) -> list[Recipient]:
    """Those of a list with one of these addresses. Of those with one of these e-mails: each without an address or on
    one of these streets, and at most two others. Oldest first."""
    streets = sorted({get_street(key) for key in keys})
    bind_values = {"keys": keys, "emails": emails, "streets": streets}
    rows = tx.execute(
        _SELECT_AT_ADDRESSES, {"account": mailing_list.account_id, "list": mailing_list.id, **bind_values}
    )
    return [_build_recipient(row) for row in rows]


def _address_conditions(partial_address: PartialAddress) -> list[sa.ColumnElement[bool]]:
    if partial_address.address_key is not None:
        return [recipients.c.address_key == partial_address.address_key]
    return [
        recipients.c.address_key.startswith(f"{partial_address.key_prefix}|", autoescape=True),
        *(sa.func.lower(recipients.c[name]) == sa.func.lower(text) for name, text in partial_address.parts.items()),
    ]


def _email_condition(email: str) -> sa.ColumnElement[bool]:
    return recipients.c.email_key == sa.func.lower(email)


def update_recipient(tx: Tx, recipient_id: int, values: Mapping[str, Any]) -> None:
    tx.execute(sa.update(recipients).where(recipients.c.id == recipient_id).values(**values))


def delete_recipient(tx: Tx, recipient_id: int) -> None:
    """`NotFound` if it is gone."""
    if tx.execute(sa.delete(recipients).where(recipients.c.id == recipient_id)).rowcount == 0:
        raise NotFound


MAX_RESULTS = 50
SHORT_LIST_LENGTH = 5_000
"""Lists up to this length are scanned."""

SEARCHED_COLUMNS = ("name", "company", "address", "city", "postal_code", "email", "phone")

# Each follows an index, and in its order: a beginning that half of the list has is cut short, not sorted.
_BY_NAME = sa.text(
    """
    select id from recipients
     where mailing_list_id = :list and lower(name) ~>=~ lower(:low) and lower(name) ~<~ lower(:high)
     order by lower(name) using ~<~ limit :most
    """
)
_BY_STREET = sa.text(
    """
    select id from recipients
     where mailing_list_id = :list and address_key ~>=~ :low and address_key ~<~ :high
     order by address_key using ~<~ limit :most
    """
)
_BY_EMAIL = sa.text(
    """
    select id from recipients
     where account_id = :account and email_key = lower(:sought) and mailing_list_id = :list
     order by id limit :most
    """
)
_LAST_CHARACTER = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class RecipientSearchResult:
    recipients: list[Recipient]
    is_truncated: bool


def searches_substrings(mailing_list: MailingList) -> bool:
    """Whether any part of a name, address or e-mail matches. On a long list a name or street matches by its beginning,
    and an e-mail as a whole."""
    return mailing_list.total_recipients <= SHORT_LIST_LENGTH


def search_list(db: Database, tx: Tx, mailing_list: MailingList, search_text: str) -> RecipientSearchResult:
    """Those of the list that the text describes. On a long list a system transaction finds their ids, because
    row-level security would keep the indexes from being used; they are read as the caller."""
    search_text = " ".join(search_text.split())
    if searches_substrings(mailing_list):
        ids = _find_by_substring(tx, mailing_list, search_text)
    else:
        with db.system_transaction() as service_tx:
            ids = _find_by_prefix(service_tx, mailing_list, search_text)
    return RecipientSearchResult(read_recipients(tx, ids[:MAX_RESULTS]), is_truncated=len(ids) > MAX_RESULTS)


def _find_by_substring(tx: Tx, mailing_list: MailingList, search_text: str) -> list[int]:
    conditions = [recipients.c[name].icontains(search_text, autoescape=True) for name in SEARCHED_COLUMNS]
    query = sa.select(recipients.c.id).where(
        recipients.c.mailing_list_id == mailing_list.id, sa.or_(*conditions, *_street_conditions(search_text))
    )
    return list(tx.execute(query.order_by(recipients.c.id).limit(MAX_RESULTS + 1)).scalars())


def _street_conditions(search_text: str) -> list[sa.ColumnElement[bool]]:
    """An address on one line is stored in parts: it is found by its key."""
    return [recipients.c.address_key.startswith(street, autoescape=True) for street in _street_prefixes(search_text)]


def _find_by_prefix(service_tx: Tx, mailing_list: MailingList, search_text: str) -> list[int]:
    list_values = {"list": mailing_list.id, "account": mailing_list.account_id, "most": MAX_RESULTS + 1}
    name_range = {"low": search_text, "high": search_text + _LAST_CHARACTER}
    ids = [*service_tx.execute(_BY_EMAIL, list_values | {"sought": search_text}).scalars()]
    ids += service_tx.execute(_BY_NAME, list_values | name_range).scalars()
    for street in _street_prefixes(search_text):
        street_range = {"low": street, "high": street + _LAST_CHARACTER}
        ids += service_tx.execute(_BY_STREET, list_values | street_range).scalars()
    return list(dict.fromkeys(ids))


def _street_prefixes(search_text: str) -> Sequence[str]:
    """As keys begin. Half a street may be read in two ways: `7 north gate` begins 7 N GATE, and also 7 NORTH-GATE
    RD."""
    try:
        partial_address = parse_partial_address({"address": search_text})
    except Invalid:
        return []
    prefix = partial_address.address_key or partial_address.key_prefix
    return sorted({prefix, normalize_for_key(search_text)} - {""}) if prefix else []
