"""Who gets the mail: one person, pasted people, saved lists, or those around an address."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from fastapi import APIRouter, Response
from pydantic import ValidationError

from quillpost.accounts.billing.rules import LEAD_CENTS
from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import mailing_lists
from quillpost.core.errors import Invalid, Refused
from quillpost.core.paging import PageRequest
from quillpost.recipients.leads import service as lead_service
from quillpost.recipients.leads.rules import ALL_RECORDS, HOME_RECORD_TYPES, NEW_BUSINESS, ONLY_BUSINESSES
from quillpost.recipients.lists.queries import find_lists
from quillpost.recipients.models import MailingList
from quillpost.recipients.queries import read_list_page
from quillpost.recipients.rules import person_to_fields, validate_recipients
from quillpost.web.api.errors import to_invalid
from quillpost.web.api.radius.schemas import RadiusCall
from quillpost.web.dashboard.compose.people import (
    PastedPeople,
    RadiusMap,
    describe_errors,
    draw_radius_map,
    parse_people,
)
from quillpost.web.dashboard.forms import FormState
from quillpost.web.dashboard.responses import RequestContext, UserContext
from quillpost.web.dependencies import MAX_ID, parse_digits
from quillpost.web.forms import MAX_LARGE_FORM_BYTES, Form, PostedLargeForm
from quillpost.web.messages import page_text

PERSON, PEOPLE, LISTS, RADIUS = AUDIENCE_KINDS = ("person", "people", "lists", "radius")
AUDIENCE_DEFAULTS: Final[Mapping[str, Sequence[str]]] = {
    "audience": [PERSON],
    "radius_count": ["100"],
    "radius_condos": ["on"],
    "radius_businesses": ["on"],
}

PERSON_FIELDS: Final = ("name", "company", "address", "address2", "city", "province", "postal_code", "country")
"""In the form with `to_` before them."""

AUDIENCE_FORM_FIELDS: Final[Mapping[str, str]] = {
    "recipients": "people",
    "mailing_list_ids": "mailing_list_ids",
    "radius_search": "radius_address",
    "radius_search.address": "radius_address",
    "radius_search.postal_code": "radius_address",
    "radius_search.record_count": "radius_count",
    "radius_search.record_types": "radius_types",
    "radius_search.mailed_within_days": "radius_days",
    "people": "people",
    **{f"to_{name}": f"to_{name}" for name in PERSON_FIELDS},
}
"""By a field of the API, the field of the form that shows its errors."""

RECORD_LABELS: Final[Mapping[str, str]] = {
    "likelytomove": "Likely to move",
    "likelytorefi": "Likely to refinance",
    "absenteeowner": "Owner lives elsewhere",
    "highnetworth": "High net worth",
    "majorityhomeequity": "Mostly paid off",
    "homefreeclear": "Free of any mortgage",
    "underwater": "Owe more than it is worth",
    "kidsinhousehold": "Children at home",
    "newhomeowner": "New homeowners",
    "firsttimehomebuyer": "First-time buyers",
    "renters": "Renters",
    "retiring": "About to retire",
    "retired": "Retired",
    "pool": "With a pool",
    ONLY_BUSINESSES: "Businesses",
    NEW_BUSINESS: "New businesses",
}
assert set(RECORD_LABELS) == {*HOME_RECORD_TYPES, ONLY_BUSINESSES, NEW_BUSINESS}

MAX_LISTS_SHOWN = 50
MAX_PEOPLE_SHOWN = 25
"""Whose piece the preview can show."""

AUDIENCE_MISSING = "Choose who gets it."
PEOPLE_MISSING = "Paste at least one person."
ADDRESS_MISSING = "Give the address, or choose another way."
LIST_MISSING = "Tick at least one list, or choose another way."
TOO_MANY_PEOPLE = (
    "These are more than {:,} people, and so many can be pasted at most. Import them as a list: there is no "
    "limit there."
)
INVALID_COUNT = "Give a number, such as 100."


@dataclass(frozen=True, slots=True)
class ListChoices:
    lists: Sequence[MailingList]
    selected_ids: frozenset[int]
    has_more: bool

    @property
    def recipient_count(self) -> int:
        return sum(each.total_recipients for each in self.lists if each.id in self.selected_ids)


def audience_kind(form: Form) -> str:
    kind = form.text("audience")
    return kind if kind in AUDIENCE_KINDS else ""


def audience_fields(form: Form, container: Container) -> dict[str, Any]:
    """`recipients`, `mailing_list_ids` or `radius_search` as the API has them; `Invalid` by form field."""
    match audience_kind(form):
        case "person":
            return {"recipients": [_read_person(form)]}
        case "people":
            return {"recipients": _require_pasted(form, container).rows}
        case "lists":
            return {"mailing_list_ids": read_chosen_lists(form)}
        case "radius":
            return {"radius_search": radius_fields(form)}
    raise Invalid({"audience": [AUDIENCE_MISSING]})


def find_preview_person(form: Form, caller: Caller, container: Container) -> Mapping[str, str | None] | None:
    """The one at `shown` among the first few; None where there is nobody yet. Called at every key press, so it reads no
    more than those, and never raises."""
    index = min(parse_digits(form.text("shown")) or 0, MAX_PEOPLE_SHOWN - 1)
    try:
        match audience_kind(form):
            case "person":
                return _read_person(form)
            case "people":
                rows: Sequence[Mapping[str, str | None]] = parse_people(
                    form.text("people", max_length=MAX_LARGE_FORM_BYTES), limit=MAX_PEOPLE_SHOWN
                ).rows
            case "lists":
                rows = _first_people_on_list(form, caller, container)
            case _:
                return None
    except Invalid:
        return None
    return rows[index] if index < len(rows) else next(iter(rows), None)


def list_first_names(form: Form, caller: Caller, container: Container) -> list[str]:
    match audience_kind(form):
        case "people":
            rows: Sequence[Mapping[str, str | None]] = parse_pasted(form, container.limits.inline_recipients).rows[
                :MAX_PEOPLE_SHOWN
            ]
        case "lists":
            rows = _first_people_on_list(form, caller, container)
        case _:
            rows = ()
    return [row.get("name") or row.get("company") or row.get("address") or "Somebody" for row in rows]


def parse_pasted(form: Form, limit: int) -> PastedPeople:
    """Parsed once, and only one person beyond the limit."""
    text = form.text("people", max_length=MAX_LARGE_FORM_BYTES)
    return form.cached("people", lambda: parse_people(text, limit=limit + 1))


def locate_errors(form: Form, error: Invalid) -> Invalid:
    """Errors of people by the field that they were typed into, or by line."""
    errors: dict[str, list[str]] = {}
    messages_by_index: dict[int, str] = {}
    for path, messages in error.fields.items():
        prefix, _, suffix = path.partition(".")
        index, _, name = suffix.partition(".")
        if prefix != "recipients" or not index.isdigit():
            errors[path] = messages
        elif audience_kind(form) == PERSON:
            field = f"to_{name}" if name in PERSON_FIELDS else "to_address"
            errors.setdefault(field, []).extend(messages)
        else:
            messages_by_index.setdefault(int(index), page_text(messages[0]))
    if messages_by_index:
        pasted = parse_pasted(form, max(messages_by_index))
        errors["people"] = describe_errors(
            [(pasted.line_number(index), message) for index, message in messages_by_index.items()]
        )
    return Invalid(errors)


def find_errors(pasted: PastedPeople) -> list[tuple[int, str]]:
    """By line, what could not be read and who cannot be mailed to."""
    try:
        validate_recipients(pasted.rows)
    except Invalid as error:
        messages_by_index = {int(path.split(".")[1]): messages[0] for path, messages in reversed(error.fields.items())}
        return [*pasted.errors, *((pasted.line_number(place), why) for place, why in messages_by_index.items())]
    return list(pasted.errors)


def read_chosen_lists(form: Form) -> list[int]:
    numbers = [parse_digits(each) for each in form.values("mailing_list_ids")]
    chosen = [number for number in numbers if number is not None and 0 < number <= MAX_ID]
    if not chosen:
        raise Invalid({"mailing_list_ids": [LIST_MISSING]})
    return list(dict.fromkeys(chosen))


def find_list_choices(
    form: Form, caller: Caller, container: Container, *, allowed_ids: Sequence[int] | None = None
) -> ListChoices:
    """The newest lists, or those that match the search, and the selected ones; only `allowed_ids` where given."""
    search_text = form.text("list_search", max_length=100)
    try:
        chosen_ids = read_chosen_lists(form)
    except Invalid:
        chosen_ids = []
    with container.db.transaction(build_tenant(caller)) as tx:
        newest_lists = _newest_lists(tx, search_text, allowed_ids)
        chosen_lists_by_id = find_lists(tx, chosen_ids) if chosen_ids else {}
    mailable_lists = [one for one in chosen_lists_by_id.values() if _can_be_mailed(one, allowed_ids)]
    lists_by_id = {one.id: one for one in (*mailable_lists, *newest_lists[:MAX_LISTS_SHOWN])}
    chosen = frozenset(one.id for one in mailable_lists)
    return ListChoices(list(lists_by_id.values()), chosen, len(newest_lists) > MAX_LISTS_SHOWN)


def radius_fields(form: Form) -> dict[str, Any]:
    count = parse_digits(form.text("radius_count"))
    if count is None:
        raise Invalid({"radius_count": [INVALID_COUNT]})
    days = form.text("radius_days")
    if days and parse_digits(days) is None:
        raise Invalid({"radius_days": [INVALID_COUNT]})
    fields: dict[str, Any] = {
        "address": form.text("radius_address"),
        "record_count": count,
        "record_types": ",".join(form.values("radius_types")) or ALL_RECORDS,
        "include_condos": form.text("radius_condos") == "on",
        "include_businesses": form.text("radius_businesses") == "on",
        "use_property_owner": form.text("radius_owner") == "on",
        "include_search_address": form.text("radius_itself") == "on",
        "exclude_already_mailed": form.text("radius_new") == "on",
    }
    if fields["exclude_already_mailed"] and days:
        fields["mailed_within_days"] = parse_digits(days)
    return fields


def audience_context(
    form: Form, caller: Caller, container: Container, *, allowed_ids: Sequence[int] | None = None
) -> dict[str, Any]:
    kind = audience_kind(form)
    return {
        "record_labels": RECORD_LABELS,
        "list_choices": find_list_choices(form, caller, container, allowed_ids=allowed_ids),
        "people": people_context(form, caller, container) if kind in (PEOPLE, LISTS) else None,
        "max_people": container.limits.inline_recipients,
        "has_radius": allowed_ids is None,
        "lead_cents": LEAD_CENTS,
    }


def people_context(form: Form, caller: Caller, container: Container) -> dict[str, Any]:
    limit = container.limits.inline_recipients
    try:
        pasted = parse_pasted(form, limit) if audience_kind(form) == PEOPLE else PastedPeople()
        names = list_first_names(form, caller, container)
    except Invalid as error:
        return {"count": 0, "errors": [each for messages in error.fields.values() for each in messages], "names": []}
    count = len(pasted.rows)
    if count > limit:
        return {"count": 0, "errors": [TOO_MANY_PEOPLE.format(limit)], "names": names}
    errors = describe_errors(find_errors(pasted))
    return {"count": count, "errors": errors, "names": names}


def _read_person(form: Form) -> dict[str, str | None]:
    fields: dict[str, str | None] = {name: form.text(f"to_{name}") or None for name in PERSON_FIELDS}
    if fields["address"] is None:
        raise Invalid({"to_address": [ADDRESS_MISSING]})
    return {name: value for name, value in fields.items() if value is not None}


def _require_pasted(form: Form, container: Container) -> PastedPeople:
    """What is not understood is an error, not left out."""
    limit = container.limits.inline_recipients
    pasted = parse_pasted(form, limit)
    if len(pasted.rows) > limit:
        raise Invalid({"people": [TOO_MANY_PEOPLE.format(limit)]})
    if pasted.errors:
        raise Invalid({"people": describe_errors(find_errors(pasted))})
    if not pasted.rows:
        raise Invalid({"people": [PEOPLE_MISSING]})
    return pasted


def _first_people_on_list(form: Form, caller: Caller, container: Container) -> list[Mapping[str, str | None]]:
    """Of the first selected list."""
    try:
        [list_id, *_] = read_chosen_lists(form)
    except Invalid:
        return []
    with container.db.transaction(build_tenant(caller)) as tx:
        mailing_list = find_lists(tx, [list_id]).get(list_id)
        if mailing_list is None:
            return []
        page = read_list_page(tx, mailing_list, PageRequest(1, MAX_PEOPLE_SHOWN))
    return [person_to_fields(recipient.person) for recipient in page.rows if recipient.person.can_be_mailed]


def _can_be_mailed(mailing_list: MailingList, allowed_ids: Sequence[int] | None) -> bool:
    return not mailing_list.is_suppression_list and (allowed_ids is None or mailing_list.id in allowed_ids)


def _newest_lists(tx: Tx, search_text: str, allowed_ids: Sequence[int] | None) -> list[MailingList]:
    """One more than are shown, to know whether there are others."""
    conditions = [~mailing_lists.c.is_suppression_list]
    if search_text:
        conditions.append(mailing_lists.c.description.icontains(search_text, autoescape=True))
    if allowed_ids is not None:
        conditions.append(mailing_lists.c.id.in_(allowed_ids))
    ids = tx.execute(
        sa.select(mailing_lists.c.id).where(*conditions).order_by(mailing_lists.c.id.desc()).limit(MAX_LISTS_SHOWN + 1)
    ).scalars()
    return sorted(find_lists(tx, ids).values(), key=lambda mailing_list: -mailing_list.id)


router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class RadiusSearchView:
    address: str = ""
    count: int = 0
    requested_count: int = 0
    cents: int = 0
    is_testing: bool = False
    map: RadiusMap | None = None
    error: str | None = None


@router.post("/compose/people")
def people_fragment(context: UserContext, form: PostedLargeForm) -> Response:
    people = people_context(form, context.user.caller, context.container)
    return _render_fragment(context, "compose/people.html", form, people=people)


@router.post("/compose/lists")
def lists_fragment(context: UserContext, form: PostedLargeForm) -> Response:
    choices = find_list_choices(form, context.user.caller, context.container)
    return _render_fragment(context, "compose/lists.html", form, list_choices=choices)


@router.post("/compose/radius")
def radius_fragment(context: UserContext, form: PostedLargeForm) -> Response:
    result = search_radius(form, context.user.caller, context.container)
    return _render_fragment(context, "compose/radius.html", form, radius_search=result)


def search_radius(form: Form, caller: Caller, container: Container) -> RadiusSearchView:
    """Asking is free."""
    try:
        fields = radius_fields(form)
        body = RadiusCall.model_validate(fields | {"sub_account_id": form.number("sub_account_id")})
        leads, _ = lead_service.find_leads(
            container.db,
            container.lead_providers[caller.mode],
            caller,
            body.to_search(),
            sub_account_id=body.sub_account_id,
            mailing_list_id=None,
            now=container.clock(),
        )
    except ValidationError as error:
        return RadiusSearchView(error=to_invalid(error.errors()).message)
    except (Invalid, Refused) as error:
        return RadiusSearchView(error=page_text(error.message))
    radius_map = draw_radius_map(leads.center, leads.coordinates) if leads.center is not None else None
    return RadiusSearchView(
        address=fields["address"],
        count=len(leads.people),
        requested_count=fields["record_count"],
        cents=leads.cents,
        is_testing=leads.are_samples,
        map=radius_map,
    )


def _render_fragment(context: RequestContext, template: str, form: Form, **values: Any) -> Response:
    return context.render(template, FormState(form.fields), base_path="/compose", **values)
