"""Finding somebody on a mailing list by what one remembers of them, however long the list is."""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.base import recipients
from quillpost.core.errors import Invalid
from quillpost.recipients.addresses.keys import bare
from quillpost.recipients.lists.queries import MailingList
from quillpost.recipients.queries import Recipient, recipients_by_id
from quillpost.recipients.rules import whereabouts

MOST = 50
SHORT = 5_000
"""Lists up to this length are looked through from end to end."""

LOOKED_AT = ("name", "company", "address", "city", "postal_code", "email", "phone")

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
_LAST_LETTER = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class Found:
    """`is_cut`: there are more than are shown."""

    people: list[Recipient]
    is_cut: bool


def looks_everywhere(mailing_list: MailingList) -> bool:
    """Whether any part of a name, an address or an e-mail is found. On a long list a name or a street is
    found by how it begins, and an e-mail as a whole."""
    return mailing_list.total_recipients <= SHORT


def search(db: Database, tx: Tx, mailing_list: MailingList, sought: str) -> Found:
    """Those of the list, which the caller has read, whom these words describe.

    On a long list the service itself finds their ids, and what is shown of them is read as the caller:
    row-level security comes before `lower` and before beginnings, and so closes the indexes over them.
    """
    sought = " ".join(sought.split())
    if looks_everywhere(mailing_list):
        ids = _anywhere(tx, mailing_list, sought)
    else:
        with db.work() as service:
            ids = _by_beginning(service, mailing_list, sought)
    return Found(recipients_by_id(tx, ids[:MOST]), is_cut=len(ids) > MOST)


def _anywhere(tx: Tx, mailing_list: MailingList, sought: str) -> list[int]:
    holds = [recipients.c[name].icontains(sought, autoescape=True) for name in LOOKED_AT]
    wanted = sa.select(recipients.c.id).where(
        recipients.c.mailing_list_id == mailing_list.id, sa.or_(*holds, *_at(sought))
    )
    return list(tx.execute(wanted.order_by(recipients.c.id).limit(MOST + 1)).scalars())


def _at(sought: str) -> list[sa.ColumnElement[bool]]:
    """An address that is written whole on one line is kept in parts: it is known by its key."""
    return [recipients.c.address_key.startswith(street, autoescape=True) for street in _streets(sought)]


def _by_beginning(service: Tx, mailing_list: MailingList, sought: str) -> list[int]:
    these = {"list": mailing_list.id, "account": mailing_list.account_id, "most": MOST + 1}
    named = {"low": sought, "high": sought + _LAST_LETTER}
    ids = [*service.execute(_BY_EMAIL, these | {"sought": sought}).scalars()]
    ids += service.execute(_BY_NAME, these | named).scalars()
    for street in _streets(sought):
        begun = {"low": street, "high": street + _LAST_LETTER}
        ids += service.execute(_BY_STREET, these | begun).scalars()
    return list(dict.fromkeys(ids))


def _streets(sought: str) -> Sequence[str]:
    """As addresses are kept. Half a street may be read as another: `7 north gate` begins 7 N GATE, and also
    7 NORTH-GATE RD."""
    try:
        where = whereabouts({"address": sought})
    except Invalid:
        return []
    begins = where.address_key or where.beginning
    return sorted({begins, bare(sought)} - {""}) if begins else []
