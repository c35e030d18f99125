"""The same pieces give the same bytes: in any batch, in any order, in any process, on any machine."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pikepdf
import pytest

from quillpost.rendering.models import Addressee, Copy, Design, GiftcardClaim
from support.designs import (
    HANDS,
    JENNY,
    JOINED,
    MESSAGE,
    ONE_SHAPE,
    OUTLINES,
    PIECES,
    QR_URL,
    SHORT_MESSAGE,
    STROKES,
    compose_item,
    copy,
    design,
    picture,
)
from support.page_reader import Pages

CLAIM = GiftcardClaim("7ABC-DEFG-HJKMN-PQRS-TVWX-YZ012", "https://q.example.com/gift/7ABCDEFGHJKMNPQRSTVWXYZ012")
ODD = replace(JENNY, name="José O'Brien-Жуков 李", company="Ünïcode & Ŝønş")


def own_part(looks: Design | Mapping[Any, Design], copies: Sequence[Copy], place: int = 0) -> list[bytes]:
    """What is one piece's alone, on its pages and its envelope, of a batch that is made for it."""
    printed = compose_item(looks, copies)
    first, last = printed.page_ranges[place]
    sheets = Pages(printed.sheets)
    pages = [sheets.streams(page) for page in range(first - 1, last)]
    designs: Mapping[Any, Design] = {0: looks} if isinstance(looks, Design) else looks
    has_envelope = [PIECES[designs[one.design].product].envelope is not None for one in copies]
    if printed.envelopes and has_envelope[place]:
        pages.append(Pages(printed.envelopes).streams(sum(has_envelope[:place])))
    # The first stream of a page is its design's.
    return [stream for streams in pages for stream in streams[1:]]


def samples() -> dict[int, Design]:
    """A look for each hand, one of them even, each on another piece."""
    pieces = ("postcard-4x6", "notecard", "windowlessletter", "postcard-6x9", "letter")
    looks = {hand: design(piece, SHORT_MESSAGE, hand=hand) for hand, piece in zip(HANDS, pieces, strict=True)}
    return looks | {100: replace(looks[STROKES], realism=False), 101: design("giftcard", MESSAGE[:90])}


def copy_of(key: int, addressee: Addressee = JENNY) -> Copy:
    return copy(1000 + key, addressee, design=key, qr_url=QR_URL, claim=CLAIM)


def test_a_batch_made_twice_has_the_same_bytes() -> None:
    looks = samples() | {0: design(front=picture(), background=picture("PNG"))}
    copies = [copy_of(key, addressee) for key in looks for addressee in (JENNY, ODD)]
    assert compose_item(looks, copies) == compose_item(looks, copies)


@pytest.mark.parametrize("key", list(samples()))
def test_a_piece_is_the_same_alone_among_others_and_in_any_order(key: int) -> None:
    looks = samples()
    alone = own_part(looks[key], [replace(copy_of(key), design=0)])
    assert alone
    looks |= {200: design("postcard-6x9", MESSAGE + MESSAGE), 201: design("letter", MESSAGE * 5)}
    others = [copy(number, ODD, design=other) for number, other in enumerate(looks)]
    crowd = [copy(5000 + number, ODD, design=200 + number % 2) for number in range(40)]
    assert own_part(looks, [copy_of(key), *others]) == alone
    assert own_part(looks, [*others, copy_of(key)], len(others)) == alone
    assert own_part(looks, [*reversed(others), *crowd, copy_of(key), *others], len(others) + 40) == alone


def test_the_same_words_are_written_differently_to_everyone() -> None:
    copies = [copy(1, replace(JENNY, address=f"{number} Elm St"), tracking=None) for number in (8, 9)]
    same = design("postcard-6x9", "Thank you all so much")
    one, other = (own_part(same, copies, place)[0].split(b"ET\n")[0] for place in (0, 1))
    assert one != other


def test_a_piece_is_written_the_same_whatever_its_number() -> None:
    copies = [copy(1), copy(10**12)]
    assert own_part(design(), copies, 0) == own_part(design(), copies, 1)


