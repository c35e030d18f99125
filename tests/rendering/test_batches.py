"""Batches: what pieces share is there once, and what does not fit is found before anything is drawn."""

import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pikepdf
import pytest
import zxingcpp
from PIL import Image

from quillpost.rendering import files
from quillpost.rendering.decoder.tasks import rasterize_pages
from quillpost.rendering.images.models import Picture, read_picture
from quillpost.rendering.images.pictures import make_printable_picture
from quillpost.rendering.layout.models import DoesNotFit
from quillpost.rendering.models import ReturnAddress
from support.designs import (
    JENNY,
    PIECES,
    QR_URL,
    SHORT_MESSAGE,
    compose_item,
    copy,
    count_colors,
    design,
    image_of,
    make_renderer,
    page_text,
    picture,
)
from support.images import saved, swapping_profile
from support.page_reader import Pages
from support.pdfx_checks import find_qpdf_errors


def images_in(pdf: bytes) -> int:
    with pikepdf.open(io.BytesIO(pdf)) as document:
        streams = [thing for thing in document.objects if isinstance(thing, pikepdf.Stream)]
        return sum(stream.get("/Subtype") == "/Image" for stream in streams)


def test_a_large_batch_is_sound_and_shares_what_is_the_same(tmp_path: Path) -> None:
    art = picture(size=(600, 400))
    look = design(message=SHORT_MESSAGE, front=art, background=art)
    copies = [copy(number, qr_url=f"https://q.example.com/s/{number:06d}") for number in range(500)]
    printed = compose_item(look, copies)
    assert not find_qpdf_errors(printed.sheets, tmp_path)
    file = Pages(printed.sheets)
    assert len(file) == 1000
    assert printed.page_ranges == [(2 * place + 1, 2 * place + 2) for place in range(500)]
    fronts = {page.obj.Contents[0].objgen for page in list(file.document.pages)[::2]}
    backs = {page.obj.Contents[0].objgen for page in list(file.document.pages)[1::2]}
    assert (len(fronts), len(backs)) == (1, 1)
    assert images_in(printed.sheets) == 1
    one = compose_item(look, copies[:1])
    assert (len(printed.sheets) - len(one.sheets)) / 499 < 2600


@pytest.mark.parametrize("file_format", ["JPEG", "PNG"])
def test_art_is_printed_by_its_own_colour_profile(file_format: str) -> None:
    red = Image.new("RGB", (60, 40), "red")
    art = make_printable_picture(saved(red, file_format, icc_profile=swapping_profile())).data
    front = image_of(rasterize_pages(compose_item(design(front=art)).sheets, dpi=36, pages=[0])[0])
    (_, colour), *others = front.getcolors() or []
    assert not others
    assert np.abs(np.array(colour) - (0, 255, 0)).max() < 8


