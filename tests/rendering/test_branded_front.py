"""The front of a card without art, with its sender's branding: read back as text, as places and as pixels."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from quillpost.rendering.decoder.tasks import rasterize_pages
from quillpost.rendering.handwriting.text import CachedFace
from quillpost.rendering.images.pictures import make_printable_picture
from quillpost.rendering.layout.fronts import rule_box
from quillpost.rendering.layout.text import TextStyle, fit_centered
from quillpost.rendering.models import INCH, Box, Ink, SenderBranding, SenderName, parse_color
from support import designs
from support.images import QUARTERS, saved, srgb_profile
from support.page_reader import Glyph, Pages
from support.pdfx_checks import find_errors
from support.printed_sides import plain_face

COVERS = {name: side for name, piece in designs.PIECES.items() for side in piece.sides if side.is_cover}

GREEN, RED, PALE, WHITE = (parse_color(color).ink for color in ("#156552", "#b0303a", "#f5e9a0", "#fff"))
HOUSE_INK: Ink = (0.13, 0.20, 0.42)

COMPANY = "Meadowlark Realty"
CONTACT = "Dana · (512) 555-0100 · dana@meadow.example"
DISCLAIMER = "A licensed broker in Texas. Equal housing opportunity. Not a solicitation of a listed property."
LONG_COMPANY = "Ångström & the Meadowlark Gypsy Property Management Company " * 5
LONG_CONTACT = "dana.whitfield@meadowlark.example · (512) 555-0100 · " * 9
LONG_DISCLAIMER = DISCLAIMER * 20
ONE_WORD = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"

GREETING = "a note for you"

FACE = CachedFace(plain_face())


@cache
def logo(width: int, height: int, mode: str = "RGB", colour: object = "maroon") -> bytes:
    drawn = Image.new(mode, (width, height), colour)  # type: ignore[arg-type]
    return make_printable_picture(saved(drawn, "JPEG" if mode == "CMYK" else "PNG")).data


LONG = SenderBranding(RED, LONG_COMPANY, LONG_CONTACT, LONG_DISCLAIMER)
BRANDINGS = {
    "nothing": SenderBranding(), "name": SenderBranding(GREEN, COMPANY),
    "name and contact": SenderBranding(GREEN, COMPANY, CONTACT),
    "name and all": SenderBranding(GREEN, COMPANY, CONTACT, DISCLAIMER), "long name": LONG,
    "one long word": SenderBranding(RED, ONE_WORD, ONE_WORD, ONE_WORD), "contact": replace(LONG, company=None),
    "wide logo": SenderBranding(GREEN, COMPANY, CONTACT, DISCLAIMER, logo(1800, 300)),
    "square logo": SenderBranding(GREEN, COMPANY, None, DISCLAIMER, logo(800, 800)),
    "square logo, long": replace(LONG, logo=logo(800, 800)), "tall logo, long": replace(LONG, logo=logo(200, 1600)),
    "small logo": SenderBranding(None, None, None, None, logo(40, 30)),
}  # fmt: skip


@cache
def front_of(piece: str, branding: SenderBranding, hand: int = 1) -> bytes:
    """A print file whose first page has the front."""
    return designs.compose_item(designs.design(piece, "Hi", branding=branding, hand=hand)).sheets


def rows_of(pdf: bytes) -> list[list[Glyph]]:
    """The letters on each baseline, from the top."""
    rows: dict[float, list[Glyph]] = {}
    for glyph in Pages(pdf).glyphs(0):
        rows.setdefault(-round(glyph.baseline, 2), []).append(glyph)
    return [row for _, row in sorted(rows.items())]


def texts_of(pdf: bytes) -> list[str]:
    return [" ".join("".join(glyph.text for glyph in row).split()) for row in rows_of(pdf)]


def drawings_of(pdf: bytes, bleed: float) -> Iterator[tuple[bool, Box]]:
    """The places of pictures, which are true, and of drawn paths, in order."""
    with pdfium.PdfDocument(pdf) as document:
        for thing in document[0].get_objects():
            if thing.type != pdfium_c.FPDF_PAGEOBJ_TEXT:
                left, bottom, right, top = (edge - bleed for edge in thing.get_bounds())
                is_picture = thing.type == pdfium_c.FPDF_PAGEOBJ_IMAGE
                yield is_picture, Box(left, bottom, right - left, top - bottom)


def logo_of(piece: str, branding: SenderBranding) -> Box:
    drawn = drawings_of(front_of(piece, branding), COVERS[piece].bleed)
    (found,) = [box for is_picture, box in drawn if is_picture]
    return found


@pytest.mark.parametrize("piece", COVERS)
def test_nothing_meets_and_nothing_leaves_the_frame(piece: str, subtests: pytest.Subtests) -> None:
    side = COVERS[piece]
    frame = rule_box(side.preview_area)
    for what, branding in BRANDINGS.items():
        with subtests.test(what):
            pdf = front_of(piece, branding)
            inside = [box for _, box in drawings_of(pdf, side.bleed) if frame.expand(-1).contains(box)]
            # The short rule is flat; all else that is drawn inside the frame is the logo or the quill's parts.
            things = [box for box in inside if box.height < 2]
            if emblem := [box for box in inside if box.height >= 2]:
                things.append(designs.around(emblem))
            things += [designs.around(glyph.ink for glyph in row) for row in rows_of(pdf)]
            assert len(things) >= 2
            assert all(frame.expand(-INCH / 9).contains(thing) for thing in things)
            assert not any(one.overlaps(other) for one, other in combinations(things, 2))
    words = " ".join(texts_of(front_of(piece, LONG))).split()
    assert words == f"{LONG_COMPANY.upper()} {GREETING} {LONG_CONTACT} {LONG_DISCLAIMER}".split()


def test_the_greeting_keeps_clear_in_every_hand(subtests: pytest.Subtests) -> None:
    bleed = COVERS["postcard-4x6"].bleed
    for hand in designs.HANDS:
        for what in ("square logo, long", "long name", "contact"):
            with subtests.test(what, hand=hand):
                pdf = front_of("postcard-4x6", BRANDINGS[what], hand)
                rows = rows_of(pdf)
                boxes = [designs.around(glyph.ink for glyph in row) for row in rows]
                (greeting,) = (box for row, box in zip(rows, boxes, strict=True) if {g.font for g in row} == {"/F1"})
                boxes += [box for is_picture, box in drawings_of(pdf, bleed) if is_picture or box.height < 2]
                assert not any(greeting.overlaps(box) for box in boxes if box is not greeting)


def test_a_name_stands_large_and_the_rest_at_the_foot_and_under_a_logo_the_company_signs() -> None:
    def texts(what: str) -> list[str]:
        return texts_of(front_of("postcard-4x6", BRANDINGS[what]))

    assert texts("name and all") == [COMPANY.upper(), GREETING, CONTACT, DISCLAIMER]
    assert texts("wide logo")[:3] == [GREETING, COMPANY.upper(), CONTACT]
    assert texts("nothing") == texts("small logo") == [GREETING, "MAPLE & MAIN REALTY"], "the sender signs"
    rows = rows_of(front_of("postcard-4x6", replace(LONG, company="Oak")))
    assert len(rows) == 2 + 2 + 3  # a long contact has two lines, a long disclaimer three
    sizes = [row[0].size for row in rows[2:]]
    assert len(set(sizes[:2])) == len(set(sizes[2:])) == 1
    assert sizes[0] > sizes[-1]
    blank = SenderBranding(None, " \u200b ", "\n", "\t")
    bare = designs.design("postcard-4x6", "Hi", branding=blank, sender=SenderName())
    assert designs.page_text(designs.compose_item(bare).sheets, 0).strip() == GREETING


def test_words_and_frame_are_in_the_accent_where_it_can_be_read_and_seen() -> None:
    words: list[tuple[Ink | None, str, Ink]] = [
        (GREEN, "name", GREEN), (PALE, "name", HOUSE_INK), (WHITE, "name", HOUSE_INK), (None, "name", HOUSE_INK),
        (RED, "wide logo", RED), (PALE, "wide logo", HOUSE_INK),
    ]  # fmt: skip
    for accent, what, color in words:
        glyphs = Pages(front_of("postcard-4x6", replace(BRANDINGS[what], accent=accent))).glyphs(0)
        found = {glyph.colour for glyph in glyphs if glyph.font == "/F2" and glyph.text == "M"}
        assert found == {tuple(round(channel, 3) for channel in color)}, (accent, what)
    for accent, frame in ((GREEN, (21, 101, 82)), (PALE, (199, 184, 158)), (None, (199, 184, 158))):
        sheet = designs.full_sheet(front_of("postcard-6x11", SenderBranding(accent)), 0, dpi=300)
        # Down the middle of the frame's lower line, which is 0.8 points thick.
        across = np.asarray(sheet)[:, round((COVERS["postcard-6x11"].bleed + 200) / INCH * 300)].astype(int)
        assert np.abs(across - np.array(frame)).sum(axis=1).min() <= 6, accent


def test_a_logo_is_centered_in_proportion_upright_never_coarse_and_without_edges(subtests: pytest.Subtests) -> None:
    for piece, side in COVERS.items():
        panel = side.preview_area
        for width, height in ((1800, 300), (800, 800), (200, 1600), (40, 30), (3, 2)):
            with subtests.test(piece, width=width, height=height):
                placed = logo_of(piece, SenderBranding(logo=logo(width, height)))
                assert placed.width / placed.height == pytest.approx(width / height, rel=0.01)
                assert placed.left + placed.width / 2 == pytest.approx(panel.left + panel.width / 2, abs=0.01)
                assert width / placed.width * INCH >= 150 - 0.1
    placed = logo_of("postcard-4x6", SenderBranding(logo=logo(800, 800)))
    assert placed.height > 0.29 * COVERS["postcard-4x6"].preview_area.height, "with pixels enough it fills its room"
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = make_printable_picture(saved(QUARTERS.resize((600, 400)), "JPEG", exif=exif)).data
    placed = logo_of("postcard-4x6", SenderBranding(logo=turned))
    assert placed.width / placed.height == pytest.approx(400 / 600, rel=0.01)
    clear = logo(600, 400, "RGBA", (10, 20, 30, 0))
    sheet, side = (
        designs.full_sheet(front_of("postcard-4x6", SenderBranding(logo=clear)), 0, dpi=72),
        COVERS["postcard-4x6"],
    )
    place = logo_of("postcard-4x6", SenderBranding(logo=clear)).expand(8)
    left, top = round(place.left + side.bleed), round(sheet.height - place.top - side.bleed)
    part = sheet.crop((left, top, left + round(place.width), top + round(place.height)))
    assert part.getextrema() == ((255, 255),) * 3
    assert sheet.getpixel((0, 0)) == (251, 248, 241), "cream"


def test_a_branded_piece_is_ready_for_print_with_any_logo_and_previewed_as_printed(subtests: pytest.Subtests) -> None:
    logos = {
        "rgb": logo(300, 200),
        "gray": logo(300, 200, "L", 90),
        "cmyk": logo(300, 200, "CMYK", (200, 20, 0, 10)),
        "alpha": logo(300, 200, "RGBA", (10, 20, 30, 90)),
        "profile": make_printable_picture(saved(QUARTERS, "PNG", icc_profile=srgb_profile())).data,
    }
    for kind, data in logos.items():
        with subtests.test(kind):
            assert find_errors(front_of("postcard-4x6", replace(BRANDINGS["name and all"], logo=data))) == []
    for piece in COVERS:
        look = designs.design(piece, "Hi", branding=BRANDINGS["wide logo"])
        first = next(iter(designs.PIECES[piece].previews))
        shown = designs.make_renderer().preview(look, designs.copy(), dpi=60, only_preview=first).sides[first]
        crops = [side.preview_area for side in designs.PIECES[piece].sides]
        printed = rasterize_pages(front_of(piece, BRANDINGS["wide logo"]), dpi=60, crops=crops)[0]
        assert designs.image_of(shown).tobytes() == designs.image_of(printed).tobytes(), piece


def test_one_logo_in_many_designs_is_in_the_file_once_and_none_on_letters_or_beside_art() -> None:
    brandings = [replace(BRANDINGS["square logo"], contact=str(number)) for number in range(len(COVERS))]
    looks = {number: designs.design(piece, "Hi", branding=brandings[number]) for number, piece in enumerate(COVERS)}
    copies = [designs.copy(number, design=number) for number in looks]
    printed = designs.compose_item(looks, copies)
    assert printed.sheets.count(b"/Subtype/Image") == 1
    assert printed == designs.compose_item(looks, copies)
    for piece in ("letter", "windowlessletter", "postcard-4x6", "notecard"):
        plain = designs.design(piece, "Hi", front=None if "letter" in piece else designs.picture())
        assert designs.compose_item(replace(plain, branding=LONG)) == designs.compose_item(plain), piece


@given(
    st.lists(st.text("aiMW&.", min_size=1, max_size=30), min_size=1, max_size=60),
    st.builds(TextStyle, st.floats(4, 40), st.floats(1, 40), st.integers(1, 4), st.floats(1, 2), st.floats(0, 0.2)),
    st.floats(20, 600),
    st.floats(10, 200),
)
def test_centered_text_keeps_words_and_room(words: list[str], manner: TextStyle, width: float, height: float) -> None:
    block = fit_centered(" ".join(words), width, height, manner, FACE)
    assert " ".join(block.lines).split() == words
    assert len(block.lines) <= manner.lines
    assert 0 < block.size <= manner.size
    assert block.height <= height * 1.000001
    for line in block.lines:
        spaced = FACE.text_width(line) + manner.spacing * (len(line) - 1)
        assert spaced * block.size <= width * 1.000001
