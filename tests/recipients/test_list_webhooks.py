"""What other services send to a list by its key: whose fields they are, and that nobody is doubled."""

import json
from collections.abc import Collection, Sequence
from itertools import chain, count
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.base import recipients
from quillpost.recipients import field_names
from quillpost.recipients.field_names import ADDRESS_PREFIXES, find_field_meaning, normalize_name
from quillpost.recipients.lists.service import create_list, decrypt_list_key
from quillpost.recipients.models import CUSTOM_FIELDS, TEXT_FIELDS
from quillpost.recipients.rules import check_recipient
from quillpost.recipients.service import RecipientRejection
from quillpost.recipients.webhooks import rules
from quillpost.recipients.webhooks.rules import InboundPerson, is_leaving_event, read_payload, read_person
from quillpost.recipients.webhooks.service import ListKeyOwner, find_key_owner, upsert_recipients
from quillpost.rendering.text import addresses
from quillpost.rendering.text.addresses import COUNTRY_CODES, country_code_by_name
from support.list_webhooks import PAYLOADS
from support.rows import run_as

OURS = {*TEXT_FIELDS, "dob", "anniversary"}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
KNOWN_NAMES = {
    *CUSTOM_FIELDS,
    *chain(*field_names.PERSON_FIELD_NAMES.values(), *field_names.ADDRESS_FIELD_NAMES.values()),
}
A_NAME = st.sampled_from(sorted(KNOWN_NAMES))
SEPARATORS = st.sampled_from(["", " ", "_", "-", ".", " / "])


def test_every_name_of_the_tables_is_known_and_our_own_mean_themselves() -> None:
    assert {name for name in KNOWN_NAMES if find_field_meaning(name) is None} <= {"full", "formatted"}
    for field in sorted(OURS):
        what = find_field_meaning(normalize_name(field))
        assert what is not None, field
        assert what.field == field
    assert find_field_meaning(normalize_name("email" * 1_000)) is None, "a name without end is no name"
    assert field_names.MAX_NAME_LENGTH < 1_000


@given(A_NAME, SEPARATORS, st.booleans(), st.data())
def test_only_the_letters_of_a_name_matter(name: str, between: str, capitals: bool, data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(name)))
    other = name[:cut] + between + name[cut:]
    assert normalize_name(other.upper() if capitals else other) == name


@given(ANYTHING)
def test_whatever_is_sent_is_read_or_refused_and_never_more_than_our_fields(body: Any) -> None:
    for row in read_payload(body).rows:
        inbound = read_person(row)
        assert inbound.fields.keys() <= OURS
        assert all(text.strip() for text in inbound.fields.values())
        assert len(inbound.ignored_names) <= rules.MAX_IGNORED_NAMES
        assert inbound.error is None or inbound.fields == {}


@given(st.dictionaries(A_NAME, ANYTHING, max_size=8))
def test_whatever_a_known_name_holds_is_read_the_same_twice(row: dict[str, Any]) -> None:
    assert read_person(row) == read_person(json.loads(json.dumps(row)))


@given(st.permutations(sorted(PAYLOADS["Zoho contact"].body["data"][0])))
def test_the_order_of_the_fields_does_not_matter(order: list[str]) -> None:
    row = PAYLOADS["Zoho contact"].body["data"][0]
    assert read_person({name: row[name] for name in order}).fields == PAYLOADS["Zoho contact"].expected


