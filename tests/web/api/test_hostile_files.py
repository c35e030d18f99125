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
from support import hostile_files
from support.factories import Account, postcard
from support.fake_server import ScriptedServer
from support.hostile_files import measure_peak, wait_for_children
from support.mailing_lists import Importer, ListOwner
from support.raw_http import real_server
from support.test_client import TestClient
from support.traces import traces

pytestmark = pytest.mark.usefixtures("loopback_urls")

LITTLE = 100_000_000
"""Bytes that the server may take for a moment: it holds the file itself, and never what is in it."""
PLENTY = 60.0

PDF, MORE_PAGES = "pdf_only_url", "additional_pages_url"
TOO_MUCH = "draws too much: more than 1,000,000 things, each counted as often as it is repeated"
LARGE_DRAWING = "The drawing of page 1 of the PDF is damaged, or larger than 50 MB"
UNREADABLE = "The PDF is damaged or too complex to be read"
TOO_WIDE = "The image has 60000 x 60000 pixels; at most 60.0 million are accepted"
# `test_refused_art.py` counts what more kinds of drawings draw.
REFUSED: list[tuple[str, Callable[[], bytes], str]] = [
    (PDF, files.nested_forms, TOO_MUCH), (MORE_PAGES, files.nested_forms, TOO_MUCH),
    (PDF, files.endless_tiles, TOO_MUCH), (PDF, files.many_shadings, TOO_MUCH),
    (PDF, files.inflating_content, LARGE_DRAWING), (PDF, hostile_files.self_drawing, TOO_MUCH),
    (PDF, hostile_files.broken_nesting, TOO_MUCH), (PDF, hostile_files.repeated_image, TOO_MUCH),
    (PDF, hostile_files.huge_image, "holds a picture of 90000 x 40000 pixels"),
    (PDF, hostile_files.huge_page, "Page 1 of the PDF has no size that can be printed"),
    (PDF, hostile_files.deep_tree, UNREADABLE), (PDF, hostile_files.endless_tree, UNREADABLE),
    (PDF, hostile_files.many_pages, UNREADABLE), (PDF, hostile_files.huge_xref_stream, UNREADABLE),
    ("front_image_url", files.wide_bitmap, TOO_WIDE), ("custom_background_image", files.wide_bitmap, TOO_WIDE),
]  # fmt: skip
ODD: list[tuple[str, Callable[[], bytes]]] = [
    (PDF, hostile_files.huge_xref),
    (PDF, hostile_files.deep_values),
    (PDF, hostile_files.packed_twice),
    # Four hundred megabytes behind a header of half a million pixels: only those are looked at.
    ("front_image_url", files.swollen_pixels),
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


class WatchedPool:
    """The decoder, and what becomes of the drawings that it is asked for."""

    def __init__(self) -> None:
        self.works: list[str] = []
        self.begun, self.ended, self.may_fail = Event(), Event(), Event()
        self.may_fail.set()
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
            assert self.may_fail.wait(PLENTY)
            raise
        finally:
            self.ended.set()


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with Shop() as server:
        yield server


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> WatchedPool:
    pool = WatchedPool()
    monkeypatch.setattr(decoder_service, "DECODER_POOL", pool)
    return pool


@pytest.fixture(scope="module", autouse=True)
def _ready() -> None:
    """What a first call loads is none of its file's doing."""
    decoder_service.make_printable_pages_in_sandbox(files.honest_pdf(2_000))


def preview(account: Account, field: str, url: str) -> Any:
    message = None if field == PDF else "Hi!"
    piece = "letter" if field in (PDF, MORE_PAGES) else "postcard"
    return account.send(piece, **{"message": message, field: url, "preview": True})


def test_a_hostile_file_is_refused_by_its_field_and_costs_the_server_nothing(
    owner: Account, container: Container, shop: Shop, subtests: pytest.Subtests
) -> None:
    before = traces(container)
    for field, make, sentence in REFUSED:
        with subtests.test(make.__name__, field=field):
            url = shop.offer(make())
            with measure_peak() as seen:
                refused = preview(owner, field, url)
            assert refused.status_code == 422, refused.text
            [error] = refused.json()["errors"][field]
            assert sentence in error
            assert sentence == TOO_WIDE or error.startswith("The PDF cannot be printed: ")
            assert seen.grown < LITTLE
    assert traces(container) == before
    assert wait_for_children()


def test_what_is_only_odd_is_printed(owner: Account, shop: Shop, subtests: pytest.Subtests) -> None:
    for field, make in ODD:
        with subtests.test(make.__name__):
            url = shop.offer(make())
            with measure_peak() as seen:
                shown = preview(owner, field, url)
            assert shown.status_code == 200, shown.text
            assert seen.grown < LITTLE


def test_a_drawing_that_takes_too_long_is_refused_while_others_have_their_previews(
    owner: Account, stranger: Account, container: Container, shop: Shop, watched: WatchedPool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(decoder_service, "DRAW_SECONDS", 0)
    monkeypatch.setattr(decoder_service, "DRAW_PAGE_SECONDS", 1)  # for each of two sides
    watched.may_fail.clear()
    url = shop.offer(SLOW)
    order_id = owner.send("letter", message=None, pdf_only_url=url).json()["id"]
    with container.db.system_transaction() as tx:
        order = read_order(tx, order_id)
        [item] = list_first_items(tx, order_id, limit=1)
    with measure_peak() as seen, ThreadPoolExecutor(2) as threads:
        shown = threads.submit(preview, owner, PDF, url)
        printed = threads.submit(draw_item, container.production, order, item)
        assert watched.begun.wait(PLENTY)
        others = [stranger.send(preview=True) for _ in range(3)]
        assert not shown.done()
        assert not printed.done()
        watched.may_fail.set()
        refused = shown.result()
        with pytest.raises(Refused, match="This piece cannot be drawn: It takes more than 2 seconds"):
            printed.result()
    assert [each.status_code for each in others] == [200] * 3
    sentence = (
        "The PDF cannot be drawn. It takes more than 2 seconds to be drawn. Make it simpler, or save it"
        " as a picture, and send that."
    )
    assert (refused.status_code, refused.json()["errors"]) == (422, {PDF: [sentence]})
    assert seen.grown < LITTLE
    assert wait_for_children()


@pytest.mark.usefixtures("conninfo")  # the server's end is that of its application
def test_a_drawing_whose_client_has_gone_is_stopped(
    owner: Account, shop: Shop, watched: WatchedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoder_service, "DRAW_SECONDS", 1_000)
    body = postcard(message=None, pdf_only_url=shop.offer(SLOW), preview=True)
    sent = json.dumps({name: value for name, value in body.items() if value is not None}).encode()
    head = (
        "POST /api/v2/send/letter HTTP/1.1\r\nHost: quillpost.test\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {owner.token}\r\nContent-Length: {len(sent)}\r\n\r\n"
    )
    with real_server(owner.http.app) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=PLENTY) as line:
            line.sendall(head.encode() + sent)
            assert watched.begun.wait(PLENTY)
            assert not watched.ended.is_set()
        assert watched.ended.wait(PLENTY)
    assert isinstance(watched.failure, ClientDisconnected)
    assert wait_for_children()


def test_a_proof_is_assembled_by_children(owner: Account, shop: Shop, watched: WatchedPool, http: TestClient) -> None:
    url = shop.offer(files.honest_pdf(3_000))
    order = owner.send("letter", message="Hi!", additional_pages_url=url).json()["id"]
    watched.works.clear()
    opened = http.get(urlsplit(owner.get(f"/orders/{order}").json()["high_quality_preview"]).path)
    assert opened.content.startswith(b"%PDF-")
    assert watched.works == ["copy", "join"]


def endless_list(entries: int) -> bytes:
    """An archive that is nothing but a list of what is in it."""
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0)
    listed = (entry + b"a") * entries
    first = b"PK\3\4" + bytes(26)
    return first + listed + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, len(listed), len(first), 0)


