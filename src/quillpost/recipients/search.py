"""Finding somebody on a mailing list by what one remembers of them, however long the list is."""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.base import recipients
from quillpost.core.errors import Invalid
from quillpost.recipients.addresses.keys import normalize_for_key
from quillpost.recipients.lists.queries import MailingList
from quillpost.recipients.queries import Recipient, read_recipients
from quillpost.recipients.rules import parse_partial_address

MAX_RESULTS = 50
SHORT_LIST_LENGTH = 5_000
"""Lists up to this length are looked through from end to end."""

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
    """`is_truncated`: there are more than are shown."""

    recipients: list[Recipient]
    is_truncated: bool


def searches_substrings(mailing_list: MailingList) -> bool:
    """Whether any part of a name, an address or an e-mail is found. On a long list a name or a street is
    found by how it begins, and an e-mail as a whole."""
    return mailing_list.total_recipients <= SHORT_LIST_LENGTH


def search_list(db: Database, tx: Tx, mailing_list: MailingList, search_text: str) -> RecipientSearchResult:
    """Those of the list, which the caller has read, whom these words describe.

    On a long list the service itself finds their ids, and what is shown of them is read as the caller:
    row-level security comes before `lower` and before beginnings, and so closes the indexes over them.
    """
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
        recipients.c.mailing_list_id == mailing_list.id, sa.or_(*conditions, *_address_conditions(search_text))
    )
    return list(tx.execute(query.order_by(recipients.c.id).limit(MAX_RESULTS + 1)).scalars())


def _address_conditions(search_text: str) -> list[sa.ColumnElement[bool]]:
    """An address that is written whole on one line is kept in parts: it is known by its key."""
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
    """As addresses are kept. Half a street may be read as another: `7 north gate` begins 7 N GATE, and also
    7 NORTH-GATE RD."""
    try:
        partial_address = parse_partial_address({"address": search_text})
    except Invalid:
        return []
    prefix = partial_address.address_key or partial_address.key_prefix
    return sorted({prefix, normalize_for_key(search_text)} - {""}) if prefix else []
