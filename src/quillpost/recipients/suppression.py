"""Whether somebody is suppressed."""

from dataclasses import dataclass

import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import barred_digests, mailing_lists, recipients
from quillpost.recipients.lists.queries import MailingList, find_lists
from quillpost.recipients.rules import BY_EMAIL, BY_HOUSEHOLD, Person, RecipientFields, validate_recipient

# The rule itself is the schema's, and the one by which pieces are held back.
_IS_SUPPRESSED = sa.text(
    """
    select exists (select from suppressed_places(cast(:home as bigint), :mode, array[cast(:key as text)],
                                                 array[cast(:surname as text)], array[cast(:email as text)]))
    """
)
MAX_LISTS = 20


@dataclass(frozen=True, slots=True)
class SuppressionCheck:
    """Whether mail to this person is held back, and by which lists, as far as the caller sees them."""

    person: Person
    is_suppressed: bool
    lists: list[MailingList]


def check_suppression(tx: Tx, caller: Caller, fields: RecipientFields) -> SuppressionCheck:
    """For somebody of whom an address is known, an e-mail, or both; in the caller's mode."""
    person = validate_recipient(fields)
    bind_values = {
        "home": caller.sub_account_id,
        "mode": caller.mode,
        "key": person.address_key,
        "surname": person.surname,
        "email": person.email,
    }
    is_suppressed = bool(tx.execute(_IS_SUPPRESSED, bind_values).scalar_one())
    return SuppressionCheck(person, is_suppressed, _find_suppression_lists(tx, caller, person) if is_suppressed else [])


def count_erased_suppressions(tx: Tx, *, limit: int) -> int:
    """How many stay barred though nobody knows any more who they are; counted up to `limit`."""
    digests = sa.select(barred_digests.c.id).limit(limit).subquery()
    return int(tx.execute(sa.select(sa.func.count()).select_from(digests)).scalar_one())


def _find_suppression_lists(tx: Tx, caller: Caller, person: Person) -> list[MailingList]:
    """Suppression lists that this person is on, whatever they bar by."""
    recipient_columns, list_columns = recipients.c, mailing_lists.c
    by_address = sa.and_(recipient_columns.address_key == person.address_key, list_columns.suppress_by != BY_EMAIL)
    if person.surname is not None:
        is_family = sa.or_(recipient_columns.surname.is_(None), recipient_columns.surname == person.surname)
        by_address = sa.and_(by_address, sa.or_(list_columns.suppress_by != BY_HOUSEHOLD, is_family))
    suppresses_emails = sa.or_(list_columns.suppress_by == BY_EMAIL, sa.func.bars_email(recipient_columns.address_key))
    by_email = sa.and_(recipient_columns.email_key == sa.func.lower(person.email), suppresses_emails)
    list_ids: set[int] = set()
    for condition in (by_address, by_email):
        rows = tx.execute(
            sa.select(recipient_columns.mailing_list_id)
            .join(mailing_lists, list_columns.id == recipient_columns.mailing_list_id)
            .where(
                recipient_columns.account_id == caller.account_id,
                list_columns.is_suppression_list,
                sa.or_(list_columns.kept_for.is_(None), list_columns.kept_for == caller.mode),
                condition,
            )
            .distinct()
            .limit(MAX_LISTS)
        )
        list_ids |= set(rows.scalars())
    return [mailing_list for _, mailing_list in sorted(find_lists(tx, list_ids).items())]


INEFFECTIVE_ENTRY = (
    "On a suppression list an address needs its ZIP code (abroad its city) and a house number or a box: or"
    " give an email."
)
EMAIL_REQUIRED = "This suppression list bars by e-mail: give an email, or use a list that bars by address."


def find_suppression_error(suppress_by: str | None, person: Person) -> tuple[str, str] | None:
    """The field, and what to do about it, of someone who would be on a list that bars so in vain; a list
    that bars nobody is none."""
    if suppress_by is None:
        return None
    if suppress_by == BY_EMAIL:
        return ("email", EMAIL_REQUIRED) if person.email is None else None
    return None if person.can_be_suppressed else ("address", INEFFECTIVE_ENTRY)
