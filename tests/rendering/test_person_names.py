from dataclasses import astuple
from unicodedata import is_normalized, normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quillpost.rendering.text import names
from quillpost.rendering.text.variables import to_one_line

letters = st.characters(codec=None, exclude_categories=())


def parse_name(typed: str | None) -> names.PersonName:
    return names.parse_name(to_one_line(typed))


@pytest.mark.parametrize(
    ("typed", "first", "last", "full"),
    [
        ("JANE DOE", "Jane", "Doe", "Jane Doe"),
        ("jane doe", "Jane", "Doe", "Jane Doe"),
        ("Jane DOE", "Jane", "Doe", "Jane Doe"),
        ("jane Doe", "Jane", "Doe", "Jane Doe"),
        ('"JANE DOE"', "Jane", "Doe", "Jane Doe"),
        ("Mary Ann Smith", "Mary", "Smith", "Mary Ann Smith"),
        ("Smith", "Smith", "", "Smith"),
        ("Dr. José García Jr.", "José", "García", "Dr. José García Jr."),
        ("JANE DOE MD", "Jane", "Doe", "Jane Doe MD"),
        ("JANE DOE PH.D.", "Jane", "Doe", "Jane Doe Ph.D."),
        ("JOHN SMITH III", "John", "Smith", "John Smith III"),
        ("Robert (Bob) SMITH", "Robert", "Smith", "Robert (Bob) Smith"),
        ("JANE DOE OR CURRENT RESIDENT", "Jane", "Doe", "Jane Doe"),
    ],
)
def test_names_are_found_as_a_letter_would_use_them(typed: str, first: str, last: str, full: str) -> None:
    assert astuple(parse_name(typed)) == (full, first, last)


@pytest.mark.parametrize(
    ("typed", "full"),
    [
        ("jane o'brien", "Jane O'Brien"),
        ("JANE O’BRIEN", "Jane O’Brien"),
        ("JANE O`BRIEN", "Jane O'Brien"),
        ("D'ANGELO BROWN", "D'Angelo Brown"),
        ("ANNA DELL'ACQUA", "Anna Dell'Acqua"),
        ("JEAN-LUC PICARD", "Jean-Luc Picard"),
        ("anne-marie  smith", "Anne-Marie Smith"),
        ("RONALD MCDONALD", "Ronald McDonald"),
        ("ronald mcdonald", "Ronald McDonald"),
        ("Ronald McDonald", "Ronald McDonald"),
        ("FLORA MACDONALD", "Flora Macdonald"),
        ("maria de la cruz", "Maria de la Cruz"),
        ("JAN VAN DER BERG", "Jan van der Berg"),
        ("Vincent van Gogh", "Vincent van Gogh"),
        ("TJ SMITH", "TJ Smith"),
        ("NG WEI", "Ng Wei"),
        ("e.e. cummings", "E.E. Cummings"),
        ("JOHN E SMITH", "John E Smith"),
        ("İBRAHİM DEMİR", "İbrahim Demir"),
        ("ΟΔΥΣΣΕΥΣ", "Οδυσσευς"),
        ("ACME HOLDINGS LLC", "Acme Holdings LLC"),
        ("MR & MRS JOHN SMITH", "Mr & Mrs John Smith"),
    ],
)
def test_capitals_are_set_where_the_typist_did_not_care(typed: str, full: str) -> None:
    assert parse_name(typed).full == full


@pytest.mark.parametrize(
    ("typed", "first", "last"),
    [
        ("Smith, Anna", "Anna", "Smith"),
        ("SMITH, JOHN & JANE", "John & Jane", "Smith"),
        ("Smith, Anna, PhD", "Anna", "Smith"),
        ("JOHN DOE, JR.", "John", "Doe"),
        ("Doe Jr., John", "John", "Doe"),
    ],
)
def test_a_comma_turns_a_name_round_unless_a_suffix_follows(typed: str, first: str, last: str) -> None:
    found = parse_name(typed)
    assert (found.first, found.last) == (first, last)


@pytest.mark.parametrize(
    ("typed", "first", "last"),
    [
        ("John & Jane Doe", "John & Jane", "Doe"),
        ("John and Jane", "John and Jane", ""),
        ("John Smith & Jane Doe", "John & Jane", "Smith & Doe"),
        ("John Smith & Jane Smith", "John & Jane", "Smith"),
        ("Juan y Maria Lopez", "Juan y Maria", "Lopez"),
        ("José Ortega y Gasset", "José", "Ortega y Gasset"),
        ("MR & MRS JOHN SMITH", "John", "Smith"),
        ("Mr. John and Mrs. Jane Smith", "John and Jane", "Smith"),
        ("MR. AND MRS. SMITH", "", "Smith"),
        ("John Smith and family", "John", "Smith"),
    ],
)
def test_couples_are_greeted_together(typed: str, first: str, last: str) -> None:
    found = parse_name(typed)
    assert (found.first, found.last) == (first, last)


