"""Who a mailing goes to."""

from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.core.errors import Invalid
from quillpost.recipients.addresses.cities import STATE_CODES, find_state_code
from quillpost.recipients.addresses.text import STATE_CODES_BY_NAME
from quillpost.recipients.models import CUSTOM_FIELDS, Person
from quillpost.recipients.rules import (
    MAX_FIELD_LENGTH,
    apply_changes,
    check_recipient,
    person_to_fields,
    validate_recipient,
    validate_recipients,
)
from support.factories import person

DOUBLE = "Another recipient of this order has the same address."


def one(**changes: Any) -> Person:
    [found] = validate_recipients([person(**changes)])
    return found


def errors_of(*rows: dict[str, Any]) -> dict[str, list[str]]:
    with pytest.raises(Invalid) as refused:
        validate_recipients(rows)
    return refused.value.fields


def refusals(*rows: dict[str, Any]) -> list[str | None]:
    return [found.refusal for found in validate_recipients(rows)]


@pytest.mark.parametrize(
    ("line", "street", "city", "state", "code"),
    [
        ("12 Main St, Austin, TX 78701", "12 Main St", "Austin", "TX", "78701"),
        ("12 Main St, Austin TX 78701", "12 Main St", "Austin", "TX", "78701"),
        ("12 Main St,Austin,  tx, 78701", "12 Main St", "Austin", "TX", "78701"),
        ("12 Main St, Apt 4, Austin, TX 78701", "12 Main St, Apt 4", "Austin", "TX", "78701"),
        ("12 Main St, Austin, Texas 78701-1234", "12 Main St", "Austin", "TX", "78701-1234"),
        ("12 Main St, Austin, TX 787011234, USA", "12 Main St", "Austin", "TX", "78701-1234"),
        ("1 Elm Rd, St. Paul, Minnesota 55101, United States", "1 Elm Rd", "St. Paul", "MN", "55101"),
        ("9 Oak Ave, Salt Lake City, UT 84101", "9 Oak Ave", "Salt Lake City", "UT", "84101"),
        ("1 Kanawha Blvd, Charleston, West Virginia 25301", "1 Kanawha Blvd", "Charleston", "WV", "25301"),
        ("5 Fifth Ave, New York, New York 10001", "5 Fifth Ave", "New York", "NY", "10001"),
        ("5 Fifth Ave, New York NY 10001", "5 Fifth Ave", "New York", "NY", "10001"),
        ("2 Palace Ave, Santa Fe, New Mexico 87501", "2 Palace Ave", "Santa Fe", "NM", "87501"),
        ("9 K St NW, Washington, D.C. 20001", "9 K St NW", "Washington", "DC", "20001"),
        ("7 Chestnut St, Virginia, Minnesota 55792", "7 Chestnut St", "Virginia", "MN", "55792"),
    ],
)
def test_an_address_on_one_line_is_taken_apart(line: str, street: str, city: str, state: str, code: str) -> None:
    [found] = validate_recipients([{"name": "Jane", "address": line}])
    assert (found.address, found.city, found.province, found.postal_code) == (street, city, state, code)
    assert found.refusal is None


def test_parts_that_are_given_win_over_the_line() -> None:
    line = "12 Main St, Austin, TX 78701"
    assert one(address=line, city="Dallas").address == line


@pytest.mark.parametrize(
    "line",
    [
        "12 Main St",
        "12 Main St, Austin, XX 78701",
        "12 Main St, Austin, TX 7870",
        "12 Main St, West Virginia 25301",
        "12 Main St, Apt 4, TX 78701",
        "12 Main St, , TX 78701",
    ],
)
def test_a_line_that_is_no_whole_address_asks_for_what_is_missing(line: str) -> None:
    found = errors_of({"address": line})
    assert set(found) == {"recipients.0.city", "recipients.0.province", "recipients.0.postal_code"}
    assert "12 Main St, Austin, TX 78701" in found["recipients.0.city"][0]