PAYER = {"first_name": "Pay", "last_name": "Er", "company": "Payers Inc"}
GIFT = {"first_name": "Gift", "last_name": "Receiver"}
THERE = {"address_1": "6 W St", "city": "Austin", "postcode": "78701"}
ELSEWHERE = {"address_1": "5 W St", "city": "Dallas", "postcode": "75201"}
NAMED_THERE: tuple[tuple[dict[str, Any], tuple[str, str | None, str]], ...] = (
    ({"billing": PAYER | ELSEWHERE, "shipping": GIFT | THERE}, ("Gift Receiver", None, "6 W St")),
    ({"billing": PAYER | ELSEWHERE, "shipping": THERE}, ("Pay Er", "Payers Inc", "6 W St")),
    ({"billing": PAYER | ELSEWHERE, "shipping": GIFT}, ("Pay Er", "Payers Inc", "5 W St")),
    ({"shipping_address": GIFT | THERE, "customer": PAYER}, ("Gift Receiver", None, "6 W St")),
    ({"shipping_address": {"name": "Gift R"} | THERE, "customer": PAYER}, ("Gift R", None, "6 W St")),
    ({**PAYER, **ELSEWHERE, "shipping": GIFT | THERE}, ("Pay Er", "Payers Inc", "5 W St")),
    ({**PAYER, "default_address": THERE | {"company": "Acme"}}, ("Pay Er", "Payers Inc", "6 W St")),
    ({"customData": {"name": "By Hand"}, "shipping": GIFT | THERE}, ("By Hand", None, "6 W St")),
)  # fmt: skip


def test_mail_goes_to_whoever_has_a_name_at_that_address(subtests: pytest.Subtests) -> None:
    for row, whom in NAMED_THERE:
        with subtests.test(str(row)):
            fields = read_person(row).fields
            assert (fields["name"], fields.get("company"), fields["address"]) == whom
    first = ADDRESS_PREFIXES[0][0]
    for prefixes in ADDRESS_PREFIXES[1:]:
        with subtests.test(f"never parts of {first!r} and {prefixes[0]!r}"):
            street, code = f"{prefixes[0]}street1", f"{prefixes[0]}zip"
            inbound = read_person({street: "9 Oak Ave", code: "75201", f"{first}city": "Austin"})
            assert inbound.fields == {"address": "9 Oak Ave", "postal_code": "75201"}


VALUES: tuple[tuple[dict[str, Any], dict[str, str]], ...] = (
    ({"first_name": "Jane"}, {"name": "Jane"}), ({"first_name": "Jane", "name": "Jane Doe"}, {"name": "Jane Doe"}),
    ({"first_name": "Jane", "last_name": "Doe", "name": "jdoe"}, {"name": "Jane Doe"}),
    ({"name": {"first": "Jane", "last": "Doe"}}, {"name": "Jane Doe"}),
    ({"contact_email": "a@b.co", "customer phone": 5}, {"email": "a@b.co", "phone": "5"}),
    ({"zip": 2134}, {"postal_code": "02134"}),
    ({"zip": 2134, "country": "Norway"}, {"postal_code": "2134", "country": "NO"}),
    ({"zip": "2134"}, {"postal_code": "2134"}), ({"email": ["a@b.co", "c@d.co"]}, {"email": "a@b.co"}),
    ({"email": "", "work_email": "a@b.co"}, {"email": "a@b.co"}),
    ({"phone": None, "mobile": True, "cell": "1"}, {"phone": "1"}),
    ({"custom_fields": [{"key": "custom 3", "field_value": "x"}]}, {"custom3": "x"}),
    ({"address": "12 Main St\nApt 4", "unit": "B"}, {"address": "12 Main St, Apt 4", "address2": "B"}),
    ({"route": "Hauptstr.", "street_number": "5", "country": "Germany"}, {"address": "Hauptstr. 5", "country": "DE"}),
    ({"full_address": "12 Main St", "city": "Austin", "zip": "78701"}, {"address": "12 Main St", "city": "Austin",
    "postal_code": "78701"}),
    ({"full_address": "12 Main St, Austin, TX 78701", "zip": 78701}, {"address": "12 Main St, Austin, TX 78701"}),
    ({"mailing_street": "1 A St", "country": "Canada"}, {"address": "1 A St", "country": "CA"}),
    ({"country": "Atlantis"}, {"country": "Atlantis"}), ({"dob": "1980-02-29"}, {"dob": "1980-02-29"}),
    ({"dob": "02/29/1980"}, {"dob": "02/29/1980"}), ({"dob": "1980-02-29T00:00:00.000Z"}, {"dob": "1980-02-29"}),
    ({"dob": "1980-02-29 12:30"}, {"dob": "1980-02-29"}), ({"dob": 320630400000}, {"dob": "1980-02-29"}),
    ({"dob": "-86400000"}, {"dob": "1969-12-31"}), ({"dob": "320630400001"}, {"dob": "320630400001"}),
    ({"dob": 0}, {"dob": "0"}), ({"dob": "29 Feb"}, {"dob": "29 Feb"}),
)  # fmt: skip
HALF_NAMES = (
    ({"first_name": "Sho"}, True), ({"LNAME": "Pify"}, True), ({"first_name": "Sho", "last_name": " "}, True),
    ({"first_name": "Sho", "last_name": "Pify"}, False), ({"first_name": "Sho", "full_name": "Sho Pify"}, False),
    ({"name": "Sho"}, False), ({"email": "a@b.co"}, False),
)  # fmt: skip


