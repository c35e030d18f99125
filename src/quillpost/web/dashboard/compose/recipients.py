"""Whom a piece goes to, as the composer's form says it: one person, several that are pasted, saved lists, or
whoever lives around an address."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from quillpost.accounts.billing.rules import LEAD_CENTS
from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.app.container import Parts
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import mailing_lists
from quillpost.core.errors import Invalid
from quillpost.core.paging import PageRequest
from quillpost.recipients.leads.rules import ALL, HOMES, NEW_BUSINESS, ONLY_BUSINESSES
from quillpost.recipients.lists.queries import MailingList, known_lists
from quillpost.recipients.queries import list_recipients
from quillpost.recipients.rules import examine, written
from quillpost.web.api.bodies import LARGEST_ID, whole_number
from quillpost.web.dashboard.compose.people import Pasted, read_people, told
from quillpost.web.forms import LARGEST_PASTED, Form

PERSON, PEOPLE, LISTS, RADIUS = WAYS = ("person", "people", "lists", "radius")
STARTING: Final[Mapping[str, Sequence[str]]] = {
    "audience": [PERSON],
    "radius_count": ["100"],
    "radius_condos": ["on"],
    "radius_businesses": ["on"],
}
"""As the form is before anybody has touched it."""

BY_HAND: Final = ("name", "company", "address", "address2", "city", "province", "postal_code", "country")
"""Of one person; in the form with `to_` before them."""

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
    **{f"to_{name}": f"to_{name}" for name in BY_HAND},
}
"""Where the form shows what is wrong with a field of the API; deeper paths may be named too."""

RECORD_WORDS: Final[Mapping[str, str]] = {
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
assert set(RECORD_WORDS) == {*HOMES, ONLY_BUSINESSES, NEW_BUSINESS}

MOST_LISTS_SHOWN = 50
MOST_SHOWN = 25
"""People among whom one chooses whose piece the preview shows."""

NO_WAY = "Choose who gets it."
NOBODY_PASTED = "Paste at least one person."
NO_ADDRESS = "Give the address, or choose another way."
NO_LIST = "Tick at least one list, or choose another way."
TOO_MANY = (
    "These are more than {:,} people, and so many can be pasted at most. Import them as a list: there is no "
    "limit there."
)
NOT_A_COUNT = "Give a number, such as 100."


@dataclass(frozen=True, slots=True)
class Listed:
    """The lists to choose from, and how many are chosen."""

    lists: Sequence[MailingList]
    chosen: frozenset[int]
    more: bool
    """Whether there are others that a search would find."""

    @property
    def people(self) -> int:
        return sum(each.total_recipients for each in self.lists if each.id in self.chosen)


def way_of(form: Form) -> str:
    """How the audience is chosen; "" where it is not yet."""
    way = form.text("audience")
    return way if way in WAYS else ""


def audience_fields(form: Form, parts: Parts) -> dict[str, Any]:
    """`recipients`, `mailing_list_ids` or `radius_search`, as the API has them; `Invalid` by form field."""
    match way_of(form):
        case "person":
            return {"recipients": [_by_hand(form)]}
        case "people":
            return {"recipients": _pasted(form, parts).rows}
        case "lists":
            return {"mailing_list_ids": chosen_lists(form)}
        case "radius":
            return {"radius_search": radius_of(form)}
    raise Invalid({"audience": [NO_WAY]})


def shown_person(form: Form, who: Caller, parts: Parts) -> Mapping[str, str | None] | None:
    """Whom the preview shows, as an inline recipient of the API: the one at `shown` among the first few.
    None: there is no audience yet, or nobody in it who is understood. It reads no more than the first few,
    never raises, and is called at every key that is pressed."""
    place = min(whole_number(form.text("shown")) or 0, MOST_SHOWN - 1)
    try:
        match way_of(form):
            case "person":
                return _by_hand(form)
            case "people":
                rows = read_people(form.text("people", most=LARGEST_PASTED), most=MOST_SHOWN).rows
                return rows[place] if place < len(rows) else next(iter(rows), None)
            case "lists":
                return _on_list(form, who, parts, place)
    except Invalid:
        return None
    return None


def first_people(form: Form, who: Caller, parts: Parts) -> list[str]:
    """The names of those among whom one chooses whose piece is shown."""
    match way_of(form):
        case "people":
            rows: Sequence[Mapping[str, str | None]] = pasted_of(form, parts.limits.inline_recipients).rows[
                :MOST_SHOWN
            ]
        case "lists":
            rows = _first_on_list(form, who, parts)
        case _:
            rows = ()
    return [row.get("name") or row.get("company") or row.get("address") or "Somebody" for row in rows]


def pasted_of(form: Form, most: int) -> Pasted:
    """What is pasted, understood or not, read once; of more than the most no more than tells so."""
    text = form.text("people", most=LARGEST_PASTED)
    return form.once("people", lambda: read_people(text, most=most + 1))


def place_faults(form: Form, wrong: Invalid) -> Invalid:
    """The same faults; those of people by the field that they were typed into, or by the line."""
    faults: dict[str, list[str]] = {}
    of_people: dict[int, str] = {}
    for path, sentences in wrong.fields.items():
        start, _, rest = path.partition(".")
        place, _, name = rest.partition(".")
        if start != "recipients" or not place.isdigit():
            faults[path] = sentences
        elif way_of(form) == PERSON:
            field = f"to_{name}" if name in BY_HAND else "to_address"
            faults.setdefault(field, []).extend(sentences)
        else:
            of_people.setdefault(int(place), sentences[0])
    if of_people:
        pasted = pasted_of(form, max(of_people))
        faults["people"] = told([(pasted.line_of(place), why) for place, why in of_people.items()])
    return Invalid(faults)


def faults_of(pasted: Pasted) -> list[tuple[int, str]]:
    """By line, what could not be read and who could not be mailed to."""
    try:
        examine(pasted.rows)
    except Invalid as wrong:
        places = {int(path.split(".")[1]): told[0] for path, told in reversed(wrong.fields.items())}
        return [*pasted.faults, *((pasted.line_of(place), why) for place, why in places.items())]
    return list(pasted.faults)


def chosen_lists(form: Form) -> list[int]:
    numbers = [whole_number(each) for each in form.many("mailing_list_ids")]
    chosen = [number for number in numbers if number is not None and 0 < number <= LARGEST_ID]
    if not chosen:
        raise Invalid({"mailing_list_ids": [NO_LIST]})
    return list(dict.fromkeys(chosen))


def lists_to_choose(form: Form, who: Caller, parts: Parts, *, among: Sequence[int] | None = None) -> Listed:
    """The newest lists that can be mailed to, or those with a word in their name; and whichever are ticked.
    `among`: no others than these."""
    sought = form.text("list_search", most=100)
    try:
        ticked = chosen_lists(form)
    except Invalid:
        ticked = []
    with parts.db.transaction(tenant(who)) as tx:
        found = _newest(tx, sought, among)
        ticked_too = known_lists(tx, ticked) if ticked else {}
    first = [one for one in ticked_too.values() if _can_be_mailed(one, among)]
    shown = {one.id: one for one in (*first, *found[:MOST_LISTS_SHOWN])}
    chosen = frozenset(one.id for one in first)
    return Listed(list(shown.values()), chosen, len(found) > MOST_LISTS_SHOWN)


def radius_of(form: Form) -> dict[str, Any]:
    """The search in the API's words."""
    count = whole_number(form.text("radius_count"))
    if count is None:
        raise Invalid({"radius_count": [NOT_A_COUNT]})
    days = form.text("radius_days")
    if days and whole_number(days) is None:
        raise Invalid({"radius_days": [NOT_A_COUNT]})
    fields: dict[str, Any] = {
        "address": form.text("radius_address"),
        "record_count": count,
        "record_types": ",".join(form.many("radius_types")) or ALL,
        "include_condos": form.text("radius_condos") == "on",
        "include_businesses": form.text("radius_businesses") == "on",
        "use_property_owner": form.text("radius_owner") == "on",
        "include_search_address": form.text("radius_itself") == "on",
        "exclude_already_mailed": form.text("radius_new") == "on",
    }
    if fields["exclude_already_mailed"] and days:
        fields["mailed_within_days"] = whole_number(days)
    return fields


