"""Who a mailing goes to, and who of them is refused."""

from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.core.errors import Invalid
from quillpost.recipients import rules
from quillpost.recipients.addresses.cities import STATE_CODES, find_state_code
from quillpost.recipients.addresses.text import STATE_CODES_BY_NAME
from quillpost.recipients.models import CUSTOM_FIELDS, Person
from support.factories import person

DOUBLE = "Another recipient of this order has the same address."
HOME = ("Austin", "TX", "78701")


def one(**changes: Any) -> Person:
    [found] = rules.validate_recipients([person(**changes)])
    return found


def errors_of(*rows: dict[str, Any]) -> dict[str, list[str]]:
    with pytest.raises(Invalid) as refused:
        rules.validate_recipients(rows)
    return refused.value.fields


def refusals(*rows: dict[str, Any]) -> list[str | None]:
    return [found.refusal for found in rules.validate_recipients(rows)]


# Addresses

LINES = {
    "12 Main St, Austin, TX 78701": ("12 Main St", *HOME),
    "12 Main St, Austin TX 78701": ("12 Main St", *HOME),
    "12 Main St,Austin,  tx, 78701": ("12 Main St", *HOME),
    "12 Main St, Apt 4, Austin, TX 78701": ("12 Main St, Apt 4", *HOME),
    "12 Main St, Austin, Texas 78701-1234": ("12 Main St", "Austin", "TX", "78701-1234"),
    "12 Main St, Austin, TX 787011234, USA": ("12 Main St", "Austin", "TX", "78701-1234"),
    "1 Elm Rd, St. Paul, Minnesota 55101, United States": ("1 Elm Rd", "St. Paul", "MN", "55101"),
    "9 Oak Ave, Salt Lake City, UT 84101": ("9 Oak Ave", "Salt Lake City", "UT", "84101"),
    "1 Kanawha Blvd, Charleston, West Virginia 25301": ("1 Kanawha Blvd", "Charleston", "WV", "25301"),
    "5 Fifth Ave, New York, New York 10001": ("5 Fifth Ave", "New York", "NY", "10001"),
    "5 Fifth Ave, New York NY 10001": ("5 Fifth Ave", "New York", "NY", "10001"),
    "2 Palace Ave, Santa Fe, New Mexico 87501": ("2 Palace Ave", "Santa Fe", "NM", "87501"),
    "9 K St NW, Washington, D.C. 20001": ("9 K St NW", "Washington", "DC", "20001"),
    "7 Chestnut St, Virginia, Minnesota 55792": ("7 Chestnut St", "Virginia", "MN", "55792"),
}
NOT_WHOLE = (
    *("12 Main St", "12 Main St, Austin, XX 78701", "12 Main St, Austin, TX 7870"),
    *("12 Main St, West Virginia 25301", "12 Main St, Apt 4, TX 78701", "12 Main St, , TX 78701"),
)


def test_an_address_on_one_line_is_taken_apart(subtests: pytest.Subtests) -> None:
    for line, place in LINES.items():
        with subtests.test(line):
            [found] = rules.validate_recipients([{"name": "Jane", "address": line}])
            assert (found.address, found.city, found.province, found.postal_code) == place
            assert found.refusal is None
    line = "12 Main St, Austin, TX 78701"
    assert one(address=line, city="Dallas").address == line, "parts that are given win"
    for line in NOT_WHOLE:
        with subtests.test(line):
            found_errors = errors_of({"address": line})
            assert set(found_errors) == {"recipients.0.city", "recipients.0.province", "recipients.0.postal_code"}
            assert "12 Main St, Austin, TX 78701" in found_errors["recipients.0.city"][0]