def test_values_are_put_together_and_days_read_where_they_are_sure(subtests: pytest.Subtests) -> None:
    for row, expected in VALUES:
        with subtests.test(str(row)):
            assert read_person(row).fields == expected
    for names, is_half in HALF_NAMES:
        with subtests.test(str(names)):
            assert read_person(names).has_partial_name == is_half
    for day in ("02/29", "2-29", "--02-29"):  # a birthday without its year
        with subtests.test(day):
            assert read_person({"Birthday": day, "email": "a@b.co"}) == InboundPerson({"email": "a@b.co"}, ["Birthday"])


ROWS_IN: tuple[tuple[Any, list[Any]], ...] = (
    ([], []), ([{"a": 1}, 2], [{"a": 1}, 2]), ({"recipients": [{"a": 1}]}, [{"a": 1}]),
    ({"Contacts": [{"a": 1}], "total": 1}, [{"a": 1}]), ({"data": []}, []),
    ({"payload": {"data": [{"a": 1}]}}, [{"a": 1}]),
    ({"recipients": [{"a": 1}], "contacts": [{"b": 1}, {"a": 1}]}, [{"a": 1}, {"b": 1}, {"a": 1}]), ({}, [{}]),
    ({"recipients": {"1": {"b": 1}, "0": {"a": 1}, "10": {"c": 1}}}, [{"a": 1}, {"b": 1}, {"c": 1}]),
    ({"recipients": {"email": "a@b.co"}}, [{"email": "a@b.co"}]), ({"people": {"a": 1}}, [{"people": {"a": 1}}]),
    ({"email": "a@b.co", "leads": []}, [{"email": "a@b.co", "leads": []}]),
    ({"email": "a@b.co", "data": [1, 2]}, [{"email": "a@b.co", "data": [1, 2]}]),
)  # fmt: skip
PEOPLE: dict[str, Any] = {"people": [{"a": 1}]}
UNUSED_BESIDE_ROWS: tuple[tuple[dict[str, Any], list[str]], ...] = (
    (PEOPLE | {"leads": [], "total": 1, "members": ["Jane"]}, ["total", "members"]),
    (PEOPLE | {"email": "a@b.co", "Source": "crm"}, ["email", "Source"]),
    ({"payload": {"data": [{"a": 1}], "source": "crm"}, "at": 5}, ["payload.source", "at"]),
    (PEOPLE | {"source": "crm", "type": "unsubscribe"}, []),
    (PEOPLE | {"source": "form", "type": "subscribe"}, ["source", "type"]), (PEOPLE | {"x" * 200: 1}, ["x" * 100]),
    (PEOPLE | {f"n{n}": 1 for n in range(99)}, [f"n{n}" for n in range(rules.MAX_IGNORED_NAMES)]),
    ({"email": "a@b.co", "total": 1}, []),
)  # fmt: skip
UNUSED_OF_A_PERSON: tuple[tuple[dict[str, Any], list[str]], ...] = (
    ({"type": "unsubscribe", "shoe": 44}, ["shoe"]), ({"meta": {"action": "delete", "id": 5}}, []),
    ({"type": "subscribe"}, ["type"]), ({"meta": {"action": "change"}}, ["meta"]),
    ({"data": {"type": "unsubscribe"}}, ["data.type"]), ({"type": ["unsubscribe"]}, ["type"]),
    ({"source": "automation"}, []), ({"source": "crm"}, []), ({"source": "landing page"}, ["source"]),
)  # fmt: skip