def page_values(
    form: Form, who: Caller, parts: Parts, *, among: Sequence[int] | None = None
) -> dict[str, Any]:
    """What the audience's templates need beside what is typed."""
    way = way_of(form)
    return {
        "record_words": RECORD_WORDS,
        "listed": lists_to_choose(form, who, parts, among=among),
        "found": found_values(form, who, parts) if way in (PEOPLE, LISTS) else None,
        "most_people": parts.limits.inline_recipients,
        "has_radius": among is None,
        "lead_cents": LEAD_CENTS,
    }


def found_values(form: Form, who: Caller, parts: Parts) -> dict[str, Any]:
    """How many are pasted, what of it was not understood, and among whom one chooses."""
    most = parts.limits.inline_recipients
    try:
        pasted = pasted_of(form, most) if way_of(form) == PEOPLE else Pasted()
        names = first_people(form, who, parts)
    except Invalid as wrong:
        return {"count": 0, "faults": [each for told in wrong.fields.values() for each in told], "names": []}
    count = len(pasted.rows)
    if count > most:
        return {"count": 0, "faults": [TOO_MANY.format(most)], "names": names}
    faults = told(faults_of(pasted))
    return {"count": count, "faults": faults, "names": names}


def _by_hand(form: Form) -> dict[str, str | None]:
    given: dict[str, str | None] = {name: form.text(f"to_{name}") or None for name in BY_HAND}
    if given["address"] is None:
        raise Invalid({"to_address": [NO_ADDRESS]})
    return {name: words for name, words in given.items() if words is not None}