@pytest.mark.parametrize(
    ("typed", "first", "last"),
    [
        ("van der Berg", "", "van der Berg"),
        ("VAN DER BERG", "", "Van der Berg"),
        ("de Gaulle", "", "de Gaulle"),
        ("Van Morrison", "Van", "Morrison"),
        ("Della Reese", "Della", "Reese"),
        ("Mr. Smith", "", "Smith"),
        ("Sir Elton", "Elton", ""),
    ],
)
def test_a_surname_alone_gives_no_first_name(typed: str, first: str, last: str) -> None:
    found = parse_name(typed)
    assert (found.first, found.last) == (first, last)


@pytest.mark.parametrize(
    ("typed", "first", "last"),
    [
        ("J. R. SMITH", "J. R.", "Smith"),
        ("T.J. Smith", "T.J.", "Smith"),
        ("F. SCOTT FITZGERALD", "Scott", "Fitzgerald"),
        ("J SMITH", "", "Smith"),
        ("J.", "", ""),
    ],
)
def test_one_initial_is_nothing_to_greet_by(typed: str, first: str, last: str) -> None:
    found = parse_name(typed)
    assert (found.first, found.last) == (first, last)


@pytest.mark.parametrize(
    ("typed", "first", "last"),
    [
        ("李", "李", ""),
        ("李小龙", "李小龙", ""),
        ("李 小龙", "小龙", "李"),
        ("김 철수", "철수", "김"),
        ("山田　太郎", "太郎", "山田"),
        ("Bruce 李", "Bruce", "李"),
    ],
)
def test_the_family_comes_first_where_it_does_in_the_language(typed: str, first: str, last: str) -> None:
    found = parse_name(typed)
    assert (found.first, found.last) == (first, last)


@pytest.mark.parametrize(
    "typed",
    [
        *("The Smith Family", "Current Resident", "SMITH FAMILY TRUST", "Acme, Inc.", "Acme Holdings LLC"),
        *("Estate of John Smith", "Our Neighbors", "user123"),
    ],
)
def test_households_and_firms_have_no_first_name(typed: str) -> None:
    found = parse_name(typed)
    assert (found.first, found.last) == ("", "")
    assert found.full.lower() == typed.lower()


@pytest.mark.parametrize(
    "typed", [None, "", " \t", "jane.doe@example.com", "12345", "n/a", "NULL", "--", "&", "\u200b", "\ud800"]
)
def test_what_is_no_name_is_nobodys(typed: str | None) -> None:
    assert astuple(parse_name(typed)) == ("", "", "")


def test_digits_are_no_part_of_a_first_or_last_name() -> None:
    assert astuple(parse_name("Jane Doe 2")) == ("Jane Doe 2", "Jane", "Doe")


def test_letters_that_cannot_be_seen_are_left_out() -> None:
    assert astuple(parse_name("\u202eJANE\u202c\u00a0\u2003DOE\u200b\ufeff")) == ("Jane Doe", "Jane", "Doe")


def test_an_accent_typed_apart_is_the_same_letter() -> None:
    apart, together = (normalize(form, "José García") for form in ("NFD", "NFC"))
    assert apart != together
    assert parse_name(apart) == parse_name(together)
    assert parse_name(apart).first == "José"


words = st.one_of(
    st.sampled_from(["Jane", "DOE", "O'BRIEN", "Anne-Marie", "MCDONALD", "Mcdonald", "José", "LEE", "van"]),
    st.sampled_from(["ÅSE", "STRAßE", "İPEK", "Ǆ", "Smith", "Trust", "MD", "Mr", "and", "DI", "Łucja"]),
    st.text(st.characters(categories=("Lu", "Ll", "Lt", "Lm")), min_size=1, max_size=6),
)


@settings(deadline=None)
@given(st.lists(words, min_size=1, max_size=4).map(" ".join))
def test_the_quick_way_finds_what_the_careful_way_finds(typed: str) -> None:
    """Quotes around a name mean nothing, and only the careful way knows that."""
    assert parse_name(typed) == parse_name(f'"{typed}"')


@settings(deadline=None)
@given(st.text(letters))
def test_any_text_gives_a_name_whose_parts_are_in_it(typed: str) -> None:
    found = parse_name(typed)
    assert [word for word in f"{found.first} {found.last}".split() if word not in found.full] == []
    assert is_normalized("NFC", found.full)
