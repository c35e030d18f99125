"""Whether somebody is suppressed."""

from dataclasses import dataclass

import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import barred_digests, mailing_lists, recipients
from quillpost.recipients.lists.queries import MailingList, known_lists
from quillpost.recipients.rules import BY_EMAIL, BY_HOUSEHOLD, Person, Row, examine_one

# The rule itself is the schema's, and the one by which pieces are held back.
_IS_BARRED = sa.text(
    """
    select exists (select from suppressed_places(cast(:home as bigint), :mode, array[cast(:key as text)],
                                                 array[cast(:surname as text)], array[cast(:email as text)]))
    """
)
MOST_LISTS = 20


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether mail to this person is held back, and by which lists, as far as the caller sees them."""

    person: Person
    is_barred: bool
    lists: list[MailingList]


def ask(tx: Tx, who: Caller, row: Row) -> Answer:
    """For somebody of whom an address is known, an e-mail, or both; in the caller's mode."""
    person = examine_one(row)
    asked = {
        "home": who.sub_account_id,
        "mode": who.mode,
        "key": person.address_key,
        "surname": person.surname,
        "email": person.email,
    }
    is_barred = bool(tx.execute(_IS_BARRED, asked).scalar_one())
    return Answer(person, is_barred, _lists_with(tx, who, person) if is_barred else [])


def forgotten(tx: Tx, *, most: int) -> int:
    """How many stay barred though nobody knows any more who they are; counted up to `most`."""
    some = sa.select(barred_digests.c.id).limit(most).subquery()
    return int(tx.execute(sa.select(sa.func.count()).select_from(some)).scalar_one())


def _lists_with(tx: Tx, who: Caller, person: Person) -> list[MailingList]:
    """Suppression lists that this person is on, whatever they bar by."""
    own, lists = recipients.c, mailing_lists.c
    by_address = sa.and_(own.address_key == person.address_key, lists.suppress_by != BY_EMAIL)
    if person.surname is not None:
        is_family = sa.or_(own.surname.is_(None), own.surname == person.surname)
        by_address = sa.and_(by_address, sa.or_(lists.suppress_by != BY_HOUSEHOLD, is_family))
    bars_emails = sa.or_(lists.suppress_by == BY_EMAIL, sa.func.bars_email(own.address_key))
    by_email = sa.and_(own.email_key == sa.func.lower(person.email), bars_emails)
    found: set[int] = set()
    for is_meant in (by_address, by_email):
        rows = tx.execute(
            sa.select(own.mailing_list_id)
            .join(mailing_lists, lists.id == own.mailing_list_id)
            .where(
                own.account_id == who.account_id,
                lists.is_suppression_list,
                sa.or_(lists.kept_for.is_(None), lists.kept_for == who.mode),
                is_meant,
            )
            .distinct()
            .limit(MOST_LISTS)
        )
        found |= set(rows.scalars())
    return [known for _, known in sorted(known_lists(tx, found).items())]


BARS_NOBODY = (
    "On a suppression list an address needs its ZIP code (abroad its city) and a house number or a box: or"
    " give an email."
)
BARS_BY_EMAIL = "This suppression list bars by e-mail: give an email, or use a list that bars by address."


def in_vain(suppress_by: str | None, person: Person) -> tuple[str, str] | None:
    """The field, and what to do about it, of someone who would be on a list that bars so in vain; a list
    that bars nobody is none."""
    if suppress_by is None:
        return None
    if suppress_by == BY_EMAIL:
        return ("email", BARS_BY_EMAIL) if person.email is None else None
    return None if person.can_be_barred else ("address", BARS_NOBODY)
