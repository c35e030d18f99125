"""Taking someone off a mailing list: by id, by where they live, or by their e-mail."""

from collections.abc import Sequence

from quillpost.audience import rules
from quillpost.audience.lists import UNKNOWN_LIST, lock_lists
from quillpost.audience.recipients import Recipient, delete_recipient, read_recipient, those_at
from quillpost.audience.rules import Row
from quillpost.database import Tx
from quillpost.kit.errors import Invalid, NotFound, Refused

MOST_TOLD_APART = 100
TELLING = ("address", "postal_code", "address2", "city", "email")
"""What tells people of one street or one e-mail apart."""


def remove_recipient(tx: Tx, recipient_id: int) -> None:
    """The list before the person, as everyone does who writes."""
    lock_lists(tx, [read_recipient(tx, recipient_id).mailing_list_id])
    delete_recipient(tx, recipient_id)


def remove_at(tx: Tx, list_id: int, given: Row) -> int:
    """The id of the one person whom this describes, who is no longer on the list.

    With a ZIP code, or whole on one line, an address means one door. A street alone, or an e-mail, has to
    mean one person of the list; else `Invalid` says what would tell them apart.
    """
    address, email = ((given.get(name) or "").strip() for name in ("address", "email"))
    if not address and not email:
        raise Invalid({"address": ["Give an address, or at least an email."]})
    where = rules.whereabouts(given) if address else None
    if not lock_lists(tx, [list_id]):
        raise Refused(UNKNOWN_LIST)
    found = those_at(tx, list_id, where, email or None, most=MOST_TOLD_APART)
    if not found:
        raise NotFound
    if len(found) > 1:
        raise Invalid(_which_one(found, given, "address" if address else "email"))
    delete_recipient(tx, found[0].id)
    return found[0].id


def _which_one(found: Sequence[Recipient], given: Row, by: str) -> dict[str, list[str]]:
    telling = [
        name
        for name in TELLING
        if not given.get(name) and len({getattr(one.person, name) for one in found}) > 1
    ]
    if not telling:
        return {by: ["Several on this list match, and nothing tells them apart but their ids."]}
    return {name: ["Several on this list match: this would tell them apart."] for name in telling}
