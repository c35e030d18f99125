"""From an automation's send to a draft: checked as a send to its list is, whoever is mailed in the end.

An automation that listens to scans of any list has none to be checked with: a made-up person stands in.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, tzinfo
from typing import Protocol

from quillpost.accounts.models import Caller
from quillpost.core.clock import Clock
from quillpost.core.database import Database, Tx
from quillpost.core.ports import Fetcher
from quillpost.core.stored_files import Shelf
from quillpost.orders.drafts import Draft, draft_for
from quillpost.orders.models import CAMPAIGN, Wish
from quillpost.orders.request import Resolved, resolve
from quillpost.orders.requests import Call, Faults
from quillpost.orders.templates.rules import CheckUrl
from quillpost.orders.validation import examine_wish
from quillpost.recipients.rules import Person
from quillpost.rendering.renderer import Studio
from quillpost.rendering.text.variables import holds_variable

SAMPLE: Mapping[str, str | None] = {
    "name": "Jane Doe",
    "address": "12 Main St",
    "city": "Austin",
    "province": "TX",
    "postal_code": "78701",
}

SAME_FOR_EVERYONE = "With an automation the picture is the same for everyone: its URL takes no variables."

ReadSend = Callable[[str, datetime], tuple[Call, Faults]]
"""Reads a kept send as the API reads one, at a moment. The API lies above: whoever puts the parts together
hands it down."""


class Terms(Protocol):
    """What orders of one mode are subject to: how long they wait for review, whether credit must cover them,
    and the postage mark by class of mail."""

    @property
    def review(self) -> timedelta: ...
    @property
    def needs_credit(self) -> bool: ...
    @property
    def indicia(self) -> Mapping[str, tuple[str, ...]]: ...


@dataclass(frozen=True, slots=True)
class Means:
    """All that it takes to turn a send into an order without anyone who calls. Days begin in `zone`."""

    db: Database
    studio: Studio
    shelf: Shelf
    fetcher: Fetcher
    worlds: Mapping[str, Terms]
    check_url: CheckUrl
    read: ReadSend
    zone: tzinfo
    clock: Clock


def resolve_send(
    tx: Tx,
    who: Caller,
    call: Call,
    faults: Faults,
    *,
    mailing_list_id: int | None,
    on: date,
    measured: bool = True,
) -> Resolved:
    """The send with its audience put in, looked up; what is wrong with it is one more fault."""
    whole = (
        replace(call, recipients=(SAMPLE,))
        if mailing_list_id is None
        else replace(call, mailing_list_ids=(mailing_list_id,))
    )
    resolved = resolve(tx, who, whole, faults, on=on, measured=measured)
    if mailing_list_id is None:
        _refuse_own_pictures(resolved.wish, faults)
    return resolved


def _refuse_own_pictures(wish: Wish, faults: Faults) -> None:
    """As with lists: five thousand pictures are not fetched for a letter that nobody waits for."""
    for source in (wish.front, wish.background):
        if source is not None and source.url is not None and holds_variable(source.url):
            faults.setdefault(source.field, []).append(SAME_FOR_EVERYONE)


def draft(
    means: Means,
    who: Caller,
    resolved: Resolved,
    faults: Faults,
    people: Sequence[Person],
    *,
    on_list: int | None,
) -> Draft:
    """What is sent to these people, who are on this list. No transaction is open meanwhile."""
    wish, _ = examine_wish(
        resolved.wish, styles=means.studio.hands.styles, check_url=means.check_url, known_faults=faults
    )
    wish = replace(wish, recipients=(), mailing_list_ids=(), method=CAMPAIGN, on_list=on_list)
    return draft_for(
        resolved,
        wish,
        people,
        who=who,
        studio=means.studio,
        fetcher=means.fetcher,
        store=means.shelf.store,
        indicia=means.worlds[who.mode].indicia[wish.mail_class],
    )