@pytest.mark.parametrize("text", ["TX", "tx", "Texas", "TEXAS", " texas "])
def test_a_state_may_be_written_out(text: str) -> None:
    assert one(province=text).province == "TX"


@pytest.mark.parametrize("name", sorted(STATE_CODES_BY_NAME))
def test_every_state_is_known_by_name_and_letters(name: str) -> None:
    assert find_state_code(name.title()) == find_state_code(STATE_CODES_BY_NAME[name]) == STATE_CODES_BY_NAME[name]
    assert STATE_CODES_BY_NAME[name] in STATE_CODES


def test_points_and_spaces_do_not_hide_a_state() -> None:
    assert (find_state_code("D.C."), find_state_code("new   york")) == ("DC", "NY")


@pytest.mark.parametrize("text", ["Bavaria", "ZZ", "T", "T€"])
def test_what_is_no_state_is_refused(text: str) -> None:
    assert errors_of(person(province=text)) == {
        "recipients.0.province": ["This is not a state of the US; use two letters."]
    }


@pytest.mark.parametrize(
    ("given", "kept"), [("78701", "78701"), ("78701-1234", "78701-1234"), ("787011234", "78701-1234")]
)
def test_a_zip_code_is_kept_in_its_usual_form(given: str, kept: str) -> None:
    assert one(postal_code=given).postal_code == kept


@pytest.mark.parametrize("text", ["7870", "787012", "78701-12", "ABCDE", "٧٨٧٠١", "78701 1234"])
def test_what_is_no_zip_code_is_refused(text: str) -> None:
    assert errors_of(person(postal_code=text)) == {"recipients.0.postal_code": ["A ZIP code has 5 digits, or 5-4."]}


@pytest.mark.parametrize("text", ["1980-02-29", "02/29/1980", " 1980-02-29 "])
def test_a_day_may_be_written_both_ways(text: str) -> None:
    assert one(dob=text, anniversary=text).dob == date(1980, 2, 29)


@pytest.mark.parametrize("text", ["", "  ", None])
def test_a_missing_date_is_accepted(text: str | None) -> None:
    assert one(dob=text).dob is None


@pytest.mark.parametrize("text", ["1981-02-29", "2000-13-01", "31/12/1999", "yesterday", "1980-02-29T00:00"])
def test_a_day_that_does_not_exist_is_refused(text: str) -> None:
    [(field, reasons)] = errors_of(person(anniversary=text)).items()
    assert field == "recipients.0.anniversary"
    assert "it must exist" in reasons[0]


@pytest.mark.parametrize(
    "spelling",
    [
        {"address": "12 MAIN ST"},
        {"address": "12  Main St."},
        {"address": "12 Main St,"},
        {"postal_code": "78701-1234"},
        {"postal_code": "787019999"},
        {"name": "Mr. J. Doe"},
        {"province": "Texas"},
        {"country": "usa"},
    ],
)
def test_another_spelling_of_an_address_is_a_double(spelling: dict[str, str]) -> None:
    assert refusals(person(), person(**spelling)) == [None, DOUBLE]


def test_a_double_on_one_line_is_a_double() -> None:
    on_one_line = {"name": person()["name"], "address": "12 main st, Austin, TX 78701-0001"}
    assert refusals(person(), on_one_line) == [None, DOUBLE]


def test_another_family_at_an_address_is_checked_after_suppression() -> None:
    """A suppression list may bar the first of them alone; who is left is a double then, or is mailed."""
    assert refusals(person(), person(name="Somebody Else"), person()) == [None, None, DOUBLE]


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ({}, {"address": "13 Main St"}),
        ({}, {"address2": "Apt 2"}),
        ({}, {"postal_code": "78702"}),
        ({"address": "1 22nd St"}, {"address": "12 2nd St"}),
        ({"address": "1-22 Elm St"}, {"address": "12/2 Elm St"}),
        ({"address2": "Bldg 1 12"}, {"address2": "Bldg 11 2"}),
        ({"address": "12 ถนนดี", "country": "TH"}, {"address": "12 ถนนดุ", "country": "TH"}),
        ({"address": "12 गली", "country": "IN"}, {"address": "12 गला", "country": "IN"}),
    ],
)
def test_another_address_is_no_duplicate(here: dict[str, str], there: dict[str, str]) -> None:
    assert refusals(person(**here), person(**there)) == [None, None]


