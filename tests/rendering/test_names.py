"""Names as people have them: how a letter uses what was typed, and how it is on paper."""

import unicodedata
from dataclasses import astuple, replace
from unicodedata import is_normalized, normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quillpost.rendering.files import PrintFiles
from quillpost.rendering.layout.models import DoesNotFit
from quillpost.rendering.models import Addressee, ReturnAddress, SenderName
from quillpost.rendering.service import Misfits
from quillpost.rendering.text import names
from quillpost.rendering.text.variables import to_one_line
from support.designs import (
    HAIR,
    HALF_JOINED,
    JENNY,
    JOINED,
    LETTERING,
    PIECES,
    SHORT_MESSAGE,
    UNJOINED,
    compose_item,
    copy,
    design,
    make_renderer,
    page_text,
)
from support.page_reader import Pages

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


def test_firms_have_no_first_name_no_name_is_nobodys_and_unseen_letters_are_left_out(subtests: pytest.Subtests) -> None:
    firms = "The Smith Family|Current Resident|SMITH FAMILY TRUST|Acme, Inc.|Acme Holdings LLC|Estate of John Smith"
    for typed in [*firms.split("|"), "Our Neighbors", "user123"]:
        with subtests.test(typed):
            found = parse_name(typed)
            assert (found.first, found.last, found.full.lower()) == ("", "", typed.lower())
    for nothing in (None, "", " \t", "jane.doe@example.com", "12345", "n/a", "NULL", "--", "&", "\u200b", "\ud800"):
        with subtests.test(repr(nothing)):
            assert astuple(parse_name(nothing)) == ("", "", "")
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


INK = (0.8, 0.2, 0.2)
GREETING = "Dear %FIRST_NAME|friend%, this is for %FULL_NAME|you% of %COMPANY|your house%. Bye!"
NAMES = {
    "O'Brien": ("Pat O'Brien", "Dear Pat, this is for Pat O'Brien of", "PAT O'BRIEN"),
    "curly apostrophe": ("Pat O’Brien", "Dear Pat, this is for Pat O’Brien of", "PAT O’BRIEN"),
    "accents composed": ("José Núñez", "Dear José, this is for José Núñez of", "JOSÉ NÚÑEZ"),
    "accents apart": (
        unicodedata.normalize("NFD", "José Núñez"), "Dear José, this is for José Núñez of", "JOSÉ NÚÑEZ",
    ),
    "capitals": ("JANE DOE", "Dear Jane, this is for Jane Doe of", "JANE DOE"),
    "nobody": (None, "Dear friend, this is for you of", ""),
    "only spaces": ("  \t ", "Dear friend, this is for you of", ""),
    "German": ("JÜRGEN WEIß", "Dear Jürgen, this is for Jürgen Weiß of", "JÜRGEN WEISS"),
    "Polish": ("Łukasz Żółć", "Dear Łukasz, this is for Łukasz Żółć of", "ŁUKASZ ŻÓŁĆ"),
    "Vietnamese": ("Nguyễn Thị Hằng", None, "NGUYỄN THỊ HẰNG"),
    "Russian": ("Иван Петров", "Dear Иван, this is for Иван Петров of", "ИВАН ПЕТРОВ"),
    "Greek": ("Ελένη Παππά", "Dear Ελένη, this is for Ελένη Παππά of", "ΕΛΈΝΗ ΠΑΠΠΆ"), "Chinese": ("李", None, None),
    "Chinese with Latin": ("李 Wei", None, None), "Arabic": ("محمد علي", None, None),
    "Hebrew": ("דוד לוי", None, None), "Hindi": ("राम शर्मा", None, None),
    "emoji": ("Zoë 😀👩\u200d👩\u200d👧", None, None), "control characters": ("Ja\x00ne\x1b[31m D\x07oe\r", None, None),
    "marks of direction": ("\u202eJane\u202c D\u200boe", "Dear Jane, this is for Jane Doe of", None),
    "a variable": ("%FIRST_NAME%", None, None), "another variable": ("~YOUR_NAME~ %COMPANY%", None, None),
    "syntax": ("(Jane\\) Doe (Tj <</ ET", None, None),
    "blanks": ("Jane\u2800\u3164 Doe\ufe0f", "Dear Jane, this is for Jane Doe of", None),
}  # fmt: skip


@pytest.mark.parametrize(
    ("piece", "hand"),
    [("postcard-6x9", HALF_JOINED), ("postcard-6x9", LETTERING), ("notecard", UNJOINED), ("notecard", JOINED)],
)
def test_any_name_is_written_and_addressed(piece: str, hand: int, subtests: pytest.Subtests) -> None:
    look = design(piece, GREETING, hand=hand, ink=INK)
    people = [replace(JENNY, name=name, company=None) for name, _, _ in NAMES.values()]
    printed = compose_item(look, [copy(addressee=person) for person in people])
    assert_sound(printed)
    file = Pages(printed.sheets)
    for place, (case, (_, greeting, address)) in enumerate(NAMES.items()):
        with subtests.test(case):
            message = file.text(2 * place + 1, INK)
            assert message.startswith(greeting or "Dear ")
            assert message.endswith(" of your house. Bye!")
            outside = page_text(printed.envelopes or printed.sheets, place if printed.envelopes else 2 * place + 1)
            assert not any(mark in message + outside for mark in "%~")
            if address is not None and piece == "postcard-6x9":
                lines = f"{address}\n8380 HARMON UNDERPASS\nPORT STEVENBURY SD 98227-5874"
                assert lines.strip() in outside