def test_the_time_of_making_is_in_the_metadata_alone() -> None:
    then, later = (
        compose_item(samples(), [copy_of(key) for key in samples()], made_at=datetime(2026, 1, day, tzinfo=UTC))
        for day in (1, 2)
    )
    assert then.sheets != later.sheets
    assert then.page_ranges == later.page_ranges
    assert objects_without_dates(then.sheets) == objects_without_dates(later.sheets)
    assert objects_without_dates(then.envelopes) == objects_without_dates(later.envelopes)


def objects_without_dates(pdf: bytes | None) -> list[bytes]:
    """Every object but the document's information and its metadata."""
    assert pdf
    file = Pages(pdf)
    document = file.document
    apart = {document.trailer.Info.objgen, document.Root.Metadata.objgen}
    return [
        thing.unparse(resolved=True) + (thing.read_raw_bytes() if isinstance(thing, pikepdf.Stream) else b"")
        for thing in document.objects
        if isinstance(thing, pikepdf.Object) and thing.objgen not in apart and not is_container(thing)
    ]


def is_container(thing: pikepdf.Object) -> bool:
    """Streams of other objects, which are looked at by themselves."""
    return isinstance(thing, pikepdf.Stream) and thing.get("/Type") in ("/ObjStm", "/XRef")


# Only a change that is meant to change what is printed may change these.
GOLDEN = {
    "postcard-4x6 in strokes": "0b181ef554e4b3a2",
    "postcard-6x9 in outlines": "b88de58d491f6b78",
    "notecard in a joined hand": "b3575dd7c6a5c348",
    "windowless letter in one shape": "95095d06e3fe7c66",
    "even postcard-6x11": "fd3218d337febbfd",
    "gift card": "1fde7045c52f7c1f",
    "odd letters": "09e8695925e70dad",
}


def golden() -> dict[str, str]:
    looks = {
        "postcard-4x6 in strokes": design(hand=STROKES),
        "postcard-6x9 in outlines": design("postcard-6x9", hand=OUTLINES),
        "notecard in a joined hand": design("notecard", SHORT_MESSAGE, hand=JOINED),
        "windowless letter in one shape": design("windowlessletter", hand=ONE_SHAPE),
        "even postcard-6x11": design("postcard-6x11", hand=STROKES, realism=False, font_size="small"),
        "gift card": design("giftcard", SHORT_MESSAGE, hand=STROKES),
        "odd letters": design("letter", "Привет, %NAME%! ½ ﬁ … „Grüße“ 李", hand=OUTLINES),
    }
    found = {}
    for name, look in looks.items():
        own = own_part(look, [copy(42, ODD, qr_url=QR_URL, claim=CLAIM)])
        found[name] = hashlib.sha256(b"\0".join(own)).hexdigest()[:16]
    return found


def test_pages_are_what_they_are_on_every_machine() -> None:
    assert golden() == GOLDEN


def test_another_process_with_another_hash_seed_makes_the_same_bytes() -> None:
    program = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "import hashlib, test_determinism as t\n"
        "looks = t.samples()\n"
        "made = t.compose_item(looks, [t.copy_of(key, t.ODD) for key in looks])\n"
        "print(hashlib.sha256(made.sheets + made.envelopes).hexdigest())"
    )
    looks = samples()
    made = compose_item(looks, [copy_of(key, ODD) for key in looks])
    here = hashlib.sha256(made.sheets + (made.envelopes or b"")).hexdigest()
    there = subprocess.run(
        [sys.executable, "-c", program, *sys.path],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "1"},
    )
    assert there.stdout.strip() == here


def test_every_piece_has_its_own_pages_whatever_came_before() -> None:
    """A batch remembers words, takes and codes; none of it may show."""
    looks: dict[Any, Design] = {number: design(piece, SHORT_MESSAGE) for number, piece in enumerate(PIECES)}
    copies = [copy(number, design=number % len(looks), qr_url=f"{QR_URL}/{number}") for number in range(24)]
    together = compose_item(looks, copies)
    sheets = Pages(together.sheets)
    for (first, last), one in zip(together.page_ranges, copies, strict=True):
        alone = Pages(compose_item(looks[one.design], [replace(one, design=0)]).sheets)
        for page in range(last - first + 1):
            assert alone.streams(page) == sheets.streams(first - 1 + page)
