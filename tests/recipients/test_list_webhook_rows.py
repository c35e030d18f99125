"""What other services call the fields of a person, and where in a body they are."""

import json
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.recipients import field_names
from quillpost.recipients.field_names import (
    ADDRESS_FIELD_NAMES,
    ADDRESS_PREFIXES,
    PERSON_FIELD_NAMES,
    find_field_meaning,
    normalize_name,
)
from quillpost.recipients.models import CUSTOM_FIELDS, TEXT_FIELDS
from quillpost.recipients.rules import check_recipient
from quillpost.recipients.webhooks.rules import (
    MAX_IGNORED_NAMES,
    NOT_AN_OBJECT,
    InboundPerson,
    is_leaving_event,
    read_payload,
    read_person,
)
from quillpost.rendering.text import addresses
from quillpost.rendering.text.addresses import COUNTRY_CODES, country_code_by_name
from quillpost.web.public.webhooks.endpoints import nest_fields
from support.list_webhook_payloads import FORM, PAYLOADS, Payload

OURS = {*TEXT_FIELDS, "dob", "anniversary"}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
A_NAME = st.sampled_from(
    sorted(
        {name for table in (PERSON_FIELD_NAMES, ADDRESS_FIELD_NAMES) for name in chain(*table.values())}
        | {*CUSTOM_FIELDS}
    )
)
SEPARATORS = st.sampled_from(["", " ", "_", "-", ".", " / "])


def only(body: Any) -> InboundPerson:
    [row] = read_payload(body).rows
    return read_person(row)


@pytest.mark.parametrize("service", PAYLOADS)
def test_jane_is_read_whoever_sends_her(service: str) -> None:
    payload: Payload = PAYLOADS[service]
    inbound = only(nest_fields(payload.body.items()) if payload.kind == FORM else payload.body)
    assert inbound.error is None
    assert inbound.fields == payload.expected
    assert set(inbound.ignored_names) == payload.ignored
    person, errors = check_recipient(inbound.fields, allow_incomplete=True)
    assert errors == {}
    assert person.address_key == f"12MAIN ST|{(person.address2 or '').removeprefix('Apt ')}|78701|US"


@given(A_NAME, SEPARATORS, st.booleans(), st.data())
def test_case_spaces_and_punctuation_of_a_name_do_not_matter(
    name: str, between: str, capitals: bool, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(name)))
    other = name[:cut] + between + name[cut:]
    assert normalize_name(other.upper() if capitals else other) == name


@given(A_NAME.filter(lambda name: name not in ("full", "formatted")))
def test_every_name_of_the_tables_is_known(name: str) -> None:
    assert find_field_meaning(name) is not None


@pytest.mark.parametrize("field", sorted(OURS))
def test_our_own_names_mean_themselves(field: str) -> None:
    what = find_field_meaning(normalize_name(field))
    assert what is not None
    assert what.field == field


@given(ANYTHING)
def test_whatever_is_sent_is_read_or_refused_and_never_more_than_our_fields(body: Any) -> None:
    for row in read_payload(body).rows:
        inbound = read_person(row)
        assert inbound.fields.keys() <= OURS
        assert all(text.strip() for text in inbound.fields.values())
        assert len(inbound.ignored_names) <= MAX_IGNORED_NAMES
        assert inbound.error is None or inbound.fields == {}


@given(st.dictionaries(A_NAME, ANYTHING, max_size=8))
def test_whatever_a_known_name_holds_is_read_the_same_twice(row: dict[str, Any]) -> None:
    assert read_person(row) == read_person(json.loads(json.dumps(row)))


def test_a_zip_that_is_a_number_may_stand_in_the_whole_address_too() -> None:
    inbound = read_person({"full_address": "12 Main St, Austin, TX 78701", "zip": 78701})
    assert inbound.fields == {"address": "12 Main St, Austin, TX 78701"}