WIDE_ROW = b"ab," * 330_000 + b"\n"
NO_WORKBOOK = "This file is a zip archive and no workbook"
TABLES: dict[str, tuple[str, Callable[[], bytes], str, int]] = {
    "inflates": ("people.xlsx", lambda: files.packed_sheet(150), "damaged, or too large to be read", 20_000_000),
    "endless list": ("people.xlsx", lambda: endless_list(100_000), NO_WORKBOOK, 25_000_000),
    "wide rows": ("people.csv", lambda: WIDE_ROW * 10, "The file has 330,001 columns, and may have 1,000", LITTLE),
    "endless line": ("people.csv", lambda: b"ab," * 3_000_000, "line of the file is longer than 1,000,000", 20_000_000),
}
"""With the bytes that the server and the test's own client may take: less than what is in the file would."""


@pytest.fixture
def importer(owner: Account, container: Container) -> Importer:
    importer = Importer(ListOwner(owner), container)
    importer.upload(0, b"Name,Email\nJane,jane@example.com\n", to="/imports/preview")
    return importer


def test_hostile_tables_cost_nothing(importer: Importer, container: Container, subtests: pytest.Subtests) -> None:
    """In the service and in the worker: cells that are not kept are not held."""
    before = traces(container)
    for case, (name, make, sentence, most) in TABLES.items():
        with subtests.test(case):
            data = make()
            with measure_peak() as seen:
                refused = importer.upload(0, data, name=name, to="/imports/preview")
            assert refused.status_code == 422, refused.text
            assert sentence in refused.json()["errors"]["file"][0]
            assert seen.grown < most
    assert traces(container) == before
    data = b"Name,Street,City,State,Zip\nJane Doe,12 Main St,Austin,TX,78701\n" + WIDE_ROW * 10
    with measure_peak() as seen:
        done = importer.run(importer.lists.make(), data)
    assert (done["rows_imported"], done["rows_rejected"]) == (1, 10)
    assert "330,001 columns" in importer.rejected(done["id"])[1][1]
    assert seen.grown < LITTLE