def test_states_and_fields_are_kept_in_their_usual_form() -> None:
    for name, letters in STATE_CODES_BY_NAME.items():
        assert find_state_code(name.title()) == find_state_code(letters) == letters
        assert letters in STATE_CODES
    assert (find_state_code("D.C."), find_state_code("new   york")) == ("DC", "NY")
    assert {one(province=text).province for text in ("TX", "tx", "Texas", "TEXAS", " texas ")} == {"TX"}
    for given_code, kept in (("78701", "78701"), ("78701-1234", "78701-1234"), ("787011234", "78701-1234")):
        assert one(postal_code=given_code).postal_code == kept
    for day in ("1980-02-29", "02/29/1980", " 1980-02-29 "):
        assert (one(dob=day, anniversary=day).dob, one(anniversary=day).anniversary) == (date(1980, 2, 29),) * 2
    assert [one(dob=nothing).dob for nothing in ("", "  ", None)] == [None] * 3
    home = (None, "", "us", "USA", "U.S.", "u.s.a.", "United States")
    assert {one(country=text).country for text in home} == {"US"}
    ottawa = one(country="ca", province="Ontario", postal_code="K1A 0B1", city="Ottawa")
    assert (ottawa.country, ottawa.province, ottawa.postal_code) == ("CA", "Ontario", "K1A 0B1")
    assert one(**{name: name.upper() for name in CUSTOM_FIELDS}).custom == tuple(name.upper() for name in CUSTOM_FIELDS)
    assert one(name="x" * rules.MAX_FIELD_LENGTH).name == "x" * rules.MAX_FIELD_LENGTH


REFUSALS: dict[str, tuple[str, tuple[str, ...]]] = {
    "province": ("This is not a state of the US; use two letters.", ("Bavaria", "ZZ", "T", "T€")),
    "postal_code": (
        "A ZIP code has 5 digits, or 5-4.", ("7870", "787012", "78701-12", "ABCDE", "٧٨٧٠١", "78701 1234"),
    ),
    "anniversary": ("it must exist", ("1981-02-29", "2000-13-01", "31/12/1999", "yesterday", "1980-02-29T00:00")),
    "email": (
        "This is not an e-mail address.", ("jane", "jane@", "@example.com", "jane@example", "a b@example.com"),
    ),
    "country": ("", ("Atlantis", "C", "C1", "ATL", "XX")),
    "custom3": (f"At most {rules.MAX_FIELD_LENGTH} characters, please.", ("x" * (rules.MAX_FIELD_LENGTH + 1),)),
}  # fmt: skip


def test_what_is_no_such_thing_is_refused_by_its_field(subtests: pytest.Subtests) -> None:
    for field, (reason, texts) in REFUSALS.items():
        for text in texts:
            with subtests.test(field=field, text=text[:30]):
                [(named, [error])] = errors_of(person(city="Nowhere", **{field: text})).items()
                assert named == f"recipients.0.{field}"
                assert reason in error
    found = errors_of(person(postal_code="1", province="??"), person(), {"name": "Jane"}, {"address": "  "})
    places = ("0.postal_code", "0.province", "2.address", "3.address")
    assert set(found) == {f"recipients.{place}" for place in places}
    assert found["recipients.3.address"] == ["Give an address, or at least an email."]
    assert refusals({"address": "1 Rue X", "city": "Paris", "country": "FR"}) == [None]
    apart = "Outside the US and Canada give city and postal_code apart."
    assert errors_of({"address": "1 Rue X", "country": "FR"}) == {"recipients.0.city": [apart]}


# Doubles


def test_another_spelling_of_an_address_is_a_double_and_another_address_none() -> None:
    spellings: list[dict[str, str]] = [
        {"address": "12 MAIN ST"}, {"address": "12  Main St."}, {"address": "12 Main St,"}, {"province": "Texas"},
        {"postal_code": "78701-1234"}, {"postal_code": "787019999"}, {"name": "Mr. J. Doe"}, {"country": "usa"},
    ]  # fmt: skip
    for spelling in spellings:
        assert refusals(person(), person(**spelling)) == [None, DOUBLE], spelling
    on_one_line = {"name": person()["name"], "address": "12 main st, Austin, TX 78701-0001"}
    assert refusals(person(), on_one_line) == [None, DOUBLE]
    assert refusals(person(), person(), person(address="9 Elm St"), person()) == [None, DOUBLE, None, DOUBLE]
    pairs: list[tuple[dict[str, str], dict[str, str]]] = [
        ({}, {"address": "13 Main St"}), ({}, {"address2": "Apt 2"}), ({}, {"postal_code": "78702"}),
        ({"address": "1 22nd St"}, {"address": "12 2nd St"}), ({"address": "1-22 Elm St"}, {"address": "12/2 Elm St"}),
        ({"address2": "Bldg 1 12"}, {"address2": "Bldg 11 2"}),
        ({"address": "12 ถนนดี", "country": "TH"}, {"address": "12 ถนนดุ", "country": "TH"}),
        ({"address": "12 गली", "country": "IN"}, {"address": "12 गला", "country": "IN"}),
    ]  # fmt: skip
    for here, there in pairs:
        assert refusals(person(**here), person(**there)) == [None, None], (here, there)