@given(st.permutations(sorted(PAYLOADS["Zoho contact"].body["data"][0])))
def test_the_order_of_the_fields_does_not_matter(order: list[str]) -> None:
    row = PAYLOADS["Zoho contact"].body["data"][0]
    assert read_person({name: row[name] for name in order}).fields == PAYLOADS["Zoho contact"].expected


@pytest.mark.parametrize("which", range(1, len(ADDRESS_PREFIXES)))
def test_parts_of_two_addresses_are_never_mixed(which: int) -> None:
    first, second = ADDRESS_PREFIXES[0][0], ADDRESS_PREFIXES[which][0]
    inbound = read_person({f"{second}street1": "9 Oak Ave", f"{second}zip": "75201", f"{first}city": "Austin"})
    assert inbound.fields == {"address": "9 Oak Ave", "postal_code": "75201"}


PAYER = {"first_name": "Pay", "last_name": "Er", "company": "Payers Inc"}
GIFT = {"first_name": "Gift", "last_name": "Receiver"}
THERE = {"address_1": "6 W St", "city": "Austin", "postcode": "78701"}
ELSEWHERE = {"address_1": "5 W St", "city": "Dallas", "postcode": "75201"}


@pytest.mark.parametrize(
    ("row", "name", "company", "street"),
    [
        ({"billing": PAYER | ELSEWHERE, "shipping": GIFT | THERE}, "Gift Receiver", None, "6 W St"),
        ({"billing": PAYER | ELSEWHERE, "shipping": THERE}, "Pay Er", "Payers Inc", "6 W St"),
        ({"billing": PAYER | ELSEWHERE, "shipping": GIFT}, "Pay Er", "Payers Inc", "5 W St"),
        ({"shipping_address": GIFT | THERE, "customer": PAYER}, "Gift Receiver", None, "6 W St"),
        ({"shipping_address": {"name": "Gift R"} | THERE, "customer": PAYER}, "Gift R", None, "6 W St"),
        ({**PAYER, **ELSEWHERE, "shipping": GIFT | THERE}, "Pay Er", "Payers Inc", "5 W St"),
        ({**PAYER, "default_address": THERE | {"company": "Acme"}}, "Pay Er", "Payers Inc", "6 W St"),
        ({"customData": {"name": "By Hand"}, "shipping": GIFT | THERE}, "By Hand", None, "6 W St"),
    ],
)
def test_mail_goes_to_whoever_has_a_name_at_that_address(
    row: dict[str, Any], name: str, company: str | None, street: str
) -> None:
    given = read_person(row).fields
    assert (given["name"], given.get("company"), given["address"]) == (name, company, street)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"first_name": "Jane"}, {"name": "Jane"}),
        ({"first_name": "Jane", "name": "Jane Doe"}, {"name": "Jane Doe"}),
        ({"first_name": "Jane", "last_name": "Doe", "name": "jdoe"}, {"name": "Jane Doe"}),
        ({"name": {"first": "Jane", "last": "Doe"}}, {"name": "Jane Doe"}),
        ({"contact_email": "a@b.co", "customer phone": 5}, {"email": "a@b.co", "phone": "5"}),
        ({"zip": 2134}, {"postal_code": "02134"}),
        ({"zip": 2134, "country": "Norway"}, {"postal_code": "2134", "country": "NO"}),
        ({"zip": "2134"}, {"postal_code": "2134"}),
        ({"email": ["a@b.co", "c@d.co"]}, {"email": "a@b.co"}),
        ({"email": "", "work_email": "a@b.co"}, {"email": "a@b.co"}),
        ({"phone": None, "mobile": True, "cell": "1"}, {"phone": "1"}),
        ({"custom_fields": [{"key": "custom 3", "field_value": "x"}]}, {"custom3": "x"}),
        ({"address": "12 Main St\nApt 4", "unit": "B"}, {"address": "12 Main St, Apt 4", "address2": "B"}),
        (
            {"route": "Hauptstr.", "street_number": "5", "country": "Germany"},
            {"address": "Hauptstr. 5", "country": "DE"},
        ),
        (
            {"full_address": "12 Main St", "city": "Austin", "zip": "78701"},
            {"address": "12 Main St", "city": "Austin", "postal_code": "78701"},
        ),
        ({"mailing_street": "1 A St", "country": "Canada"}, {"address": "1 A St", "country": "CA"}),
        ({"country": "Atlantis"}, {"country": "Atlantis"}),
    ],
)
def test_values_are_put_together(row: dict[str, Any], expected: dict[str, str]) -> None:
    assert read_person(row).fields == expected


