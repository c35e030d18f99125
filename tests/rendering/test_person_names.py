"""How a name as it was typed is used in a letter: in full, by its first part and by its last."""

from dataclasses import astuple
from unicodedata import is_normalized, normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.rendering.text import names
from quillpost.rendering.text.variables import to_one_line

letters = st.characters(codec=None, exclude_categories=())


def parse_name(typed: str | None) -> names.PersonName:
    return names.parse_name(to_one_line(typed))


WHOLE = """
JANE DOE|Jane|Doe|Jane Doe
jane doe|Jane|Doe|Jane Doe
Jane DOE|Jane|Doe|Jane Doe
jane Doe|Jane|Doe|Jane Doe
"JANE DOE"|Jane|Doe|Jane Doe
Mary Ann Smith|Mary|Smith|Mary Ann Smith
Smith|Smith||Smith
Dr. José García Jr.|José|García|Dr. José García Jr.
JANE DOE MD|Jane|Doe|Jane Doe MD
JANE DOE PH.D.|Jane|Doe|Jane Doe Ph.D.
JOHN SMITH III|John|Smith|John Smith III
Robert (Bob) SMITH|Robert|Smith|Robert (Bob) Smith
JANE DOE OR CURRENT RESIDENT|Jane|Doe|Jane Doe
Jane Doe 2|Jane|Doe|Jane Doe 2
"""
IN_FULL = """
jane o'brien|Jane O'Brien
JANE O’BRIEN|Jane O’Brien
JANE O`BRIEN|Jane O'Brien
D'ANGELO BROWN|D'Angelo Brown
ANNA DELL'ACQUA|Anna Dell'Acqua
JEAN-LUC PICARD|Jean-Luc Picard
anne-marie  smith|Anne-Marie Smith
RONALD MCDONALD|Ronald McDonald
ronald mcdonald|Ronald McDonald
Ronald McDonald|Ronald McDonald
FLORA MACDONALD|Flora Macdonald
maria de la cruz|Maria de la Cruz
JAN VAN DER BERG|Jan van der Berg
Vincent van Gogh|Vincent van Gogh
TJ SMITH|TJ Smith
NG WEI|Ng Wei
e.e. cummings|E.E. Cummings
JOHN E SMITH|John E Smith
İBRAHİM DEMİR|İbrahim Demir
ΟΔΥΣΣΕΥΣ|Οδυσσευς
ACME HOLDINGS LLC|Acme Holdings LLC
MR & MRS JOHN SMITH|Mr & Mrs John Smith
"""
IN_PARTS = {
    "a comma turns a name round unless a suffix follows": """
Smith, Anna|Anna|Smith
SMITH, JOHN & JANE|John & Jane|Smith
Smith, Anna, PhD|Anna|Smith
JOHN DOE, JR.|John|Doe
Doe Jr., John|John|Doe
""",
    "couples are greeted together": """
John & Jane Doe|John & Jane|Doe
John and Jane|John and Jane|
John Smith & Jane Doe|John & Jane|Smith & Doe
John Smith & Jane Smith|John & Jane|Smith
Juan y Maria Lopez|Juan y Maria|Lopez
José Ortega y Gasset|José|Ortega y Gasset
MR & MRS JOHN SMITH|John|Smith
Mr. John and Mrs. Jane Smith|John and Jane|Smith
MR. AND MRS. SMITH||Smith
John Smith and family|John|Smith
""",
    "a surname alone gives no first name": """
van der Berg||van der Berg
VAN DER BERG||Van der Berg
de Gaulle||de Gaulle
Van Morrison|Van|Morrison
Della Reese|Della|Reese
Mr. Smith||Smith
Sir Elton|Elton|
""",
    "one initial is nothing to greet by": """
J. R. SMITH|J. R.|Smith
T.J. Smith|T.J.|Smith
F. SCOTT FITZGERALD|Scott|Fitzgerald
J SMITH||Smith
J.||
""",
    "the family comes first where it does in the language": """
李|李|
李小龙|李小龙|
李 小龙|小龙|李
김 철수|철수|김
山田　太郎|太郎|山田
Bruce 李|Bruce|李
""",
}


def rows(table: str) -> list[list[str]]:
    return [line.split("|") for line in table.strip().split("\n")]


def test_names_are_found_as_a_letter_would_use_them(subtests: pytest.Subtests) -> None:
    for typed, first, last, full in rows(WHOLE):
        with subtests.test(typed):
            assert astuple(parse_name(typed)) == (full, first, last)
    for typed, full in rows(IN_FULL):
        with subtests.test("capitals are set where the typist did not care", typed=typed):
            assert parse_name(typed).full == full
    for rule, table in IN_PARTS.items():
        for typed, first, last in rows(table):
            with subtests.test(rule, typed=typed):
                found = parse_name(typed)
                assert (found.first, found.last) == (first, last)


def test_households_and_firms_have_no_first_name_and_what_is_no_name_is_nobodys(subtests: pytest.Subtests) -> None:
    firms = "The Smith Family|Current Resident|SMITH FAMILY TRUST|Acme, Inc.|Acme Holdings LLC|Estate of John Smith"
    for typed in [*firms.split("|"), "Our Neighbors", "user123"]:
        with subtests.test(typed):
            found = parse_name(typed)
            assert (found.first, found.last, found.full.lower()) == ("", "", typed.lower())
    for nothing in (None, "", " \t", "jane.doe@example.com", "12345", "n/a", "NULL", "--", "&", "\u200b", "\ud800"):
        with subtests.test(repr(nothing)):
            assert astuple(parse_name(nothing)) == ("", "", "")


def test_letters_that_cannot_be_seen_are_left_out_and_an_accent_typed_apart_is_the_same_letter() -> None:
    assert astuple(parse_name("\u202eJANE\u202c\u00a0\u2003DOE\u200b\ufeff")) == ("Jane Doe", "Jane", "Doe")
    apart, together = (normalize(form, "José García") for form in ("NFD", "NFC"))
    assert apart != together
    assert parse_name(apart) == parse_name(together)
    assert parse_name(apart).first == "José"


words = st.one_of(
    st.sampled_from(["Jane", "DOE", "O'BRIEN", "Anne-Marie", "MCDONALD", "Mcdonald", "José", "LEE", "van"]),
    st.sampled_from(["ÅSE", "STRAßE", "İPEK", "Ǆ", "Smith", "Trust", "MD", "Mr", "and", "DI", "Łucja"]),
    st.text(st.characters(categories=("Lu", "Ll", "Lt", "Lm")), min_size=1, max_size=6),
)


@given(st.lists(words, min_size=1, max_size=4).map(" ".join))
def test_the_quick_way_finds_what_the_careful_way_finds(typed: str) -> None:
    """Quotes around a name mean nothing, and only the careful way knows that."""
    assert parse_name(typed) == parse_name(f'"{typed}"')


@given(st.text(letters))
def test_any_text_gives_a_name_whose_parts_are_in_it(typed: str) -> None:
    found = parse_name(typed)
    assert [word for word in f"{found.first} {found.last}".split() if word not in found.full] == []
    assert is_normalized("NFC", found.full)