def test_whom_a_name_or_an_e_mail_may_bar_alone_is_no_sure_double() -> None:
    """Whether the first is mailed is known once suppressions are: where not, the address is the next one's."""
    assert refusals(person(), person(name="Somebody Else"), person()) == [None, None, DOUBLE]
    emails: dict[tuple[str | None, ...], list[str | None]] = {
        (None, "b@x.org"): [None, DOUBLE], ("a@x.org", "a@x.org"): [None, DOUBLE], ("a@x.org", None): [None, None],
        ("a@x.org", "b@x.org", "a@x.org"): [None, None, DOUBLE],
    }  # fmt: skip
    assert {given: refusals(*(person(email=email) for email in given)) for given in emails} == emails
    alone = {"email": "jane@example.com"}
    assert refusals(alone, alone) == ["There is no mailing address, only an e-mail."] * 2


@given(
    rows=st.lists(st.dictionaries(st.sampled_from(["name", "address", "city", "country", "dob", "email"]), st.text()))
)
def test_anything_is_either_examined_or_refused_with_its_place(rows: list[dict[str, str]]) -> None:
    named: set[int] = set()
    try:
        spoken_for = len(rules.validate_recipients(rows))
    except Invalid as refused:
        named = {int(field.split(".")[1]) for field in refused.fields}
        spoken_for = len(rows)
    assert spoken_for == len(rows)
    assert named <= set(range(len(rows)))


# Someone alone


def test_someone_alone_is_faulted_by_the_names_of_the_fields_and_written_as_given() -> None:
    with pytest.raises(Invalid) as wrong:
        rules.validate_recipient(person(postal_code="1", dob="02/30/1980"))
    assert set(wrong.value.fields) == {"postal_code", "dob"}
    assert rules.validate_recipient({"email": "jane@example.com"}).refusal is None
    found, errors = rules.check_recipient(person(city=None))
    assert (found.address, list(errors)) == ("12 Main St", ["city"])
    whole = person(dob="1980-02-29", custom10="ten", email="jane@example.com", country="US")
    kept = rules.person_to_fields(one(**whole))
    assert {name: text for name, text in kept.items() if text is not None} == whole
    assert rules.validate_recipient(kept) == one(**whole)


DALLAS = "9 Oak Ave, Dallas, TX 75201"
CHANGES: list[tuple[dict[str, Any], tuple[str | None, ...]]] = [
    ({"name": "Joe"}, ("12 Main St", "Apt 4", *HOME)),
    ({"address": "9 Oak Ave"}, ("9 Oak Ave", "Apt 4", *HOME)),
    ({"address": DALLAS}, ("9 Oak Ave", None, "Dallas", "TX", "75201")),
    ({"address": DALLAS, "address2": "Apt 9", "city": None}, ("9 Oak Ave", "Apt 9", "Dallas", "TX", "75201")),
    (
        {"address": "9 Oak Ave, Waco, TX 76701", "city": "Dallas"},
        ("9 Oak Ave, Waco, TX 76701", "Apt 4", "Dallas", "TX", "78701"),
    ),
    ({"address2": None, "province": "Texas"}, ("12 Main St", None, *HOME)),
]


def test_a_change_keeps_what_it_does_not_name_but_a_whole_address_replaces_one_abroad() -> None:
    for changes, place in CHANGES:
        found = rules.apply_changes(one(address2="Apt 4"), changes)
        assert (found.address, found.address2, found.city, found.province, found.postal_code) == place
        assert found.address_key == rules.validate_recipient(rules.person_to_fields(found)).address_key
    with pytest.raises(Invalid):
        rules.apply_changes(one(), {"address": None})
    assert rules.apply_changes(one(email="jane@example.com"), {"address": None}).address_key is None
    abroad = one(country="CA", province="ON", postal_code="K1A 0B1", city="Ottawa", address2="Apt 5")
    at_home = rules.validate_recipient(person(address="9 Oak Ave", city="Dallas", postal_code="75201"))
    countries: list[dict[str, Any]] = [{}, {"country": None}, {"country": " usa "}]
    for country in countries:
        assert rules.apply_changes(abroad, {"address": DALLAS} | country) == at_home
    found = rules.apply_changes(one(), {"address": DALLAS, "country": "CA"})
    assert (found.address, found.city, found.country) == (DALLAS, "Austin", "CA"), "it is not taken apart"
