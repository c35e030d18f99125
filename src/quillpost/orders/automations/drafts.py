"""From an automation's send to a draft: checked as a send to its list is, whoever is mailed in the end.

An automation that listens to scans of any list has none to be checked with: a made-up person stands in.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, tzinfo

from quillpost.accounts.billing.rules import Tariff
from quillpost.accounts.models import Caller
from quillpost.core.database import Tx
from quillpost.core.errors import Invalid
from quillpost.orders import designs, drafts
from quillpost.orders.drafts import OrderDraft
from quillpost.orders.models import AUTOMATION_METHOD, FieldErrors, OrderRequest, ResolvedRequest
from quillpost.orders.resolution import ResolvedOrder, resolve_request
from quillpost.orders.service import OrderContext
from quillpost.orders.validation import validate_request
from quillpost.recipients.addresses.service import INCOMPLETE_ADDRESS, NO_ADDRESS, UNDELIVERABLE
from quillpost.recipients.rules import NO_PRICE, Person
from quillpost.rendering import models as rendering_models
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

ReadStoredSend = Callable[[str, datetime], tuple[OrderRequest, FieldErrors]]
"""Reads a kept send as the API reads one, at a moment. The API lies above: whoever puts the parts together
hands it down."""


@dataclass(frozen=True, slots=True)
class AutomationContext:
    """All that it takes to turn a send into an order without anyone who calls. Days begin in `zone`."""

    orders: OrderContext
    read_send: ReadStoredSend
    zone: tzinfo


def resolve_send(
    tx: Tx,
    caller: Caller,
    request: OrderRequest,
    errors: FieldErrors,
    *,
    mailing_list_id: int | None,
    price_date: date,
    measures_longest: bool = True,
) -> ResolvedOrder:
    """The send with its audience put in, looked up; what is wrong with it is one more fault."""
    complete_request = (
        replace(request, recipients=(SAMPLE_RECIPIENT,))
        if mailing_list_id is None
        else replace(request, mailing_list_ids=(mailing_list_id,))
    )
    resolved = resolve_request(
        tx, caller, complete_request, errors, price_date=price_date, measures_longest=measures_longest
    )
    if mailing_list_id is None:
        _refuse_personal_pictures(resolved.request, errors)
    return resolved


def _refuse_personal_pictures(request: ResolvedRequest, errors: FieldErrors) -> None:
    """As with lists: five thousand pictures are not fetched for a letter that nobody waits for."""
    for source in (request.front, request.background):
        if source is not None and source.url is not None and has_variables(source.url):
            errors.setdefault(source.field, []).append(PICTURE_TAKES_NO_VARIABLES)


def prepare_draft(
    context: AutomationContext,
    caller: Caller,
    resolved: ResolvedOrder,
    errors: FieldErrors,
    people: Sequence[Person],
    *,
    mailing_list_id: int | None,
) -> OrderDraft:
    """What is sent to these people, who are on this list. No transaction is open meanwhile."""
    orders = context.orders
    request, _ = validate_request(
        resolved.request, styles=orders.renderer.hands.styles, check_url=orders.check_url, known_errors=errors
    )
    request = replace(
        request, recipients=(), mailing_list_ids=(), method=AUTOMATION_METHOD, mailing_list_id=mailing_list_id
    )
    return _prepare_with_refusals(context.orders, caller, resolved, request, people)


EMPTY_MESSAGE = "The message is empty for this recipient."


def _prepare_with_refusals(
    context: OrderContext, caller: Caller, resolved: ResolvedOrder, request: ResolvedRequest, people: Sequence[Person]
) -> OrderDraft:
    """As a send is prepared; those who cannot be mailed come last, each with the reason.

    Its pictures are the same for everyone: no place among the people matters to them.
    """
    indicia = context.environments[caller.mode].indicia[request.mail_class]

    def prepare_for(recipients: list[Person]) -> OrderDraft:
        return drafts.prepare_draft(
            resolved,
            request,
            recipients,
            caller=caller,
            renderer=context.renderer,
            fetcher=context.fetcher,
            store=context.storage.store,
            indicia=indicia,
        )

    checked_people = [replace(person, refusal=_find_refusal(person, resolved.tariff)) for person in people]
    mailable, refused = _split_by_refusal(checked_people)
    try:
        draft = prepare_for(mailable)
    except Invalid:
        # Only now is it worth asking whose words or address it is.
        mailable, misfits = _split_by_refusal(_refuse_misfits(resolved, request, mailable, context.renderer, indicia))
        if not misfits:
            raise
        draft, refused = prepare_for(mailable), [*misfits, *refused]
    return replace(draft, people=[*mailable, *refused])


def _split_by_refusal(people: Sequence[Person]) -> tuple[list[Person], list[Person]]:
    return [person for person in people if not person.refusal], [person for person in people if person.refusal]


def _find_refusal(person: Person, tariff: Tariff) -> str | None:
    if person.address is None:
        return NO_ADDRESS
    if not person.can_be_mailed:
        return INCOMPLETE_ADDRESS
    if person.deliverability == UNDELIVERABLE:
        return person.reasons[0]
    return NO_PRICE.format(person.country) if tariff.unit_cents(person.country) is None else None


def _refuse_misfits(
    resolved: ResolvedOrder,
    request: ResolvedRequest,
    people: Sequence[Person],
    renderer: Renderer,
    indicia: tuple[str, ...],
) -> list[Person]:
    design = designs.build_design(
        request,
        sender=rendering_models.SenderName(resolved.sender.name, resolved.sender.company),
        return_address=drafts.choose_return_address(request, resolved.sender),
        indicia=indicia,
    )
    addressees = [designs.build_addressee(candidate, request) for candidate in people]
    texts = [] if design.pdf_only else renderer.fill_messages(design, addressees)
    hand = renderer.hands.hand(design.hand)
    misfits = renderer.find_misfits(
        design, addressees, qr=request.qrcode_url is not None, messages=texts, find_all=True
    )
    refusals = {index: too_long.message for index, too_long in misfits.addresses.items()}
    refusals |= {index: too_long.message for index, too_long in misfits.messages.items()}
    if request.message.strip() or request.background is None:
        refusals |= {index: EMPTY_MESSAGE for index, text in enumerate(texts) if not hand.has_visible_text(text)}
    return [replace(person, refusal=refusals.get(index)) for index, person in enumerate(people)]