def test_people_are_found_in_arrays_wrappers_and_alone_and_the_unused_reported(subtests: pytest.Subtests) -> None:
    for body, rows in ROWS_IN:
        with subtests.test(str(body)):
            assert list(read_payload(body).rows) == rows
    for body, ignored in UNUSED_BESIDE_ROWS:
        with subtests.test(str(body)[:80]):
            assert list(read_payload(body).ignored_names) == ignored
    for row, ignored in UNUSED_OF_A_PERSON:
        with subtests.test(str(row)):
            assert read_person(row).ignored_names == ignored
    for source, taken in (("automation", "automation"), ("crm", "crm"), ("landing page", None)):
        assert read_payload({"source": source, "email": "a@b.co"}).source == taken


def test_what_is_no_object_is_refused_and_events_of_leaving_and_countries_are_known() -> None:
    for row in (None, 1, "jane@example.com", [{"email": "a@b.co"}]):
        assert read_person(row) == InboundPerson(error=rules.NOT_AN_OBJECT)
    for text in ("Ja\x00ne", "Ja\ud800ne"):
        error = read_person({"First Name": text}).error
        assert error is not None
        assert error.startswith("First Name: This text holds ")
    assert [body for body in LEAVING if not is_leaving_event(body)] == []
    assert [body for body in STAYING if is_leaving_event(body)] == []
    assert set(addresses.CODES_BY_NAME.values()) <= COUNTRY_CODES
    known = {"U.S.A.": "US", "Côte d’Ivoire": "CI", "Trinidad & Tobago": "TT", "uk": "GB", "de": "de"}
    assert {name: country_code_by_name(name) for name in known} == known


LEAVING: tuple[dict[str, Any], ...] = (
    {"type": "unsubscribe"}, {"type": "cleaned"}, {"type": "ContactDelete"}, {"event": "deleted.person"},
    {"event": "contact.deletion"}, {"meta": {"action": "delete"}},
)  # fmt: skip
STAYING: tuple[Any, ...] = (
    {"type": "subscribe"}, {"type": "ContactUpdate"}, {"meta": {"action": "change"}}, {"name": "delete"},
    [{"type": "unsubscribe"}],
)  # fmt: skip


MAYBE = {"phone": ["1", "2"], "name": ["Jane", "John"], "first_name": ["Sho"], "custom1": ["x"]}
PLACE = {"address2": ["4"], "city": ["Austin", "Reno"], "zip": ["78701", "78701-1234", "89501"]}
EMAILS = ["a@example.com", "A@example.com", "b@example.com"]
STREETS = ["12 Main St", "12 MAIN ST.", "9 Elm St"]

_number = count()


def some(of: dict[str, list[str]]) -> st.SearchStrategy[dict[str, str]]:
    return st.fixed_dictionaries({}, optional={name: st.sampled_from(texts) for name, texts in of.items()})


ROW = st.builds(
    lambda person, contact, street, place: person | contact | street | (place if street else {}), some(MAYBE),
    some({"email": EMAILS}), some({"street": STREETS}), some(PLACE),
)  # fmt: skip
ROWS = st.lists(ROW, min_size=1, max_size=7)
A, B = ({"email": f"{name}@example.com"} for name in "ab")
UNIT, STREET = {"address2": "4"}, {"street": "12 Main St"}
HOME, FAR = STREET | {"zip": "78701"}, {"street": "9 Elm St", "zip": "89501"}


def new_list(container: Container, account: int, *, is_suppression_list: bool = False) -> ListKeyOwner:
    caller = Caller(account, "test")
    named = {"type": "manual", "description": f"List {next(_number)}", "is_suppression_list": is_suppression_list}
    made = run_as(container, caller, create_list, caller, container.encryptor, named, now=container.clock())
    holder = find_key_owner(container.db, decrypt_list_key(container.encryptor, made))
    assert holder is not None
    return holder


def send(container: Container, holder: ListKeyOwner, rows: Sequence[Any]) -> list[str]:
    with container.db.transaction(holder.tenant) as tx:
        outcomes = upsert_recipients(tx, holder, [read_person(row) for row in rows], source=None, clock=container.clock)
    return ["refused" if isinstance(one, RecipientRejection) else str(one[0]) for one in outcomes]