def _pasted(form: Form, parts: Parts) -> Pasted:
    """Everybody; what is not understood of it is not left out in silence."""
    most = parts.limits.inline_recipients
    pasted = pasted_of(form, most)
    if len(pasted.rows) > most:
        raise Invalid({"people": [TOO_MANY.format(most)]})
    if pasted.faults:
        raise Invalid({"people": told(faults_of(pasted))})
    if not pasted.rows:
        raise Invalid({"people": [NOBODY_PASTED]})
    return pasted


def _on_list(form: Form, who: Caller, parts: Parts, place: int) -> Mapping[str, str | None] | None:
    rows = _first_on_list(form, who, parts)
    return rows[place] if place < len(rows) else next(iter(rows), None)


def _first_on_list(form: Form, who: Caller, parts: Parts) -> list[Mapping[str, str | None]]:
    """The first few of the first list that is ticked."""
    try:
        [first, *_] = chosen_lists(form)
    except Invalid:
        return []
    with parts.db.transaction(tenant(who)) as tx:
        known = known_lists(tx, [first]).get(first)
        if known is None:
            return []
        page = list_recipients(tx, known, PageRequest(1, MOST_SHOWN))
    return [written(one.person) for one in page.rows if one.person.can_be_mailed]


def _can_be_mailed(one: MailingList, among: Sequence[int] | None) -> bool:
    return not one.is_suppression_list and (among is None or one.id in among)


def _newest(tx: Tx, sought: str, among: Sequence[int] | None) -> list[MailingList]:
    """One more than are shown tells that there are others."""
    wanted = [~mailing_lists.c.is_suppression_list]
    if sought:
        wanted.append(mailing_lists.c.description.icontains(sought, autoescape=True))
    if among is not None:
        wanted.append(mailing_lists.c.id.in_(among))
    ids = tx.execute(
        sa.select(mailing_lists.c.id)
        .where(*wanted)
        .order_by(mailing_lists.c.id.desc())
        .limit(MOST_LISTS_SHOWN + 1)
    ).scalars()
    return sorted(known_lists(tx, ids).values(), key=lambda one: -one.id)