@pytest.mark.parametrize(
    ("row", "is_half"),
    [
        ({"first_name": "Sho"}, True),
        ({"LNAME": "Pify"}, True),
        ({"first_name": "Sho", "last_name": " "}, True),
        ({"first_name": "Sho", "last_name": "Pify"}, False),
        ({"first_name": "Sho", "full_name": "Sho Pify"}, False),
        ({"name": "Sho"}, False),
        ({"email": "a@b.co"}, False),
    ],
)
def test_a_first_or_a_last_name_alone_is_half_a_name(row: dict[str, Any], is_half: bool) -> None:
    assert read_person(row).has_partial_name == is_half


@pytest.mark.parametrize(
    ("written", "day"),
    [
        ("1980-02-29", "1980-02-29"),
        ("02/29/1980", "02/29/1980"),
        ("1980-02-29T00:00:00.000Z", "1980-02-29"),
        ("1980-02-29 12:30", "1980-02-29"),
        (320630400000, "1980-02-29"),
        ("-86400000", "1969-12-31"),
        ("320630400001", "320630400001"),
        (0, "0"),
        ("29 Feb", "29 Feb"),
    ],
)
def test_days_are_read_where_they_are_sure(written: Any, day: str) -> None:
    assert read_person({"dob": written}).fields == {"dob": day}


@pytest.mark.parametrize("written", ["02/29", "2-29", "--02-29"])
def test_a_birthday_without_its_year_is_reported_as_ignored(written: str) -> None:
    assert read_person({"Birthday": written, "email": "a@b.co"}) == InboundPerson({"email": "a@b.co"}, ["Birthday"])


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ([], []),
        ([{"a": 1}, 2], [{"a": 1}, 2]),
        ({"recipients": [{"a": 1}]}, [{"a": 1}]),
        ({"Contacts": [{"a": 1}], "total": 1}, [{"a": 1}]),
        ({"data": []}, []),
        ({"payload": {"data": [{"a": 1}]}}, [{"a": 1}]),
        ({"recipients": [{"a": 1}], "contacts": [{"b": 1}, {"a": 1}]}, [{"a": 1}, {"b": 1}, {"a": 1}]),
        ({}, [{}]),
        ({"recipients": {"1": {"b": 1}, "0": {"a": 1}, "10": {"c": 1}}}, [{"a": 1}, {"b": 1}, {"c": 1}]),
        ({"recipients": {"email": "a@b.co"}}, [{"email": "a@b.co"}]),
        ({"people": {"a": 1}}, [{"people": {"a": 1}}]),
        ({"email": "a@b.co", "leads": []}, [{"email": "a@b.co", "leads": []}]),
        ({"email": "a@b.co", "data": [1, 2]}, [{"email": "a@b.co", "data": [1, 2]}]),
    ],
)
def test_people_are_found_in_arrays_wrappers_and_alone(body: Any, rows: list[Any]) -> None:
    assert list(read_payload(body).rows) == rows


