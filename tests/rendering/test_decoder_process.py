"""The process that reads what strangers send: it may die in any way, and the service goes on. Nobody else reads it."""

import io
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pikepdf
import pytest
from PIL import Image

import quillpost
from quillpost.core.errors import Invalid, Unavailable
from quillpost.core.ports import FetchedDocument
from quillpost.core.requests import ClientConnection, ClientDisconnected, client_context
from quillpost.orders.templates.images import FetchedPages, FetchedPicture, FileToFetch, fetch_images, fetch_pages
from quillpost.rendering.decoder import service as decoder_service
from quillpost.rendering.decoder.messages import MessageHead, send_message
from quillpost.rendering.decoder.service import (
    DECODER_POOL,
    DecoderDied,
    DecoderPool,
    DecoderTimeout,
    make_printable_pages_in_sandbox,
    make_printable_picture_in_sandbox,
)
from quillpost.rendering.images.pdfs import count_pages
from quillpost.rendering.images.rules import UnprintableImage, UnprintablePdf
from support.designs import picture

PLENTY = 60
SUPPORT = str(Path(__file__).parents[1] / "support")
IMAGES = [f"images.{name}" for name in ("complexity", "inspection", "objects", "pages", "pdfs", "pictures")]
CHILDREN = {f"quillpost.rendering.{name}" for name in ("decoder.worker", "decoder.tasks", *IMAGES)}
CHILDREN |= {"quillpost.recipients.imports.workbook_reader"}
"""The modules of the processes that may be lost."""


@pytest.fixture(scope="module")
def decoder_pool() -> Iterator[DecoderPool]:
    """One whose work goes wrong when it is asked to."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", SUPPORT, prepend=os.pathsep)
        patch.setenv("QUILLPOST_SECRET", "hunter2")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
        failing = DecoderPool("failing_decoder")
        yield failing
        failing.close()


def run(pool: DecoderPool, work: str, data: bytes = b"", *, cpu_seconds: int = PLENTY, seconds: float = PLENTY) -> Any:
    return pool.run(work, data, cpu_seconds=cpu_seconds, seconds=seconds)


def echoes(pool: DecoderPool, data: bytes = b"still here") -> bool:
    return bool(run(pool, "echo", data)[1] == data)


def page(size: tuple[int, int] = (595, 842), **how: Any) -> bytes:
    with pikepdf.new() as pdf:
        pdf.add_blank_page(page_size=size)
        file = io.BytesIO()
        pdf.save(file, **how)
        return file.getvalue()


class Shop:
    """Answers every fetch with the same bytes."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def fetch(self, url: str, *, max_bytes: int) -> FetchedDocument:
        assert len(self._body) <= max_bytes
        return FetchedDocument("text/plain", self._body)


def test_pictures_and_pages_come_back_printable_or_refused_with_a_sentence() -> None:
    for file_format, mode in (("JPEG", "RGB"), ("JPEG", "CMYK"), ("PNG", "P"), ("PNG", "LA")):
        made = make_printable_picture_in_sandbox(picture(file_format, mode, colour=0))
        assert (made.content_type, made.width, made.height) == (f"image/{file_format.lower()}", 60, 40)
        assert make_printable_picture_in_sandbox(made.data).data == made.data
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x0112] = 6
    Image.new("RGB", (90, 60)).save(file, "JPEG", exif=exif)
    turned = make_printable_picture_in_sandbox(file.getvalue())
    assert (turned.width, turned.height) == (60, 90)
    pages = make_printable_pages_in_sandbox(page())
    assert (pages.count, pages.notes) == (1, ("Page 1: 8.26 x 11.69 in, scaled to fit 8.5 x 11 in.",))
    locked = page((612, 792), encryption=pikepdf.Encryption(user="", owner="owner", R=6))
    assert make_printable_pages_in_sandbox(locked).count == 1
    with pytest.raises(UnprintableImage, match="it is a GIF picture"):
        make_printable_picture_in_sandbox(picture("GIF", "P", colour=0))
    with pytest.raises(UnprintablePdf, match="it is a GIF picture"):
        make_printable_pages_in_sandbox(picture("GIF", "P", colour=0))


