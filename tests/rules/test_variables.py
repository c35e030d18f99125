import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.composition.content import Addressee, Sender
from quillpost.composition.words.variables import KNOWN, fill, unknown_variables, values_of


def test_percentages_in_prose_are_no_variables() -> None:
    assert unknown_variables("100% of 50%, 5% off, 10% more") == []


def test_unknown_names_are_listed_in_order_and_once() -> None:
    text = "%NICKNAME% %FIRST_NAME% ~SHOE_SIZE~ %NICKNAME|pal% %first_name% %nickname%"
    assert unknown_variables(text) == ["NICKNAME", "SHOE_SIZE"]


@pytest.mark.parametrize("name", KNOWN)
def test_every_known_variable_is_accepted_and_filled(name: str) -> None:
    assert unknown_variables(f"%{name}% ~{name}~") == []
    assert fill(f"%{name}% %{name.lower()}% ~{name}~", {name: "x"}) == "x x x"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hi %FIRST_NAME%, how are you?", "Hi, how are you?"),
        ("Hi %FIRST_NAME|friend%!", "Hi friend!"),
        ("Dear %FIRST_NAME% and all", "Dear and all"),
        ("%FIRST_NAME%, hello", "hello"),
        ("See you, %FIRST_NAME%", "See you,"),
        ("%FIRST_NAME% %LAST_NAME% here", "here"),
        ("One\n%COMPANY%\nthree", "One\n\nthree"),
        ("Bye %FIRST_NAME% .", "Bye."),
    ],
)
def test_an_empty_value_leaves_no_trace(text: str, expected: str) -> None:
    assert fill(text, {"FIRST_NAME": "", "LAST_NAME": " "}) == expected


@given(st.lists(st.sampled_from(["%FIRST_NAME%", " ", "\t", ",", "!", "a", "\n"])))
def test_many_empty_values_leave_only_the_words_around_them(parts: list[str]) -> None:
    left = fill("".join(parts), {})
    assert "\0" not in left
    assert left.count("a") == parts.count("a")
    assert left.count("\n") == parts.count("\n")


def test_a_gap_costs_no_more_in_front_of_many_spaces() -> None:
    """One try for each run of spaces: a try from each space of this run would take an hour."""
    run = " " * 1_000_000
    assert fill(f"%FIRST_NAME%a{run}b %LAST_NAME%{run}c", {}) == f"a{run}b c"


def test_a_value_is_never_expanded_again() -> None:
    assert fill("%FIRST_NAME% in %CITY%", {"FIRST_NAME": "%CITY%", "CITY": "Rome"}) == ("%CITY% in Rome")


def test_a_percent_sign_before_a_variable_does_not_hide_it() -> None:
    assert fill("100%OFF%CITY%", {"CITY": "Rome"}) == "100%OFFRome"


@given(st.text(alphabet=st.characters(blacklist_characters="%~\0")))
def test_text_without_variables_stays_as_it_is(text: str) -> None:
    assert fill(text, {"CITY": "Rome"}) == text


@pytest.mark.parametrize(
    ("typed", "first", "last", "full"),
    [
        ("JANE DOE", "Jane", "Doe", "Jane Doe"),
        ("jane o'brien", "Jane", "O'Brien", "Jane O'Brien"),
        ("RONALD MCDONALD", "Ronald", "McDonald", "Ronald McDonald"),
        ("Ronald McDonald", "Ronald", "McDonald", "Ronald McDonald"),
        ("Dr. José García Jr.", "José", "García", "Dr. José García Jr."),
        ("李", "李", "", "李"),
        ("Smith, Anna", "Anna", "Smith", "Anna Smith"),
        ("JOHN DOE, JR.", "John", "Doe", "John Doe, Jr."),
        ("maria de la cruz", "Maria", "de la Cruz", "Maria de la Cruz"),
        ("John & Jane Doe", "John & Jane", "Doe", "John & Jane Doe"),
        ("anne-marie  smith", "Anne-Marie", "Smith", "Anne-Marie Smith"),
        ("The Smith Family", "", "", "The Smith Family"),
        ("Current Resident", "", "", "Current Resident"),
        ("", "", "", ""),
    ],
)
def test_names_are_found_as_a_letter_would_use_them(typed: str, first: str, last: str, full: str) -> None:
    values = values_of(Addressee(name=typed), Sender())
    assert (values["FIRST_NAME"], values["LAST_NAME"], values["FULL_NAME"]) == (first, last, full)


@given(st.text())
def test_any_name_gives_a_first_name_that_is_part_of_it(typed: str) -> None:
    values = values_of(Addressee(name=typed), Sender())
    assert all(word in values["NAME"] for word in values["FIRST_NAME"].split())


def test_every_known_variable_has_a_value() -> None:
    nobody = values_of(Addressee(), Sender())
    assert set(nobody) == set(KNOWN)
    assert set(nobody.values()) == {""}


def test_state_and_zip_are_other_words_for_province_and_postal_code() -> None:
    values = values_of(
        Addressee(province="TX", postal_code="78701", custom=("a", *(None,) * 8, "j")),
        Sender(name="Dana", company="Maple"),
    )
    assert values["STATE"] == values["PROVINCE"] == "TX"
    assert values["ZIP"] == values["POSTAL_CODE"] == "78701"
    assert (values["CUSTOM1"], values["CUSTOM10"]) == ("a", "j")
    assert (values["YOUR_NAME"], values["YOUR_COMPANY"]) == ("Dana", "Maple")
