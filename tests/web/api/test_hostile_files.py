"""Files that are made to hurt: refused by their field in a sentence, by children that may be lost, and
without any harm to the server, to other callers or to what is kept."""

import json
import socket
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any
from urllib.parse import urlsplit

import pytest
from benchmarks.hostile import files

from quillpost.app.container import Container
from quillpost.core.errors import Refused
from quillpost.core.requests import ClientDisconnected
from quillpost.fulfillment.service import draw_item
from quillpost.orders.items.queries import list_first_items
from quillpost.orders.queries import read_order
from quillpost.rendering.decoder import service as decoder_service
from quillpost.rendering.decoder.service import DECODER_POOL
from quillpost.web.application import create_app
from support import hostile_pdfs
from support.factories import Account, Build, postcard
from support.imports import Importer
from support.mailing_lists import ListOwner
from support.memory_peaks import measure_peak, wait_for_children
from support.raw_http import real_server
from support.scripted_server import ScriptedServer
from support.test_client import TestClient
from support.traces import traces

LITTLE = 100_000_000
"""Bytes that the server may take for a moment: it holds the file itself, and never what is in it."""
PLENTY = 60.0

TOO_MUCH = "draws too much: more than 1,000,000 things, each counted as often as it is repeated"
LARGE_DRAWING = "The drawing of page 1 of the PDF is damaged, or larger than 50 MB"
UNREADABLE = "The PDF is damaged or too complex to be read"

PDFS: list[tuple[Callable[[], bytes], str]] = [
    (files.nested_forms, TOO_MUCH),
    (files.nested_patterns, TOO_MUCH),
    (files.endless_tiles, TOO_MUCH),
    (files.drawn_letters, TOO_MUCH),
    (files.soft_masks, TOO_MUCH),
    (files.many_shadings, TOO_MUCH),
    (files.inflating_content, LARGE_DRAWING),
    (hostile_pdfs.self_drawing, TOO_MUCH),
    (hostile_pdfs.broken_nesting, TOO_MUCH),
    (hostile_pdfs.repeated_image, TOO_MUCH),
    (hostile_pdfs.huge_image, "holds a picture of 90000 x 40000 pixels"),
    (hostile_pdfs.huge_page, "Page 1 of the PDF has no size that can be printed"),
    (hostile_pdfs.deep_tree, UNREADABLE),
    (hostile_pdfs.endless_tree, UNREADABLE),
    (hostile_pdfs.many_pages, UNREADABLE),
    (hostile_pdfs.huge_xref_stream, UNREADABLE),
]

SLOW = files.many_shadings(9_000)
"""It is within what a page may draw, and takes many times what a preview may."""


class Shop(ScriptedServer):
    """Answers with whatever it was given last."""

    def __init__(self) -> None:
        self.body = b""
        super().__init__(self._give)

    def _give(self, connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + self.body)

    def offer(self, body: bytes) -> str:
        self.body = body
        return self.url("/file")


class Watched:
    """The nursery, and what becomes of the drawings that it is asked for."""

    def __init__(self) -> None:
        self.works: list[str] = []
        self.begun, self.ended = Event(), Event()
        self.failure: BaseException | None = None

    def run(self, work: str, data: bytes, **how: Any) -> object:
        self.works.append(work)
        if work != "draw":
            return DECODER_POOL.run(work, data, **how)
        self.begun.set()
        try:
            return DECODER_POOL.run(work, data, **how)
        except BaseException as failure:
            self.failure = failure
            raise
        finally:
            self.ended.set()


@pytest.fixture
def container(build: Build) -> Container:
    """Files may be on loopback here."""
    return build(allow_private_urls=True)


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with Shop() as server:
        yield server


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    seen = Watched()
    monkeypatch.setattr(decoder_service, "DECODER_POOL", seen)
    return seen


@pytest.fixture(scope="module", autouse=True)
def _ready() -> None:
    """What a first call loads is none of its file's doing."""
    decoder_service.make_printable_pages_in_sandbox(files.honest_pdf(2_000))