@pytest.mark.parametrize(
    ("emails", "expected"),
    [
        ((None, "b@x.org"), [None, DOUBLE]),
        (("a@x.org", "a@x.org"), [None, DOUBLE]),
        (("a@x.org", None), [None, None]),
        (("a@x.org", "b@x.org", "a@x.org"), [None, None, DOUBLE]),
    ],
)
def test_whom_an_e_mail_may_bar_alone_is_no_sure_double(
    emails: tuple[str | None, ...], expected: list[str | None]
) -> None:
    """Whether the first is mailed is known later: where not, the address is the next one's."""
    assert refusals(*(person(email=email) for email in emails)) == expected


def test_every_double_is_refused_and_none_is_lost() -> None:
    assert refusals(person(), person(), person(address="9 Elm St"), person()) == [None, DOUBLE, None, DOUBLE]


def test_an_email_without_an_address_is_an_item_and_no_error() -> None:
    assert (
        refusals({"email": "jane@example.com"}, {"email": "jane@example.com"})
        == ["There is no mailing address, only an e-mail."] * 2
    )


def test_neither_address_nor_email_is_an_error() -> None:
    assert errors_of({"name": "Jane"}, {"address": "  "}) == {
        "recipients.0.address": ["Give an address, or at least an email."],
        "recipients.1.address": ["Give an address, or at least an email."],
    }


@pytest.mark.parametrize("text", ["jane", "jane@", "@example.com", "jane@example", "a b@example.com"])
def test_what_is_no_email_is_refused(text: str) -> None:
    assert errors_of(person(email=text)) == {"recipients.0.email": ["This is not an e-mail address."]}


@pytest.mark.parametrize("text", [None, "", "us", "USA", "U.S.", "u.s.a.", "United States"])
def test_the_home_country_has_many_names(text: str | None) -> None:
    assert one(country=text).country == "US"


def test_another_country_has_its_own_provinces_and_codes() -> None:
    found = one(country="ca", province="Ontario", postal_code="K1A 0B1", city="Ottawa")
    assert (found.country, found.province, found.postal_code) == ("CA", "Ontario", "K1A 0B1")


def test_abroad_only_a_city_is_needed() -> None:
    assert refusals({"address": "1 Rue X", "city": "Paris", "country": "FR"}) == [None]
    assert errors_of({"address": "1 Rue X", "country": "FR"}) == {
        "recipients.0.city": ["Outside the US and Canada give city and postal_code apart."]
    }


@pytest.mark.parametrize("text", ["Atlantis", "C", "C1", "ATL"])
def test_a_country_is_two_letters_or_a_name(text: str) -> None:
    assert "recipients.0.country" in errors_of(person(country=text))


def test_every_error_of_every_recipient_is_named_at_once() -> None:
    found = errors_of(person(postal_code="1", province="??"), person(), {"name": "Jane"})
    assert set(found) == {
        "recipients.0.postal_code", "recipients.0.province", "recipients.2.address",
    }  # fmt: skip


def test_a_text_has_its_longest() -> None:
    assert one(name="x" * MAX_FIELD_LENGTH).name == "x" * MAX_FIELD_LENGTH
    assert errors_of(person(custom3="x" * (MAX_FIELD_LENGTH + 1))) == {
        "recipients.0.custom3": [f"At most {MAX_FIELD_LENGTH} characters, please."]
    }


def test_all_ten_custom_fields_are_kept_in_their_order() -> None:
    assert one(**{name: name.upper() for name in CUSTOM_FIELDS}).custom == tuple(name.upper() for name in CUSTOM_FIELDS)