def on(container: Container, holder: ListKeyOwner) -> list[dict[str, Any]]:
    with container.db.system_transaction() as tx:
        found = sa.select(recipients).where(recipients.c.mailing_list_id == holder.list_id)
        rows = tx.execute(found.order_by(recipients.c.id))
        return [dict(row) for row in rows.mappings()]


def without_ids(people: list[dict[str, Any]], emails: Collection[str]) -> list[tuple[Any, ...]]:
    """Everyone but those with one of these e-mails."""
    apart = {"id", "mailing_list_id"}
    return [
        tuple(value for name, value in one.items() if name not in apart)
        for one in people
        if one["email_key"] not in emails
    ]


def differ(alone: str, with_others: str) -> bool:
    """Whether only the one found nobody, so somebody was added, or several.

    A row that is refused alone is refused with the others too.
    """
    assert alone != "refused" or with_others == "refused"
    return alone != with_others and (alone == "added" or with_others == "refused")


def contradict(rows: Sequence[Any]) -> bool:
    """Whether they give one door two e-mails: then the last is kept, and the first may be another's."""
    emails: dict[str, set[str]] = {}
    for row in rows:
        someone = check_recipient(read_person(row).fields, allow_incomplete=True)[0]
        if someone.address_key is not None and someone.email is not None:
            emails.setdefault(someone.address_key, set()).add(someone.email.lower())
    return any(len(each) > 1 for each in emails.values())


@pytest.mark.costly
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, bars=st.booleans())
@example(rows=[A, A | HOME, A | FAR], bars=False)
@example(rows=[A | HOME, A | {"phone": "1"}, B | FAR, HOME], bars=False)
@example(rows=[A | STREET, HOME, A | HOME], bars=True)
@example(rows=[{"email": "A@example.com"} | STREET | UNIT, A, A | STREET], bars=False)
@example(rows=[A | {"phone": "1"} | STREET | UNIT, A | {"phone": "2"}, A | STREET], bars=False)
@example(rows=[HOME | UNIT, A, A | HOME | UNIT, A | STREET], bars=False)
@example(rows=[A | {"first_name": "Sho"}, A | {"name": "Jane"} | HOME], bars=False)
def test_a_repeat_changes_nothing(container: Container, account: int, rows: list[dict[str, str]], bars: bool) -> None:
    assume(not contradict(rows))
    holder, other = (new_list(container, account, is_suppression_list=bars) for _ in range(2))
    results = send(container, holder, rows)
    once = on(container, holder)
    assert send(container, holder, rows) == [one if one == "refused" else "unchanged" for one in results]
    assert on(container, holder) == once
    alone = [send(container, other, [row])[0] for row in rows]
    # One that comes alone is taken where a call would know that another of that e-mail follows.
    early = [row for row, *both in zip(rows, alone, results, strict=True) if differ(*both)]
    assert [row for row in early if "street" in row or bars] == []
    apart = {row["email"].lower() for row in early}
    assert without_ids(on(container, other), apart) == without_ids(once, apart)
    # Somebody added early may be half of one who came later: a call that knows both adds one.
    assert len(on(container, other)) == len(once) or (early and len(on(container, other)) > len(once))
    emails = [one["email_key"] for one in once if one["address_key"] is None]
    assert len(emails) == len(set(emails))
    keys = [one["address_key"] for one in once if one["address_key"] is not None]
    assert len(keys) == len(set(keys))
    if not bars:
        sent_emails = {str(row["email"]).lower() for row in rows if "email" in row}
        assert {one["email_key"] for one in once if one["email_key"]} <= sent_emails


def test_a_call_is_a_handful_of_statements_however_many_its_rows(container: Container, account: int) -> None:
    holder = new_list(container, account)
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    sa.event.listen(container.db._app, "before_cursor_execute", note)
    for phone, result in (({}, "added"), ({"phone": "1"}, "changed"), ({"phone": "1"}, "unchanged")):
        seen.clear()
        rows = [{"street": f"{n} Main St", "zip": "78701", **phone} for n in range(2_000)]
        assert set(send(container, holder, rows)) == {result}
        assert len(seen) < 12
    sa.event.remove(container.db._app, "before_cursor_execute", note)