def test_designs_with_equal_art_share_one_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []

    def read(data: bytes) -> Picture:
        decoded.append(data)
        return read_picture(data)

    monkeypatch.setattr(files, "read_picture", read)
    noise = np.random.default_rng(1).integers(0, 255, (400, 600, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).save(file, "JPEG")
    # Every design has read its art from the shelf by itself: equal bytes, other objects.
    designs = {key: design(front=file.getvalue(), background=bytes(bytearray(file.getvalue()))) for key in range(50)}
    copies = [copy(key, design=key) for key in designs]
    printed = compose_item(designs, copies).sheets
    assert len(decoded) == 1
    assert images_in(printed) == 1
    one = compose_item(designs, copies[:1]).sheets
    assert len(printed) - len(one) < 50 * 5000 < 2 * len(file.getvalue())


def test_one_picture_on_two_sizes_covers_both() -> None:
    art = picture()
    designs = {0: design(front=art), 1: design("postcard-6x11", front=art)}
    both = compose_item(designs, [copy(1), copy(2, design=1)]).sheets
    for front in rasterize_pages(both, dpi=36, pages=[0, 2]):
        assert count_colors(image_of(front)) == {(0, 0, 0)}


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("art", [None, picture()], ids=["paper", "art"])
def test_the_qr_code_can_be_scanned_from_a_preview(piece: str, art: bytes | None) -> None:
    look = design(piece, SHORT_MESSAGE, front=art, background=art)
    sides = make_renderer().preview(look, copy(qr_url=QR_URL)).sides
    written = list(sides.values())[PIECES[piece].sides.index(PIECES[piece].message_side)]
    assert [found.text for found in zxingcpp.read_barcodes(image_of(written))] == [QR_URL]


def test_all_that_is_on_a_card_can_be_read_back_as_text() -> None:
    text = page_text(compose_item(design()).sheets, 1)
    for line in (
        "JENNY SKINNER\nSKINNER & SÖHNE\n8380 HARMON UNDERPASS\nPORT STEVENBURY SD 98227-5874",
        "Dana Whitfield\nPO Box 1180\nAustin, TX 78701",
        "Hi Jenny,",
        "Warmly, Dana",
        "U.S. POSTAGE PAID",
    ):
        assert line in text


def test_a_foreign_address_names_its_country_and_a_domestic_one_does_not() -> None:
    canada = copy(addressee=replace(JENNY, province="ON", country="Canada"), tracking=None)
    printed = compose_item(design(), [canada, copy(addressee=replace(JENNY, country="us"))])
    assert "\nCANADA" in page_text(printed.sheets, 1)
    assert "\nUS" not in page_text(printed.sheets, 3)
    assert Pages(printed.sheets).glyphs(1, "/F3") == []


def test_what_fits_above_a_qr_code_composes_with_one_and_without() -> None:
    words = 10
    while True:
        look = design(message="word " * words)
        if make_renderer().find_misfits(look, [JENNY], qr=True).messages:
            break
        compose_item(look, [copy(qr_url=QR_URL), copy()])
        words += 5
    assert make_renderer().find_misfits(look, [JENNY], qr=False).messages == {}


@pytest.mark.parametrize("qr", [False, True])
def test_a_message_found_to_fit_composes_with_long_words_too(qr: bool) -> None:
    """The check and the composer break the same words in the same places."""
    email = "jane.margaret.smith-jones@very-long-company-name.example.com"
    results = set()
    for count in range(2, 60, 4):
        look = design(message=f"Hi! {'some words ' * count} %EMAIL% and {'w' * 45}.")
        whom = replace(JENNY, email=email)
        unfit = make_renderer().find_misfits(look, [whom], qr=qr).messages
        results.add(bool(unfit))
        own = copy(addressee=whom, qr_url=QR_URL if qr else None)
        if unfit:
            with pytest.raises(DoesNotFit, match=re.escape(unfit[0].message)):
                compose_item(look, [own])
        else:
            assert email in Pages(compose_item(look, [own]).sheets).text(1, look.ink).replace(" ", "")
    assert results == {False, True}


def test_each_recipient_whose_own_words_do_not_fit_is_named() -> None:
    look = design(message="Dear %CUSTOM1%,")
    notes = ["word " * count for count in (1, 400, 2, 300, 1)]
    people = [replace(JENNY, custom=(note,) * 10) for note in notes]
    found = make_renderer().find_misfits(look, people, qr=False)
    assert list(found.messages) == [1, 3]
    assert found.messages[1].overflow_lines > found.messages[3].overflow_lines >= 1
    assert (found.sender, found.addresses) == (None, {})


def test_a_long_address_is_set_smaller_and_wrapped_but_an_endless_one_is_refused() -> None:
    long = replace(JENNY, company="Incorporated Society of Very Long Company Names and Successors")
    endless = replace(JENNY, company="Endless " * 60)
    found = make_renderer().find_misfits(design(), [long, endless], qr=False).addresses
    assert {place: too_long.message for place, too_long in found.items()} == {
        1: "The address is too long for the piece; shorten its lines."
    }
    compose_item(design(), [copy(addressee=long)])
    with pytest.raises(DoesNotFit, match="The address is too long"):
        compose_item(design(), [copy(addressee=endless)])


@pytest.mark.parametrize("piece", ["postcard-4x6", "letter", "notecard"])
def test_an_endless_return_address_is_refused(piece: str) -> None:
    look = design(piece, SHORT_MESSAGE, return_address=ReturnAddress(name="Endless " * 80))
    found = make_renderer().find_misfits(look, [JENNY], qr=False)
    refusal = found.sender or found.addresses[0]
    assert "return address is " in refusal.message
    with pytest.raises(DoesNotFit, match="return address is "):
        compose_item(look)


def test_a_postage_mark_that_is_too_long_is_refused_beforehand() -> None:
    look = design(indicia=("A line that is much too long for its frame " * 20,))
    refusal = make_renderer().find_misfits(look, [JENNY], qr=False).sender
    assert refusal
    assert refusal.message == "The indicia is too long for the piece; shorten its lines."
    with pytest.raises(DoesNotFit, match="The indicia is too long"):
        compose_item(look)
