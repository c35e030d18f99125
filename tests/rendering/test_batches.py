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
    fronts, backs = ({page.obj.Contents[0].objgen for page in list(file.document.pages)[n::2]} for n in (0, 1))
    assert (len(fronts), len(backs)) == (1, 1)
    assert images_in(printed.sheets) == 1
    one = compose_item(look, copies[:1])
    assert (len(printed.sheets) - len(one.sheets)) / 499 < 2600


def test_art_is_printed_by_its_own_color_profile() -> None:
    for file_format in ("JPEG", "PNG"):
        red = Image.new("RGB", (60, 40), "red")
        art = make_printable_picture(saved(red, file_format, icc_profile=swapping_profile())).data
        front = image_of(rasterize_pages(compose_item(design(front=art)).sheets, dpi=36, pages=[0])[0])
        ((_, color),) = front.getcolors() or []
        assert np.abs(np.array(color) - (0, 255, 0)).max() < 8


def test_designs_with_equal_art_share_one_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []

    def read(data: bytes) -> Picture:
        decoded.append(data)
        return read_picture(data)

    monkeypatch.setattr(files, "read_picture", read)
    noise = np.random.default_rng(1).integers(0, 255, (400, 600, 3), dtype=np.uint8)
    art = saved(Image.fromarray(noise), "JPEG")
    # Every design has read its art from the storage by itself: equal bytes, other objects.
    designs = {key: design(front=art, background=bytes(bytearray(art))) for key in range(50)}
    copies = [copy(key, design=key) for key in designs]
    printed = compose_item(designs, copies).sheets
    assert (len(decoded), images_in(printed)) == (1, 1)
    one = compose_item(designs, copies[:1]).sheets
    assert len(printed) - len(one) < 50 * 5000 < 2 * len(art)


def test_one_picture_on_two_sizes_covers_both() -> None:
    designs = {0: design(front=picture()), 1: design("postcard-6x11", front=picture())}
    both = compose_item(designs, [copy(1), copy(2, design=1)]).sheets
    for front in rasterize_pages(both, dpi=36, pages=[0, 2]):
        assert count_colors(image_of(front)) == {(0, 0, 0)}


def test_the_qr_code_can_be_scanned_from_a_preview(subtests: pytest.Subtests) -> None:
    for piece in PIECES:
        for art in (None, picture()):
            with subtests.test(piece, has_art=art is not None):
                look = design(piece, SHORT_MESSAGE, front=art, background=art)
                sides = make_renderer().preview(look, copy(qr_url=QR_URL)).sides
                written = list(sides.values())[PIECES[piece].sides.index(PIECES[piece].message_side)]
                assert [found.text for found in zxingcpp.read_barcodes(image_of(written))] == [QR_URL]


def test_all_that_is_on_a_card_can_be_read_back_as_text() -> None:
    canada = copy(addressee=replace(JENNY, province="ON", country="Canada"), tracking=None)
    printed = compose_item(design(), [copy(addressee=replace(JENNY, country="us")), canada])
    text = page_text(printed.sheets, 1)
    for line in (
        "JENNY SKINNER\nSKINNER & SÖHNE\n8380 HARMON UNDERPASS\nPORT STEVENBURY SD 98227-5874",
        "Dana Whitfield\nPO Box 1180\nAustin, TX 78701",
        "Hi Jenny,",
        "Warmly, Dana",
        "U.S. POSTAGE PAID",
    ):
        assert line in text
    assert "\nUS" not in text
    assert "\nCANADA" in page_text(printed.sheets, 3)
    assert Pages(printed.sheets).glyphs(3, "/F3") == []


def test_a_message_found_to_fit_composes_with_long_words_and_with_a_qr_code_or_without() -> None:
    """The check and the composer break the same words in the same places."""
    email = "jane.margaret.smith-jones@very-long-company-name.example.com"
    whom = replace(JENNY, email=email)
    for qr in (False, True):
        results = set()
        for count in range(2, 60, 4):
            look = design(message=f"Hi! {'some words ' * count} %EMAIL% and {'w' * 45}.")
            unfit = make_renderer().find_misfits(look, [whom], qr=qr).messages
            results.add(bool(unfit))
            own = copy(addressee=whom, qr_url=QR_URL if qr else None)
            if unfit:
                with pytest.raises(DoesNotFit, match=re.escape(unfit[0].message)):
                    compose_item(look, [own])
            else:
                assert email in Pages(compose_item(look, [own]).sheets).text(1, look.ink).replace(" ", "")
        assert results == {False, True}
    looks = [design(message="word " * words) for words in range(10, 200, 5)]
    fits = [look for look in looks if not make_renderer().find_misfits(look, [JENNY], qr=True).messages]
    compose_item(fits[-1], [copy(qr_url=QR_URL), copy()])
    assert make_renderer().find_misfits(looks[len(fits)], [JENNY], qr=False).messages == {}


def test_each_recipient_whose_own_words_do_not_fit_is_named() -> None:
    notes = ["word " * count for count in (1, 400, 2, 300, 1)]
    people = [replace(JENNY, custom=(note,) * 10) for note in notes]
    found = make_renderer().find_misfits(design(message="Dear %CUSTOM1%,"), people, qr=False)
    assert list(found.messages) == [1, 3]
    assert found.messages[1].overflow_lines > found.messages[3].overflow_lines >= 1
    assert (found.sender, found.addresses) == (None, {})


def test_a_long_address_is_wrapped_but_endless_ones_and_postage_marks_are_refused() -> None:
    long = replace(JENNY, company="Incorporated Society of Very Long Company Names and Successors")
    endless = replace(JENNY, company="Endless " * 60)
    found = make_renderer().find_misfits(design(), [long, endless], qr=False).addresses
    sentence = "The address is too long for the piece; shorten its lines."
    assert {place: too_long.message for place, too_long in found.items()} == {1: sentence}
    compose_item(design(), [copy(addressee=long)])
    with pytest.raises(DoesNotFit, match="The address is too long"):
        compose_item(design(), [copy(addressee=endless)])
    for piece in ("postcard-4x6", "letter", "notecard"):
        look = design(piece, SHORT_MESSAGE, return_address=ReturnAddress(name="Endless " * 80))
        misfits = make_renderer().find_misfits(look, [JENNY], qr=False)
        assert "return address is " in (misfits.sender or misfits.addresses[0]).message
        with pytest.raises(DoesNotFit, match="return address is "):
            compose_item(look)
    look = design(indicia=("A line that is much too long for its frame " * 20,))
    refusal = make_renderer().find_misfits(look, [JENNY], qr=False).sender
    assert refusal
    assert refusal.message == "The indicia is too long for the piece; shorten its lines."
    with pytest.raises(DoesNotFit, match="The indicia is too long"):
        compose_item(look)