class Liar:
    """A pool whose child was taken over by what it read; those that look at what it made were not."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def run(self, work: str, data: bytes, **how: Any) -> object:
        if work != "pages":
            return DECODER_POOL.run(work, data, **how)
        return {"notes": [], "count": 1, "width": 60, "height": 40}, self._body


def test_what_is_fetched_is_what_is_printed_or_refused_by_its_field() -> None:
    (fetched,) = fetch_images(Shop(picture("PNG", "RGBA")), [FileToFetch("https://example.com/", "front_image_url")])
    assert isinstance(fetched, FetchedPicture)
    assert (fetched.content_type, fetched.width, fetched.height) == ("image/png", 60, 40)
    pages = fetch_pages(Shop(page()), FileToFetch("https://example.com/", "pdf_url"))
    assert isinstance(pages, FetchedPages)
    assert (pages.content_type, count_pages(pages.body)) == ("application/pdf", 1)
    with pytest.raises(Invalid) as refusal:
        fetch_pages(Shop(picture("PNG")), FileToFetch("https://example.com/", "pdf_url"))
    assert refusal.value.fields == {"pdf_url": ["The PDF cannot be printed: The file is no PDF: it is a PNG picture."]}


def test_a_decoder_and_its_children_may_die_and_one_that_cannot_start_is_unavailable(
    decoder_pool: DecoderPool, subtests: pytest.Subtests
) -> None:
    assert echoes(decoder_pool)
    before = decoder_pool.pid
    for fate in ("eat", "die", "crash", "fail", "babble"):
        with subtests.test(fate):
            with pytest.raises(DecoderDied):
                run(decoder_pool, fate)
            assert echoes(decoder_pool)
            assert decoder_pool.pid == before
    assert echoes(decoder_pool)
    killed = decoder_pool.pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    assert echoes(decoder_pool)
    assert decoder_pool.pid != killed
    absent = DecoderPool("json.no_such_module")
    try:
        with pytest.raises(Unavailable):
            echoes(absent)
    finally:
        absent.close()


def test_a_spinning_child_is_stopped_and_gives_way(decoder_pool: DecoderPool, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DecoderTimeout):
        run(decoder_pool, "wait", seconds=0.2)
    assert echoes(decoder_pool)
    with ThreadPoolExecutor(2) as threads:
        spinning = threads.submit(run, decoder_pool, "spin", cpu_seconds=1)
        assert all(echoes(decoder_pool) for _ in range(5))
        with pytest.raises(DecoderTimeout):
            spinning.result()
    assert echoes(decoder_pool)
    monkeypatch.setattr(decoder_service, "SHORT_SECONDS", 0.1)
    head, _ = run(decoder_pool, "linger")
    assert head["priority"] > 0
    assert os.getpriority(os.PRIO_PROCESS, 0) == 0


def test_a_child_ends_when_its_client_goes(decoder_pool: DecoderPool) -> None:
    client, working = ClientConnection(), Event()

    def work() -> None:
        with client_context(client):
            working.set()
            run(decoder_pool, "wait")

    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(work)
        assert working.wait(PLENTY)
        client.disconnect()
        with pytest.raises(ClientDisconnected):
            done.result(PLENTY / 2)
    assert echoes(decoder_pool)


def test_a_child_cannot_read_write_or_connect_and_threads_get_their_own_answers(decoder_pool: DecoderPool) -> None:
    assert run(decoder_pool, "look_around")[0] == {"read": False, "write": False, "connect": False}
    known = run(decoder_pool, "environment")[0]
    assert "PATH" in known
    assert "hunter2" not in known.values()
    assert run(decoder_pool, "refuse") == ({"refused": "Not this one."}, b"")
    payloads = [bytes([n]) * 300_000 for n in range(12)]
    with ThreadPoolExecutor(6) as threads:
        assert all(threads.map(lambda payload: echoes(decoder_pool, payload), payloads))


def test_nothing_is_sent_after_a_message_is_whole() -> None:
    """Whoever has it may have answered and gone."""
    ours, theirs = socket.socketpair()
    with theirs:

        class Wire(socket.socket):
            def sendall(self, data: object, flags: int = 0) -> None:
                super().sendall(data, flags)  # type: ignore[arg-type]
                theirs.close()

        with Wire(fileno=ours.detach()) as wire:
            send_message(wire, {"work": "echo"})


class Always:
    """A pool that does one kind of work, whatever it is asked for, and has little patience."""

    def __init__(self, pool: DecoderPool, work: str) -> None:
        self._pool = pool
        self._work = work

    def run(self, work: str, data: bytes, *, cpu_seconds: int, seconds: float, options: MessageHead | None) -> object:
        return self._pool.run(self._work, data, cpu_seconds=cpu_seconds, seconds=0.2, options=options)


def test_pages_that_a_child_claims_to_have_made_are_looked_at_and_art_that_kills_its_reader_is_bad_art(
    decoder_pool: DecoderPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fate, reason in (("die", "damaged or too complex"), ("wait", "took too long")):
        monkeypatch.setattr(decoder_service, "DECODER_POOL", Always(decoder_pool, fate))
        with pytest.raises(UnprintableImage, match=reason):
            make_printable_picture_in_sandbox(b"")
        with pytest.raises(UnprintablePdf, match=reason):
            make_printable_pages_in_sandbox(b"")
    for body in (b"", b"%PDF-1.6 startxref", picture("PNG")):
        monkeypatch.setattr(decoder_service, "DECODER_POOL", Liar(body))
        with pytest.raises(UnprintablePdf, match="damaged or too complex"):
            make_printable_pages_in_sandbox(page())


def test_nothing_is_left_when_the_service_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "from quillpost.rendering.decoder.service import DecoderPool\n"
        "decoder_pool = DecoderPool('failing_decoder')\n"
        "decoder_pool.run('echo', b'', cpu_seconds=9, seconds=9)\n"
        "print(decoder_pool.pid, flush=True)\n"
        "decoder_pool.run('wait', b'', cpu_seconds=9, seconds=60)\n"
    )
    monkeypatch.setenv("PYTHONPATH", SUPPORT, prepend=os.pathsep)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as service:
        assert service.stdout is not None
        watched = os.pidfd_open(int(service.stdout.readline()))
        try:
            service.kill()
            ended, _, _ = select.select([watched], [], [], PLENTY)
            assert ended
        finally:
            os.close(watched)


LOADING = """
import importlib, json, sys
groups, readers = json.loads(sys.stdin.read())
for names in groups:
    for name in names:
        importlib.import_module(name)
    print(json.dumps([reader for reader in readers if reader in sys.modules]))
"""


def test_the_whole_service_runs_without_anything_that_reads_strangers_files() -> None:
    readers = ["pikepdf", "pypdfium2", "PIL", "python_calamine", "zipfile"]
    programs = {"quillpost.__main__", "quillpost.core.database.migrations.env"}  # they run when they are imported
    found = {each.name for each in pkgutil.walk_packages(quillpost.__path__, "quillpost.")}
    others = sorted(found - CHILDREN - programs)
    given, command = json.dumps([[others, sorted(CHILDREN)], readers]), [sys.executable, "-c", LOADING]
    loaded = subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout.splitlines()
    service, with_children = map(json.loads, loaded)
    assert set(service) <= {"zipfile"}, "libraries unpack their own with it"
    assert with_children == readers
    package = Path(quillpost.__file__).parent
    sources = {file.relative_to(package).as_posix(): file.read_text("utf-8") for file in package.rglob("*.py")}
    archives = {"recipients/imports/workbook_reader.py", "rendering/handwriting/models.py"}
    assert {name for name, source in sources.items() if "import zipfile" in source} == archives