def preview(account: Account, url: str) -> Any:
    return account.send("letter", message=None, pdf_only_url=url, preview=True)


@pytest.mark.parametrize(("make", "sentence"), PDFS, ids=lambda each: getattr(each, "__name__", ""))
def test_a_hostile_pdf_is_refused_by_its_field_and_costs_the_server_nothing(
    owner: Account, container: Container, shop: Shop, make: Callable[[], bytes], sentence: str
) -> None:
    url = shop.offer(make())
    before = traces(container)
    with measure_peak() as seen:
        refused = preview(owner, url)
    assert refused.status_code == 422, refused.text
    (error,) = refused.json()["errors"]["pdf_only_url"]
    assert error.startswith("The PDF cannot be printed: ")
    assert sentence in error
    assert seen.grown < LITTLE
    assert traces(container) == before
    assert wait_for_children()


@pytest.mark.parametrize("field", ["pdf_only_url", "additional_pages_url"])
def test_every_field_that_takes_a_pdf_is_named(owner: Account, shop: Shop, field: str) -> None:
    url = shop.offer(files.nested_forms())
    refused = owner.send("letter", **{"message": None if field == "pdf_only_url" else "Hi!", field: url})
    assert refused.status_code == 422, refused.text
    (error,) = refused.json()["errors"][field]
    assert TOO_MUCH in error


def test_what_is_only_odd_is_printed(owner: Account, shop: Shop) -> None:
    for make in (hostile_pdfs.huge_xref, hostile_pdfs.deep_values, hostile_pdfs.packed_twice):
        with measure_peak() as seen:
            shown = preview(owner, shop.offer(make()))
        assert shown.status_code == 200, (make.__name__, shown.text)
        assert seen.grown < LITTLE


@pytest.mark.parametrize("field", ["front_image_url", "custom_background_image"])
def test_a_bitmap_of_billions_of_pixels_is_refused_by_its_field(
    owner: Account, container: Container, shop: Shop, field: str
) -> None:
    url = shop.offer(files.wide_bitmap())
    before = traces(container)
    with measure_peak() as seen:
        refused = owner.send(preview=True, **{field: url})
    assert refused.status_code == 422
    (error,) = refused.json()["errors"][field]
    assert "The image has 60000 x 60000 pixels; at most 60.0 million are accepted" in error
    assert seen.grown < LITTLE
    assert traces(container) == before


def test_pixels_that_swell_stay_in_the_child(owner: Account, shop: Shop) -> None:
    """Four hundred megabytes behind a header of half a million pixels: only those are looked at."""
    url = shop.offer(files.swollen_pixels())
    with measure_peak() as seen:
        shown = owner.send(preview=True, front_image_url=url)
    assert shown.status_code == 200, shown.text
    assert seen.grown < LITTLE


def test_a_drawing_that_takes_too_long_is_refused_while_others_have_their_previews(
    owner: Account, stranger: Account, container: Container, shop: Shop, watched: Watched,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(decoder_service, "DRAW_SECONDS", 2)
    url = shop.offer(SLOW)
    with measure_peak() as seen, ThreadPoolExecutor(3) as threads:
        slow = [threads.submit(preview, owner, url) for _ in range(3)]
        assert watched.begun.wait(PLENTY)
        others = [stranger.send(preview=True) for _ in range(3)]
        assert not all(each.done() for each in slow)
        answers = [each.result() for each in slow]
    assert [each.status_code for each in others] == [200] * 3
    for answer in answers:
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"]["pdf_only_url"] == [
            "The PDF cannot be drawn. It takes more than 4 seconds to be drawn. Make it simpler, or save it"
            " as a picture, and send that."
        ]
    assert seen.grown < LITTLE
    assert wait_for_children()


