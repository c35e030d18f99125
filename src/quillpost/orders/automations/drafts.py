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
from quillpost.core.stored_files import FileStorage
from quillpost.orders.drafts import OrderDraft, prepare_draft_with_refusals
from quillpost.orders.models import AUTOMATION_METHOD, OrderRequest
from quillpost.orders.request import ResolvedRequest, resolve_request
from quillpost.orders.requests import FieldErrors, SendRequest
from quillpost.orders.templates.rules import CheckUrl
from quillpost.orders.validation import validate_request
from quillpost.recipients.rules import Person
from quillpost.rendering.renderer import Renderer
from quillpost.rendering.text.variables import has_variables

SAMPLE_RECIPIENT: Mapping[str, str | None] = {
    "name": "Jane Doe",
    "address": "12 Main St",
    "city": "Austin",
    "province": "TX",
    "postal_code": "78701",
}

PICTURE_TAKES_NO_VARIABLES = "With an automation the picture is the same for everyone: its URL takes no variables."

ReadStoredSend = Callable[[str, datetime], tuple[SendRequest, FieldErrors]]
"""Reads a kept send as the API reads one, at a moment. The API lies above: whoever puts the parts together
hands it down."""


class OrderTerms(Protocol):
    """What orders of one mode are subject to: how long they wait for review, whether credit must cover them,
    and the postage mark by class of mail."""

    @property
    def review_period(self) -> timedelta: ...
    @property
    def needs_credit(self) -> bool: ...
    @property
    def indicia(self) -> Mapping[str, tuple[str, ...]]: ...


@dataclass(frozen=True, slots=True)
class AutomationContext:
    """All that it takes to turn a send into an order without anyone who calls. Days begin in `zone`."""

    db: Database
    renderer: Renderer
    storage: FileStorage
    fetcher: Fetcher
    environments: Mapping[str, OrderTerms]
    check_url: CheckUrl
    read_send: ReadStoredSend
    zone: tzinfo
    clock: Clock


def resolve_send(
    tx: Tx,
    caller: Caller,
    send_request: SendRequest,
    errors: FieldErrors,
    *,
    mailing_list_id: int | None,
    price_date: date,
    measures_longest: bool = True,
) -> ResolvedRequest:
    """The send with its audience put in, looked up; what is wrong with it is one more fault."""
    complete_request = (
        replace(send_request, recipients=(SAMPLE_RECIPIENT,))
        if mailing_list_id is None
        else replace(send_request, mailing_list_ids=(mailing_list_id,))
    )
    resolved = resolve_request(
        tx, caller, complete_request, errors, price_date=price_date, measures_longest=measures_longest
    )
    if mailing_list_id is None:
        _refuse_personal_pictures(resolved.request, errors)
    return resolved


def _refuse_personal_pictures(request: OrderRequest, errors: FieldErrors) -> None:
    """As with lists: five thousand pictures are not fetched for a letter that nobody waits for."""
    for source in (request.front, request.background):
        if source is not None and source.url is not None and has_variables(source.url):
            errors.setdefault(source.field, []).append(PICTURE_TAKES_NO_VARIABLES)


def prepare_draft(
    context: AutomationContext,
    caller: Caller,
    resolved: ResolvedRequest,
    errors: FieldErrors,
    people: Sequence[Person],
    *,
    mailing_list_id: int | None,
) -> OrderDraft:
    """What is sent to these people, who are on this list. No transaction is open meanwhile."""
    request, _ = validate_request(
        resolved.request, styles=context.renderer.hands.styles, check_url=context.check_url, known_errors=errors
    )
    request = replace(
        request, recipients=(), mailing_list_ids=(), method=AUTOMATION_METHOD, mailing_list_id=mailing_list_id
    )
    return prepare_draft_with_refusals(
        resolved,
        request,
        people,
        caller=caller,
        renderer=context.renderer,
        fetcher=context.fetcher,
        store=context.storage.store,
        indicia=context.environments[caller.mode].indicia[request.mail_class],
    )