@given(
    rows=st.lists(st.dictionaries(st.sampled_from(["name", "address", "city", "country", "dob", "email"]), st.text()))
)
def test_anything_is_either_examined_or_refused_with_its_place(rows: list[dict[str, str]]) -> None:
    named: set[int] = set()
    try:
        spoken_for = len(validate_recipients(rows))
    except Invalid as refused:
        named = {int(field.split(".")[1]) for field in refused.fields}
        spoken_for = len(rows)
    assert spoken_for == len(rows)
    assert named <= set(range(len(rows)))


def test_a_country_that_does_not_exist_is_refused() -> None:
    with pytest.raises(Invalid) as wrong:
        validate_recipients([{"name": "Jane", "address": "1 Main St", "city": "Nowhere", "country": "XX"}])
    assert set(wrong.value.fields) == {"recipients.0.country"}


def test_someone_alone_is_faulted_by_the_names_of_the_fields() -> None:
    with pytest.raises(Invalid) as wrong:
        validate_recipient(person(postal_code="1", dob="02/30/1980"))
    assert set(wrong.value.fields) == {"postal_code", "dob"}
    assert validate_recipient({"email": "jane@example.com"}).refusal is None
    found, errors = check_recipient(person(city=None))
    assert (found.address, list(errors)) == ("12 Main St", ["city"])


def test_a_person_is_written_as_it_was_given() -> None:
    given = person(dob="1980-02-29", custom10="ten", email="jane@example.com", country="US")
    kept = person_to_fields(one(**given))
    assert {name: text for name, text in kept.items() if text is not None} == given
    assert validate_recipient(kept) == one(**given)


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"name": "Joe"}, ("12 Main St", "Apt 4", "Austin", "TX", "78701")),
        ({"address": "9 Oak Ave"}, ("9 Oak Ave", "Apt 4", "Austin", "TX", "78701")),
        ({"address": "9 Oak Ave, Dallas, TX 75201"}, ("9 Oak Ave", None, "Dallas", "TX", "75201")),
        (
            {"address": "9 Oak Ave, Dallas, TX 75201", "address2": "Apt 9", "city": None},
            ("9 Oak Ave", "Apt 9", "Dallas", "TX", "75201"),
        ),
        (
            {"address": "9 Oak Ave, Waco, TX 76701", "city": "Dallas"},
            ("9 Oak Ave, Waco, TX 76701", "Apt 4", "Dallas", "TX", "78701"),
        ),
        ({"address2": None, "province": "Texas"}, ("12 Main St", None, "Austin", "TX", "78701")),
    ],
)
def test_a_change_keeps_what_it_does_not_name(given: dict[str, Any], place: tuple[str, ...]) -> None:
    found = apply_changes(one(address2="Apt 4"), given)
    assert (found.address, found.address2, found.city, found.province, found.postal_code) == place
    assert found.address_key == validate_recipient(person_to_fields(found)).address_key


@pytest.mark.parametrize("country", [{}, {"country": None}, {"country": " usa "}])
def test_a_whole_address_at_home_replaces_one_abroad(country: dict[str, Any]) -> None:
    abroad = one(country="CA", province="ON", postal_code="K1A 0B1", city="Ottawa", address2="Apt 5")
    found = apply_changes(abroad, {"address": "9 Oak Ave, Dallas, TX 75201"} | country)
    assert found == validate_recipient(person(address="9 Oak Ave", city="Dallas", postal_code="75201"))


def test_a_line_beside_another_country_is_not_taken_apart() -> None:
    line = "9 Oak Ave, Dallas, TX 75201"
    found = apply_changes(one(), {"address": line, "country": "CA"})
    assert (found.address, found.city, found.country) == (line, "Austin", "CA")


def test_a_change_that_leaves_nothing_to_reach_is_refused() -> None:
    with pytest.raises(Invalid):
        apply_changes(one(), {"address": None})
    assert apply_changes(one(email="jane@example.com"), {"address": None}).address_key is None