def test_a_drawing_whose_client_has_gone_is_stopped(
    owner: Account, container: Container, shop: Shop, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoder_service, "DRAW_SECONDS", 1_000)
    body = postcard(message=None, pdf_only_url=shop.offer(SLOW), preview=True)
    sent = json.dumps({name: value for name, value in body.items() if value is not None}).encode()
    head = (
        "POST /api/v2/send/letter HTTP/1.1\r\nHost: quillpost.test\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {owner.token}\r\nContent-Length: {len(sent)}\r\n\r\n"
    )
    with real_server(create_app(container)) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=PLENTY) as line:
            line.sendall(head.encode() + sent)
            assert watched.begun.wait(PLENTY)
            assert not watched.ended.is_set()
        assert watched.ended.wait(PLENTY)
    assert isinstance(watched.failure, ClientDisconnected)
    assert wait_for_children()


def endless_list(entries: int = 400_000) -> bytes:
    """An archive that is nothing but a list of what is in it."""
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0)
    listed = (entry + b"a") * entries
    first = b"PK\3\4" + bytes(26)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, len(listed), len(first), 0)
    return first + listed + end


WIDE_ROWS = b"Name,Street,City\n" + (b"ab," * 330_000 + b"\n") * 25

TABLES = [
    ("people.xlsx", files.packed_sheet, "The workbook is damaged, or too large to be read"),
    ("people.xlsx", endless_list, "This file is a zip archive and no workbook"),
    ("people.csv", lambda: WIDE_ROWS[17:], "The file has 330,001 columns, and may have 1,000"),
    ("people.csv", lambda: b"ab," * 3_000_000, "A line of the file is longer than 1,000,000 bytes"),
]


@pytest.mark.parametrize(("name", "make", "sentence"), TABLES)
def test_a_hostile_table_is_refused_and_costs_the_server_nothing(
    owner: Account, container: Container, name: str, make: Callable[[], bytes], sentence: str
) -> None:
    importer = Importer(ListOwner(owner), container)
    data = make()
    importer.upload(0, b"Name,Email\nJane,jane@example.com\n", to="/imports/preview")
    before = traces(container)
    with measure_peak() as seen:
        refused = importer.upload(0, data, name=name, to="/imports/preview")
    assert refused.status_code == 422, refused.text
    assert sentence in refused.json()["errors"]["file"][0]
    assert seen.grown < LITTLE + 6 * len(data)  # the test's own client holds it several times
    assert traces(container) == before


def test_rows_of_nothing_but_commas_are_rejected_and_take_no_memory(owner: Account, container: Container) -> None:
    """In the service and in the worker: cells that are not kept are not held."""
    importer = Importer(ListOwner(owner), container)
    list_id = importer.lists.make()
    data = b"Name,Street,City,State,Zip\nJane Doe,12 Main St,Austin,TX,78701\n" + WIDE_ROWS[17:]
    with measure_peak() as seen:
        done = importer.run(list_id, data)
    assert (done["rows_imported"], done["rows_rejected"]) == (1, 25)
    assert "330,001 columns" in importer.rejected(done["id"])[1][1]
    assert seen.grown < LITTLE + 6 * len(data)


def test_a_proof_is_put_together_by_children(owner: Account, shop: Shop, watched: Watched, http: TestClient) -> None:
    url = shop.offer(files.honest_pdf(3_000))
    order = owner.send("letter", message="Hi!", additional_pages_url=url).json()["id"]
    watched.works.clear()
    proof = owner.get(f"/orders/{order}").json()["high_quality_preview"]
    opened = http.get(urlsplit(proof).path)
    assert opened.content.startswith(b"%PDF-")
    assert watched.works == ["copy", "join"]


def test_a_piece_that_draws_too_slowly_is_reported_when_viewed(
    owner: Account, container: Container, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    order_id = owner.send("letter", message=None, pdf_only_url=shop.offer(SLOW)).json()["id"]
    monkeypatch.setattr(decoder_service, "DRAW_SECONDS", 1)
    monkeypatch.setattr(decoder_service, "DRAW_PAGE_SECONDS", 0)
    with container.db.system_transaction() as tx:
        order = read_order(tx, order_id)
        [item] = list_first_items(tx, order_id, limit=1)
    with pytest.raises(Refused, match="This piece cannot be drawn: It takes more than 1 seconds"):
        draw_item(container.production, order, item)