@pytest.mark.parametrize(
    ("body", "ignored"),
    [
        ({"people": [{"a": 1}], "leads": [], "total": 1, "members": ["Jane"]}, ["total", "members"]),
        ({"people": [{"a": 1}], "email": "a@b.co", "Source": "crm"}, ["email", "Source"]),
        ({"payload": {"data": [{"a": 1}], "source": "crm"}, "at": 5}, ["payload.source", "at"]),
        ({"people": [{"a": 1}], "source": "crm", "type": "unsubscribe"}, []),
        ({"people": [{"a": 1}], "source": "form", "type": "subscribe"}, ["source", "type"]),
        ({"people": [{"a": 1}], "x" * 200: 1}, ["x" * 100]),
        ({"people": [{"a": 1}], **{f"n{n}": 1 for n in range(99)}}, [f"n{n}" for n in range(MAX_IGNORED_NAMES)]),
        ({"email": "a@b.co", "total": 1}, []),
    ],
)
def test_unused_fields_beside_the_rows_are_reported(body: Any, ignored: list[str]) -> None:
    assert list(read_payload(body).ignored_names) == ignored


@pytest.mark.parametrize("row", [None, 1, "jane@example.com", [{"email": "a@b.co"}]])
def test_a_row_that_is_no_object_is_refused(row: Any) -> None:
    assert read_person(row) == InboundPerson(error=NOT_AN_OBJECT)


@pytest.mark.parametrize("text", ["Ja\x00ne", "Ja\ud800ne"])
def test_a_text_that_cannot_be_stored_is_refused_by_its_name(text: str) -> None:
    inbound = read_person({"First Name": text})
    assert inbound.error is not None
    assert inbound.error.startswith("First Name: This text holds ")


@pytest.mark.parametrize("source", ["automation", "crm"])
def test_a_source_of_ours_is_taken_and_another_is_not(source: str) -> None:
    assert read_payload({"source": source, "email": "a@b.co"}).source == source
    assert read_person({"source": source}).ignored_names == []
    assert read_payload({"source": "landing page"}).source is None
    assert read_person({"source": "landing page"}).ignored_names == ["source"]


@pytest.mark.parametrize(
    ("body", "is_leaving"),
    [
        ({"type": "unsubscribe"}, True),
        ({"type": "cleaned"}, True),
        ({"type": "ContactDelete"}, True),
        ({"event": "deleted.person"}, True),
        ({"event": "contact.deletion"}, True),
        ({"meta": {"action": "delete"}}, True),
        ({"type": "subscribe"}, False),
        ({"type": "ContactUpdate"}, False),
        ({"meta": {"action": "change"}}, False),
        ({"name": "delete"}, False),
        ([{"type": "unsubscribe"}], False),
    ],
)
def test_an_event_of_a_person_that_left_is_recognized(body: Any, is_leaving: bool) -> None:
    assert is_leaving_event(body) == is_leaving


@pytest.mark.parametrize(
    ("row", "ignored"),
    [
        ({"type": "unsubscribe", "shoe": 44}, ["shoe"]),
        ({"meta": {"action": "delete", "id": 5}}, []),
        ({"type": "subscribe"}, ["type"]),
        ({"meta": {"action": "change"}}, ["meta"]),
        ({"data": {"type": "unsubscribe"}}, ["data.type"]),
        ({"type": ["unsubscribe"]}, ["type"]),
    ],
)
def test_fields_of_a_person_that_left_are_not_ignored(row: Any, ignored: list[str]) -> None:
    assert read_person(row).ignored_names == ignored


def test_every_country_that_has_a_name_has_its_letters() -> None:
    assert set(addresses.CODES_BY_NAME.values()) <= COUNTRY_CODES
    for name, code in {"U.S.A.": "US", "Côte d’Ivoire": "CI", "Trinidad & Tobago": "TT", "uk": "GB"}.items():
        assert country_code_by_name(name) == code
    assert country_code_by_name("de") == "de"


def test_a_name_without_end_is_no_name() -> None:
    assert find_field_meaning(normalize_name("email" * 1_000)) is None
    assert field_names.MAX_NAME_LENGTH < 1_000
