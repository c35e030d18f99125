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

from quillpost.rendering.models import Addressee, Copy, Design
from support.designs import (
    CLAIM,
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

ODD = replace(JENNY, name="José O'Brien-Жуков 李", company="Ünïcode & Ŝønş")


def pages_of(looks: Mapping[Any, Design], copies: Sequence[Copy]) -> list[list[list[bytes]]]:
    """For each piece the streams of its pages and its envelope."""
    printed = compose_item(looks, copies)
    sheets, found = Pages(printed.sheets), []
    envelopes = Pages(printed.envelopes) if printed.envelopes else None
    enveloped = 0
    for one, (first, last) in zip(copies, printed.page_ranges, strict=True):
        pages = [sheets.streams(page) for page in range(first - 1, last)]
        if envelopes and PIECES[looks[one.design].product].envelope:
            pages.append(envelopes.streams(enveloped))
            enveloped += 1
        found.append(pages)
    return found


def own_parts(pages: list[list[bytes]]) -> list[bytes]:
    """What is a piece's alone: the first stream of a page is its design's."""
    return [stream for streams in pages for stream in streams[1:]]


def samples() -> dict[int, Design]:
    """A look for each hand, one of them even, each on another piece."""
    pieces = ("postcard-4x6", "notecard", "windowlessletter", "postcard-6x9", "letter")
    looks = {hand: design(piece, SHORT_MESSAGE, hand=hand) for hand, piece in zip(HANDS, pieces, strict=True)}
    return looks | {100: replace(looks[STROKES], realism=False), 101: design("giftcard", MESSAGE[:90])}


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
    # A batch remembers words, takes and codes; none of it may show.
    every: dict[Any, Design] = {number: design(piece, SHORT_MESSAGE) for number, piece in enumerate(PIECES)}
    copies = [copy(number, design=number % len(every), qr_url=f"{QR_URL}/{number}") for number in range(24)]
    assert pages_of(every, copies) == [pages_of(every, [one])[0] for one in copies]


def test_the_same_words_are_written_differently_to_everyone_whatever_a_pieces_number() -> None:
    copies = [copy(1, replace(JENNY, address=f"{number} Elm St"), tracking=None) for number in (8, 9)]
    one, other = map(own_parts, pages_of({0: design("postcard-6x9", "Thank you all so much")}, copies))
    assert one[0].split(b"ET\n")[0] != other[0].split(b"ET\n")[0]
    first, last = pages_of({0: design()}, [copy(1), copy(10**12)])
    assert first == last


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
    "0b181ef554e4b3a2": design(hand=STROKES),
    "b88de58d491f6b78": design("postcard-6x9", hand=OUTLINES),
    "b3575dd7c6a5c348": design("notecard", SHORT_MESSAGE, hand=JOINED),
    "95095d06e3fe7c66": design("windowlessletter", hand=ONE_SHAPE),
    "fd3218d337febbfd": design("postcard-6x11", hand=STROKES, realism=False, font_size="small"),
    "1fde7045c52f7c1f": design("giftcard", SHORT_MESSAGE, hand=STROKES),
    "09e8695925e70dad": design("letter", "Привет, %NAME%! ½ ﬁ … „Grüße“ 李", hand=OUTLINES),
}


def test_pages_are_what_they_are_on_every_machine() -> None:
    for expected, look in PRINTED.items():
        (pages,) = pages_of({0: look}, [copy(42, ODD, qr_url=QR_URL, claim=CLAIM)])
        assert hashlib.sha256(b"\0".join(own_parts(pages))).hexdigest()[:16] == expected


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
    command, environment = [sys.executable, "-c", program, *sys.path], os.environ | {"PYTHONHASHSEED": "1"}
    there = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    assert there.stdout.strip() == hashlib.sha256(made.sheets + (made.envelopes or b"")).hexdigest()
