"""Creates, changes and drafts automations."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo

from quillpost.accounts.billing.rules import Tariff
from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.accounts.sub_accounts.queries import require_sub_account
from quillpost.core import jobs
from quillpost.core.database import Tx
from quillpost.core.errors import Conflict, Invalid, Message, NotFound, Refused
from quillpost.orders import designs
from quillpost.orders.automations import queries, rules
from quillpost.orders.automations.queries import Automation, AutomationPlan, UpcomingMailing
from quillpost.orders.drafts.models import OrderDraft
from quillpost.orders.drafts.service import choose_return_address, draft_resolved_order, prepare_draft
from quillpost.orders.models import AUTOMATION_METHOD, FieldErrors, OrderRequest, ResolvedRequest
from quillpost.orders.ports import OrderContext
from quillpost.orders.requests.queries import ResolvedOrder, read_usable_lists, resolve_request
from quillpost.orders.requests.rules import validate_request
from quillpost.orders.templates.service import IMAGE_TEMPLATES, MESSAGE_TEMPLATES
from quillpost.recipients.addresses.rules import INCOMPLETE_ADDRESS, NO_ADDRESS, UNDELIVERABLE
from quillpost.recipients.models import Person
from quillpost.recipients.queries import read_recipient
from quillpost.recipients.rules import NO_PRICE, person_to_fields, validate_recipient
from quillpost.rendering import models as rendering_models
from quillpost.rendering.text.variables import has_variables

LIST_REQUIRED = Message(
    "automation_list_missing", "Give the list whose people are mailed: only an automation on scans may go without."
)
DATE_FIELD_REQUIRED = Message(
    "automation_date_missing", "Choose dob or anniversary: it is the date that is mailed for."
)
ONLY_FOR_DATE_TRIGGER = "Only an automation on a date has this: leave it out."

WRONG_MODE_LIST = "The service keeps this list of those who scanned {0} mail: use a {0} token."

DUE_FIELDS = ("sub_account_id", "trigger", "mailing_list_id", "date_field", "days_offset")
"""What decides who is due; a change of it starts over."""
CHECKED_FIELDS = frozenset({"send", "trigger", "mailing_list_id"})
"""Where one of these is given, the whole send is looked at again."""
PREVIEW_DAYS = 30


def check_plan(plan: AutomationPlan) -> FieldErrors:
    """Errors of the plan itself, without its send."""
    errors: FieldErrors = {}
    if plan.mailing_list_id is None and plan.trigger != "scan":
        errors["mailing_list_id"] = [LIST_REQUIRED]
    if plan.trigger == "date":
        if plan.date_field is None:
            errors["date_field"] = [DATE_FIELD_REQUIRED]
    else:
        errors |= {"date_field": [ONLY_FOR_DATE_TRIGGER]} if plan.date_field is not None else {}
        errors |= {"days_offset": [ONLY_FOR_DATE_TRIGGER]} if plan.days_offset else {}
    return errors


def create_automation(tx: Tx, caller: Caller, plan: AutomationPlan, *, zone: tzinfo, now: datetime) -> Automation:
    if queries.count_automations(tx, caller.mode) >= rules.MAX_AUTOMATIONS:
        raise Refused(f"An account has at most {rules.MAX_AUTOMATIONS:,} automations: delete one first.")
    _lock_references(tx, plan, caller.mode)
    values = {
        **plan.column_values(),
        **_start_values(plan, zone=zone, now=now),
        "account_id": caller.account_id,
        "mode": caller.mode,
        "created_at": now,
        "updated_at": now,
    }
    automation = queries.insert_automation(tx, values)
    _enqueue(tx, automation, now=now)
    return automation


def change_automation(tx: Tx, previous: Automation, plan: AutomationPlan, *, zone: tzinfo, now: datetime) -> Automation:
    """Apply another plan, made when the automation was as `previous`. People who are due stay so where the plan still
    says so. Switched off, it forgets them."""
    if plan.enabled:
        _lock_references(tx, plan, previous.mode)
    # After the lists, as where lists are merged.
    current = queries.read_automation(tx, previous.id, locked=True)
    if not current.has_plan_of(previous):
        raise Conflict("Another call changed this automation at this moment. Try again.", retry_after=1)
    restarts = any(getattr(plan, name) != getattr(current, name) for name in DUE_FIELDS)
    values = {**plan.column_values(), "updated_at": now}
    if restarts or not plan.enabled:
        tx.execute(queries.DELETE_DUE, {"automation": current.id})
    if restarts or plan.enabled != current.enabled:
        values |= _start_values(plan, zone=zone, now=now)
    if plan.enabled:
        # What was wrong may be fixed: it is tried at once.
        values |= {"next_at": now, "held_until": None, "tries": 0, "failing_since": None}
        values |= {"last_error": None, "last_error_at": None}
    updated = queries.update_automation(tx, current.id, values)
    _enqueue(tx, updated, now=now)
    return updated


def _start_values(plan: AutomationPlan, *, zone: tzinfo, now: datetime) -> dict[str, object]:
    return {
        "enabled_at": now if plan.enabled else None,
        "enabled_on": rules.local_date(now, zone) if plan.enabled else None,
        "next_at": now,
        "held_until": None,
    }


def _enqueue(tx: Tx, automation: Automation, *, now: datetime) -> None:
    if automation.enabled:
        jobs.enqueue_unique(tx, queries.FIND_DATES_TASK if automation.trigger == "date" else queries.SEND_TASK, at=now)


def _lock_references(tx: Tx, plan: AutomationPlan, mode: str) -> None:
    """What the plan names may be gone; from here on it stays."""
    if plan.sub_account_id is not None:
        require_sub_account(tx, plan.sub_account_id)
    if plan.message_template_id is not None:
        MESSAGE_TEMPLATES.find(tx, plan.message_template_id, share_locked=True)
    if plan.image_template_id is not None:
        IMAGE_TEMPLATES.find(tx, plan.image_template_id, share_locked=True)
    errors: FieldErrors = {}
    if plan.mailing_list_id is not None:
        sub_account_id = plan.sub_account_id
        [mailing_list] = read_usable_lists(tx, [plan.mailing_list_id], sub_account_id, errors, locked=True)
        if mailing_list.kept_for not in (None, mode):
            errors["mailing_list_id"] = [WRONG_MODE_LIST.format(mailing_list.kept_for)]
    if errors:
        raise Invalid({"mailing_list_id": next(iter(errors.values()))})


SAMPLE_RECIPIENT: Mapping[str, str | None] = {
    "name": "Jane Doe",
    "address": "12 Main St",
    "city": "Austin",
    "province": "TX",
    "postal_code": "78701",
}

PICTURE_TAKES_NO_VARIABLES = "With an automation the picture is the same for everyone: its URL takes no variables."

ReadStoredSend = Callable[[str, datetime], tuple[OrderRequest, FieldErrors]]
"""Reads a stored send as the API does; provided from above, as the API is not imported here."""


@dataclass(frozen=True, slots=True)
class AutomationContext:
    """What automations need to create orders. Days begin in `zone`."""

    orders: OrderContext
    read_send: ReadStoredSend
    zone: tzinfo


def resolve_send(
    context: AutomationContext, caller: Caller, plan: AutomationPlan, *, measures_longest: bool
) -> tuple[ResolvedOrder, FieldErrors]:
    """The send with its audience, looked up, and its errors."""
    now = context.orders.clock()
    request, errors = context.read_send(plan.send, now)
    audience = (
        {"recipients": (SAMPLE_RECIPIENT,)}
        if plan.mailing_list_id is None
        else {"mailing_list_ids": (plan.mailing_list_id,)}
    )
    with context.orders.db.transaction(build_tenant(caller)) as tx:
        resolved = resolve_request(
            tx,
            caller,
            replace(request, sub_account_id=plan.sub_account_id, **audience),
            errors,
            price_date=now.date(),
            measures_longest=measures_longest,
        )
    # As with lists: thousands of pictures are not fetched for one order.
    for source in (resolved.request.front, resolved.request.background) if plan.mailing_list_id is None else ():
        if source is not None and source.url is not None and has_variables(source.url):
            errors.setdefault(source.field, []).append(PICTURE_TAKES_NO_VARIABLES)
    return resolved, errors


def check_automation(context: AutomationContext, caller: Caller, plan: AutomationPlan) -> OrderDraft:
    """Its send, drafted as if it were sent now; `Invalid` with everything that is wrong with the plan."""
    errors = check_plan(plan)
    try:
        draft = draft_automation_order(context, caller, plan)
    except Invalid as error:
        raise Invalid(errors | dict(error.fields)) from None
    if errors:
        raise Invalid(errors)
    return draft


def check_changes(
    context: AutomationContext, caller: Caller, previous: Automation, plan: AutomationPlan, given_fields: Set[str]
) -> OrderDraft | None:
    """The same of a changed plan; None where nothing that was given concerns the send, which is not drafted then."""
    if given_fields & CHECKED_FIELDS or (plan.enabled and not previous.enabled):
        return check_automation(context, caller, plan)
    if errors := check_plan(plan):
        raise Invalid(errors)
    return None


def draft_automation_order(
    context: AutomationContext, caller: Caller, plan: AutomationPlan, *, person: Person | None = None
) -> OrderDraft:
    """The send to its list or, `person`, only to this one."""
    try:
        resolved, errors = resolve_send(context, caller, plan, measures_longest=person is None)
        if person is not None:
            request = replace(resolved.request, recipients=(person_to_fields(person),), mailing_list_ids=())
            resolved = replace(resolved, request=request)
        return draft_resolved_order(context.orders, caller, resolved, errors)
    except Invalid as error:
        raise prefix_send_errors(error) from None


def prefix_send_errors(error: Invalid) -> Invalid:
    """The same errors by the names of the automation's fields."""
    fields = {
        "mailing_list_id" if name == "mailing_list_ids" else f"send.{name}": messages
        for name, messages in error.fields.items()
    }
    return Invalid(fields)


