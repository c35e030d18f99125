"""Batches: what pieces share is there once, what does not fit is found first; the same pieces give the same bytes."""

import hashlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pikepdf
import pytest
from PIL import Image

from quillpost.rendering import files
from quillpost.rendering.decoder.tasks import rasterize_pages
from quillpost.rendering.handwriting.choices import VARIANTS
from quillpost.rendering.handwriting.models import MANNER_NAMES
from quillpost.rendering.images.models import Picture, read_picture
from quillpost.rendering.images.pictures import make_printable_picture
from quillpost.rendering.layout.models import DoesNotFit
from quillpost.rendering.models import Addressee, Copy, Design, ReturnAddress
from quillpost.rendering.service import Renderer
from support.designs import (
    CLAIM,
    HALF_JOINED,
    HANDS,
    JENNY,
    JOINED,
    LETTERING,
    MESSAGE,
    PIECES,
    QR_URL,
    SHORT_MESSAGE,
    UNJOINED,
    compose_item,
    copy,
    count_colors,
    design,
    image_of,
    make_hands,
    make_renderer,
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


def test_designs_with_equal_art_share_one_picture_which_covers_every_size(monkeypatch: pytest.MonkeyPatch) -> None:
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
    designs = {0: design(front=picture()), 1: design("postcard-6x11", front=picture())}
    both = compose_item(designs, [copy(1), copy(2, design=1)]).sheets
    for front in rasterize_pages(both, dpi=36, pages=[0, 2]):
        assert count_colors(image_of(front)) == {(0, 0, 0)}


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


ODD = replace(JENNY, name="José O'Brien-Жуков 李", company="Ünïcode & Ŝønş")


FIRST_NAMES = ("Jenny", "Ann", "Bob")
Drawing = list[str | bytes]


def pages_of(looks: Mapping[Any, Design], copies: Sequence[Copy], *, only_own: bool = False) -> list[list[Drawing]]:
    """What is drawn on the pages and the envelope of each piece; the first stream of a page is its design's."""
    printed, streams = compose_item(looks, copies), slice(1 if only_own else 0, None)
    sheets, found = Pages(printed.sheets), []
    envelopes = Pages(printed.envelopes) if printed.envelopes else None
    enveloped = 0
    for one, (first, last) in zip(copies, printed.page_ranges, strict=True):
        pages = [[*sheets.drawn(page, streams=streams)] for page in range(first - 1, last)]
        if envelopes and PIECES[looks[one.design].product].envelope:
            pages.append([*envelopes.drawn(enveloped, streams=streams)])
            enveloped += 1
        found.append(pages)
    return found


def samples() -> dict[int, Design]:
    """A look for each hand, one of them neat, each on another piece."""
    pieces = ("postcard-4x6", "notecard", "windowlessletter", "postcard-6x9", "letter")
    looks = {hand: design(piece, SHORT_MESSAGE, hand=hand) for hand, piece in zip(HANDS, pieces, strict=True)}
    return looks | {100: replace(looks[HALF_JOINED], manner="neat"), 101: design("giftcard", MESSAGE[:90])}


def copy_of(key: int, addressee: Addressee = JENNY) -> Copy:
    return copy(1000 + key, addressee, design=key, qr_url=QR_URL, claim=CLAIM)


def test_a_piece_is_the_same_alone_among_others_and_in_any_order() -> None:
    looks = samples()
    crowded = looks | {200: design("postcard-6x9", MESSAGE * 2), 201: design("letter", MESSAGE * 5)}
    own = [copy_of(key) for key in looks]
    alone = [pages_of({key: look}, [copy_of(key)])[0] for key, look in looks.items()]
    assert all(alone)
    others = [copy(number, ODD, design=other) for number, other in enumerate(crowded)]
    crowd = [copy(5000 + number, ODD, design=200 + number % 2) for number in range(40)]
    count = len(own)
    assert pages_of(crowded, [*own, *others])[:count] == alone
    assert pages_of(crowded, [*others, *own])[-count:] == alone
    mixed = pages_of(crowded, [*reversed(others), *crowd, *own[::-1], *others])
    assert mixed[len(others) + 40 :][:count] == alone[::-1]
    # A batch remembers words, their forms and codes; none of it may show.
    every: dict[Any, Design] = {number: design(piece, SHORT_MESSAGE) for number, piece in enumerate(PIECES)}
    copies = [copy(number, design=number % len(every), qr_url=f"{QR_URL}/{number}") for number in range(24)]
    assert pages_of(every, copies) == [pages_of(every, [one])[0] for one in copies]


def test_the_same_words_are_written_differently_to_everyone_whatever_a_pieces_number() -> None:
    readers = [replace(JENNY, address=f"{number} Elm St") for number in range(40)]
    copies = [copy(1, reader, tracking=None) for reader in readers]
    look = design("postcard-6x9", "Thank you all so much")
    backs = [pages[1] for pages in pages_of({0: look}, copies, only_own=True)]
    notes = [back[: back.index("ET")] for back in backs]
    assert len(set(map(tuple, notes))) == len(readers), "their places differ"
    shapes = {tuple(part for part in note if isinstance(part, bytes)) for note in notes}
    assert 6 < len(shapes) <= VARIANTS
    first, last = pages_of({0: design()}, [copy(1), copy(10**12)])
    assert first == last


@pytest.mark.parametrize("manner", MANNER_NAMES)
def test_a_piece_of_a_large_batch_looks_as_in_its_preview(manner: str) -> None:
    look = design("postcard-6x9", SHORT_MESSAGE, manner=manner)
    readers = [
        replace(JENNY, name=f"{name} Skinner", address=f"{n} Elm St") for n in range(100) for name in FIRST_NAMES
    ]
    copies = [copy(number, reader) for number, reader in enumerate(readers)]
    sheets = compose_item(look, copies).sheets
    # As in another process, which has written nothing else.
    fresh = Renderer(make_hands(), PIECES, sandbox=make_renderer().sandbox)
    for place in (0, 140, len(copies) - 1):
        shown = fresh.preview(look, copies[place], dpi=100, only_preview="back").sides["back"]
        (printed,) = rasterize_pages(sheets, dpi=100, pages=[2 * place + 1])
        assert image_of(shown).tobytes() == image_of(printed).tobytes()


def test_a_batch_made_twice_has_the_same_bytes_but_for_the_time_in_its_metadata() -> None:
    looks = samples() | {0: design(front=picture(), background=picture("PNG"))}
    copies = [copy_of(key, addressee) for key in looks for addressee in (JENNY, ODD)]
    then, again = (compose_item(looks, copies, made_at=datetime(2026, 1, 1, tzinfo=UTC)) for _ in range(2))
    assert then == again
    later = compose_item(looks, copies, made_at=datetime(2026, 1, 2, tzinfo=UTC))
    assert then.sheets != later.sheets
    assert then.page_ranges == later.page_ranges
    assert objects_without_dates(then.sheets) == objects_without_dates(later.sheets)
    assert objects_without_dates(then.envelopes) == objects_without_dates(later.envelopes)


def objects_without_dates(pdf: bytes | None) -> list[bytes]:
    """Every object but the document's information, its metadata, and the streams that only hold other objects."""
    file = Pages(pdf or b"")
    document = file.document
    apart = {document.trailer.Info.objgen, document.Root.Metadata.objgen}
    things = [thing for thing in document.objects if isinstance(thing, pikepdf.Object) and thing.objgen not in apart]
    streams = {thing.objgen: thing.read_raw_bytes() for thing in things if isinstance(thing, pikepdf.Stream)}
    containers = {
        thing.objgen for thing in things if thing.objgen in streams and thing.get("/Type") in ("/ObjStm", "/XRef")
    }
    kept = [thing for thing in things if thing.objgen not in containers]
    return [thing.unparse(resolved=True) + streams.get(thing.objgen, b"") for thing in kept]


# Only a change that is meant to change what is printed may change these.
PRINTED = {
    "85b36c0b23511a74": design(hand=HALF_JOINED),
    "9d2a7ede7a4b4ae4": design("postcard-6x9", hand=UNJOINED),
    "41eb3a41862713ea": design("notecard", SHORT_MESSAGE, hand=JOINED),
    "ab08d8537b664ac1": design("windowlessletter", hand=LETTERING),
    "6bb9af831ebfca3a": design("postcard-6x11", hand=HALF_JOINED, manner="neat", font_size="small"),
    "cd7a0381f5d81637": design("giftcard", SHORT_MESSAGE, hand=HALF_JOINED),
    "fb17a434413fed30": design("letter", "Привет, %NAME%! ½ ﬁ … „Grüße“ 李", hand=UNJOINED),
}


def test_pages_are_what_they_are_on_every_machine_and_in_another_process_with_another_hash_seed() -> None:
    copies = [copy(42, ODD, qr_url=QR_URL, claim=CLAIM)]
    found = [pages_of({0: look}, copies, only_own=True)[0] for look in PRINTED.values()]
    assert [*map(digest, found)] == [*PRINTED]
    program = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "import hashlib, test_batches as t\n"
        "looks = t.samples()\n"
        "made = t.compose_item(looks, [t.copy_of(key, t.ODD) for key in looks])\n"
        "print(hashlib.sha256(made.sheets + made.envelopes).hexdigest())"
    )
    looks = samples()
    made = compose_item(looks, [copy_of(key, ODD) for key in looks])
    command, environment = (
        [sys.executable, "-c", program, str(Path(__file__).parent), *sys.path],
        os.environ | {"PYTHONHASHSEED": "1"},
    )
    there = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    assert there.stdout.strip() == hashlib.sha256(made.sheets + (made.envelopes or b"")).hexdigest()


def digest(pages: list[Drawing]) -> str:
    parts = [part.encode() if isinstance(part, str) else part for page in pages for part in page]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