def assert_sound(printed: PrintFiles) -> None:
    """Nothing blank, no box for a letter that is missing, nothing that cannot be read."""
    for pdf in filter(None, (printed.sheets, printed.envelopes)):
        file = Pages(pdf)
        for page in range(len(file)):
            glyphs = [glyph for glyph in file.glyphs(page) if glyph.font != "/F3"]
            assert [glyph for glyph in glyphs if glyph.number == 0] == []
            assert [g for g in glyphs if g.ink is None and not g.text.isspace()] == []
            text = page_text(pdf, page)
            assert "\ufffd" not in text
            unseen = {letter for letter in text if unicodedata.category(letter) in ("Cc", "Cf", "Cn", "Co")}
            assert unseen <= {"\n"}


def test_an_unknown_addressee_gets_a_piece_too_and_a_name_in_letters_of_no_face_is_spelt_in_latin_ones() -> None:
    for piece in PIECES:
        look = design(piece, GREETING, return_address=ReturnAddress(), sender=SenderName())
        assert make_renderer().find_misfits(look, [Addressee()], qr=False) == Misfits(None, {}, {})
        printed = compose_item(look, [copy(addressee=Addressee(), tracking=None)])
        assert_sound(printed)
        side = PIECES[piece].sides.index(PIECES[piece].message_side)
        assert "Dear friend, this is for you of your house. Bye!" in " ".join(page_text(printed.sheets, side).split())
    printed = compose_item(design("notecard", GREETING, ink=INK), [copy(addressee=replace(JENNY, name="李 Wei"))])
    assert "Li" in Pages(printed.sheets).text(1, INK)
    assert printed.envelopes
    assert "LiWei" in Pages(printed.envelopes).text(0, INK).replace(" ", "")


RESIDENT = replace(JENNY, company=None, or_current_resident=True)
LONG = "Wilhelmina Alexandrina Featherstonehaugh-Cholmondeley"
RESIDENTS = {
    "JENNY SKINNER or current resident 8380 Harmon": RESIDENT,
    "Current resident 8380 Harmon": replace(RESIDENT, name=None),
    "Current resident Acme Inc 8380 Harmon": replace(RESIDENT, name=None, company="Acme Inc"),
    f"{LONG} or current resident 8380 Harmon": replace(RESIDENT, name=LONG),
}


@pytest.mark.parametrize("piece", PIECES)
def test_mail_can_go_to_the_current_resident(piece: str) -> None:
    look = design(piece, SHORT_MESSAGE)
    printed, sides = compose_item(look, [copy(addressee=whom) for whom in RESIDENTS.values()]), PIECES[piece].sides
    for place, expected in enumerate(RESIDENTS):
        if any(side.address for side in sides):
            (own,) = (number for number, side in enumerate(sides) if side.address)
            shown = page_text(printed.sheets, place * len(sides) + own)
        else:
            shown = page_text(printed.envelopes or b"", place)
        assert "".join(expected.split()).upper() in "".join(shown.split()).upper()
    endless = replace(RESIDENT, name=f"{LONG} " * 40)
    assert 0 in make_renderer().find_misfits(look, [endless], qr=False).addresses


fragments = st.one_of(
    st.none(), st.text(max_size=60),
    st.lists(st.text("abcdefgHIJKLMNOPQ'-.ÄØéŁ", min_size=1, max_size=14), max_size=6).map(" ".join),
    st.sampled_from(["\u0301", "e\u0301" * 20, "\r\n\r\n", "\u202eabc", "مرحبا", "李小龍", "👩\u200d👩\u200d👧"]),
    st.just("%NAME%"),
)  # fmt: skip


@settings(max_examples=120)
@given(
    st.builds(Addressee, *[fragments] * 8, or_current_resident=st.booleans()),
    st.sampled_from(["postcard-4x6", "letter", "notecard"]),
    st.sampled_from([HALF_JOINED, UNJOINED]),
    st.integers(0, 10**9),
)
def test_any_address_is_inside_its_box_or_refused(addressee: Addressee, piece: str, hand: int, item_id: int) -> None:
    sender = ReturnAddress(name=addressee.company, address=addressee.address, city=addressee.city)
    look = design(piece, "", hand=hand, ink=INK, return_address=sender)
    misfits = make_renderer().find_misfits(look, [addressee], qr=False)
    if misfits.addresses or misfits.sender:
        refusals = [*misfits.addresses.values(), *filter(None, [misfits.sender])]
        assert min(refusal.overflow_lines for refusal in refusals) >= 1
        with pytest.raises(DoesNotFit):
            compose_item(look, [copy(item_id, addressee)])
        return
    printed = compose_item(look, [copy(item_id, addressee)])
    assert_inside(piece, printed)


def assert_inside(piece: str, printed: PrintFiles) -> None:
    side = next(side for side in PIECES[piece].all_sides if side.address)
    file = Pages(printed.envelopes if side.name == "envelope" and printed.envelopes else printed.sheets)
    page = 1 if side.name == "back" else 0
    # Plain type is fitted by its capitals: an accent on one, or a tail, may stand a little outside.
    across, up = (HAIR, HAIR) if side.handwritten else (1.0, 3.5)
    boxes = [box.expand(across, up) for box in (side.address, side.return_address) if box]
    boxes += [side.indicia] if side.indicia else []
    glyphs = [glyph for glyph in file.glyphs(page) if glyph.font != "/F3" and not glyph.text.isspace()]
    assert [g for g in glyphs if g.ink is None or not any(box.contains(g.ink) for box in boxes)] == []