def list_coming_days(context: AutomationContext, automation: Automation) -> list[UpcomingMailing]:
    if automation.trigger != "date":
        return []
    today = rules.local_date(context.orders.clock(), context.zone)
    days = [today + timedelta(days=offset) for offset in range(PREVIEW_DAYS + 1)]
    with context.orders.db.system_transaction() as tx:
        return queries.list_upcoming(tx, automation, days)


def find_preview_person(
    context: AutomationContext, caller: Caller, automation: Automation, coming: Sequence[UpcomingMailing]
) -> Person:
    """Only the service can read who is due; the automation was read as the caller."""
    with context.orders.db.system_transaction() as tx:
        waiting = queries.read_longest_due(tx, automation, zone=context.zone, limit=1)
        if unmailed := queries.filter_not_yet_mailed(tx, automation.id, waiting):
            return unmailed[0].person
    with context.orders.db.transaction(build_tenant(caller)) as tx:
        try:
            if coming:
                return read_recipient(tx, coming[0].recipient_id).person
        except NotFound:
            pass  # gone since they were counted
        return queries.find_sample_person(tx, automation) or validate_recipient(SAMPLE_RECIPIENT)


EMPTY_MESSAGE = "The message is empty for this recipient."


def draft_for_people(
    context: OrderContext,
    caller: Caller,
    resolved: ResolvedOrder,
    errors: FieldErrors,
    people: Sequence[Person],
    *,
    mailing_list_id: int | None,
) -> OrderDraft:
    """The draft for these people of this list. Those who cannot be mailed come last, each with the reason: all have the
    same pictures, so order does not matter. No transaction is open meanwhile."""
    request, _ = validate_request(
        resolved.request, styles=context.renderer.hands.styles, check_url=context.check_url, known_errors=errors
    )
    request = replace(
        request, recipients=(), mailing_list_ids=(), method=AUTOMATION_METHOD, mailing_list_id=mailing_list_id
    )
    checked_people = [replace(person, refusal=_find_refusal(person, resolved.tariff)) for person in people]
    mailable, refused = _split_by_refusal(checked_people)
    try:
        draft = prepare_draft(context, caller, resolved, request, mailable)
    except Invalid:
        # Only now is it worth asking whose words or address it is.
        mailable, misfits = _split_by_refusal(_refuse_misfits(context, caller, resolved, request, mailable))
        if not misfits:
            raise
        draft, refused = prepare_draft(context, caller, resolved, request, mailable), [*misfits, *refused]
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
    context: OrderContext, caller: Caller, resolved: ResolvedOrder, request: ResolvedRequest, people: Sequence[Person]
) -> list[Person]:
    renderer = context.renderer
    design = designs.build_design(
        request,
        own_handwriting=request.own_handwriting,
        sender=rendering_models.SenderName(resolved.sender.name, resolved.sender.company),
        return_address=choose_return_address(request, resolved.sender),
        indicia=context.environments[caller.mode].indicia[request.mail_class],
    )
    addressees = [designs.build_addressee(candidate, request) for candidate in people]
    texts = [] if design.pdf_only else renderer.fill_messages(design, addressees)
    hand = renderer.hands.hand_for(design.hand_choice)
    misfits = renderer.find_misfits(
        design, addressees, qr=request.qrcode_url is not None, messages=texts, find_all=True
    )
    refusals = {index: too_long.message for index, too_long in misfits.addresses.items()}
    refusals |= {index: too_long.message for index, too_long in misfits.messages.items()}
    if request.message.strip() or request.background is None:
        refusals |= {index: EMPTY_MESSAGE for index, text in enumerate(texts) if not hand.has_visible_text(text)}
    return [replace(person, refusal=refusals.get(index)) for index, person in enumerate(people)]
