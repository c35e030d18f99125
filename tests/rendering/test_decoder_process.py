"""The process that reads what strangers send: it may die in any way, and the service goes on."""

import io
import os
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

PLENTY = 60


@pytest.fixture
def decoder_pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[DecoderPool]:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "support"), prepend=os.pathsep)
    failing = DecoderPool("failing_decoder")
    yield failing
    failing.close()


def echoes(decoder_pool: DecoderPool, data: bytes = b"still here") -> bool:
    return decoder_pool.run("echo", data, cpu_seconds=PLENTY, seconds=PLENTY)[1] == data


def picture(file_format: str = "PNG", mode: str = "RGB") -> bytes:
    file = io.BytesIO()
    Image.new(mode, (60, 40)).save(file, file_format)
    return file.getvalue()


def page() -> bytes:
    with pikepdf.new() as pdf:
        pdf.add_blank_page(page_size=(595, 842))
        file = io.BytesIO()
        pdf.save(file)
        return file.getvalue()


class Shop:
    """Answers every fetch with the same bytes."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def fetch(self, url: str, *, max_bytes: int) -> FetchedDocument:
        assert len(self._body) <= max_bytes
        return FetchedDocument("text/plain", self._body)


@pytest.mark.parametrize(("file_format", "mode"), [("JPEG", "RGB"), ("JPEG", "CMYK"), ("PNG", "P"), ("PNG", "LA")])
def test_a_picture_comes_back_printable(file_format: str, mode: str) -> None:
    made = make_printable_picture_in_sandbox(picture(file_format, mode))
    assert (made.content_type, made.width, made.height) == (f"image/{file_format.lower()}", 60, 40)
    assert make_printable_picture_in_sandbox(made.data).data == made.data


def test_pages_come_back_printable() -> None:
    made = make_printable_pages_in_sandbox(page())
    assert made.count == 1
    assert made.notes == ("Page 1: 8.26 x 11.69 in, scaled to fit 8.5 x 11 in.",)


def test_a_refusal_comes_back_with_its_sentence() -> None:
    with pytest.raises(UnprintableImage, match="it is a GIF picture"):
        make_printable_picture_in_sandbox(picture("GIF", "P"))
    with pytest.raises(UnprintablePdf, match="it is a GIF picture"):
        make_printable_pages_in_sandbox(picture("GIF", "P"))


class Liar:
    """A decoder_pool whose child was taken over by what it read; those that look at what it made were not."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._honest = DECODER_POOL

    def run(self, work: str, data: bytes, **how: Any) -> object:
        if work != "pages":
            return self._honest.run(work, data, **how)
        return {"notes": [], "count": 1, "width": 60, "height": 40}, self._body


@pytest.mark.parametrize("body", [b"", b"%PDF-1.6 startxref", picture()])
def test_pages_that_a_child_claims_to_have_made_are_looked_at(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    monkeypatch.setattr(decoder_service, "DECODER_POOL", Liar(body))
    with pytest.raises(UnprintablePdf, match="damaged or too complex"):
        make_printable_pages_in_sandbox(page())


def test_what_is_fetched_is_what_is_printed() -> None:
    files = [FileToFetch("https://example.com/", "front_image_url")]
    (fetched,) = fetch_images(Shop(picture("PNG", "RGBA")), files)
    assert isinstance(fetched, FetchedPicture)
    assert (fetched.content_type, fetched.width, fetched.height) == ("image/png", 60, 40)
    pages = fetch_pages(Shop(page()), FileToFetch("https://example.com/", "pdf_url"))
    assert isinstance(pages, FetchedPages)
    assert (pages.content_type, count_pages(pages.body)) == ("application/pdf", 1)


def test_what_cannot_be_printed_is_refused_by_its_field() -> None:
    with pytest.raises(Invalid) as refusal:
        fetch_pages(Shop(picture()), FileToFetch("https://example.com/", "pdf_url"))
    assert refusal.value.fields == {"pdf_url": ["The PDF cannot be printed: The file is no PDF: it is a PNG picture."]}


@pytest.mark.parametrize("fate", ["eat", "die", "crash", "fail", "babble"])
def test_a_child_that_dies_takes_nothing_with_it(decoder_pool: DecoderPool, fate: str) -> None:
    assert echoes(decoder_pool)
    before = decoder_pool.pid
    with pytest.raises(DecoderDied):
        decoder_pool.run(fate, b"", cpu_seconds=PLENTY, seconds=PLENTY)
    assert echoes(decoder_pool)
    assert decoder_pool.pid == before


def test_a_child_that_spins_is_stopped_by_its_share_of_the_processor(decoder_pool: DecoderPool) -> None:
    with pytest.raises(DecoderTimeout):
        decoder_pool.run("spin", b"", cpu_seconds=1, seconds=PLENTY)
    assert echoes(decoder_pool)


def test_a_child_that_dawdles_is_stopped_by_the_clock(decoder_pool: DecoderPool) -> None:
    with pytest.raises(DecoderTimeout):
        decoder_pool.run("wait", b"", cpu_seconds=PLENTY, seconds=0.2)
    assert echoes(decoder_pool)


def test_a_child_that_takes_long_gives_way_to_others(
    decoder_pool: DecoderPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoder_service, "SHORT_SECONDS", 0.1)
    head, _ = decoder_pool.run("linger", b"", cpu_seconds=PLENTY, seconds=PLENTY)
    assert head["priority"] > 0
    assert os.getpriority(os.PRIO_PROCESS, 0) == 0


def test_a_child_ends_when_its_client_goes(decoder_pool: DecoderPool) -> None:
    client, working = ClientConnection(), Event()

    def work() -> None:
        with client_context(client):
            working.set()
            decoder_pool.run("wait", b"", cpu_seconds=PLENTY, seconds=PLENTY)

    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(work)
        assert working.wait(PLENTY)
        client.disconnect()
        with pytest.raises(ClientDisconnected):
            done.result(PLENTY / 2)
    assert echoes(decoder_pool)


def test_a_refusal_is_an_answer(decoder_pool: DecoderPool) -> None:
    assert decoder_pool.run("refuse", b"", cpu_seconds=PLENTY, seconds=PLENTY) == ({"refused": "Not this one."}, b"")


def test_a_killed_decoder_is_restarted(decoder_pool: DecoderPool) -> None:
    assert echoes(decoder_pool)
    killed = decoder_pool.pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    assert echoes(decoder_pool)
    assert decoder_pool.pid != killed


def test_a_decoder_that_cannot_start_is_reported_as_unavailable() -> None:
    absent = DecoderPool("json.no_such_module")
    try:
        with pytest.raises(Unavailable):
            echoes(absent)
    finally:
        absent.close()


def test_a_child_can_neither_read_nor_write_nor_connect(decoder_pool: DecoderPool) -> None:
    assert decoder_pool.run("look_around", b"", cpu_seconds=PLENTY, seconds=PLENTY)[0] == {
        "read": False,
        "write": False,
        "connect": False,
    }


def test_secrets_are_not_inherited(decoder_pool: DecoderPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUILLPOST_SECRET", "hunter2")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    known = decoder_pool.run("environment", b"", cpu_seconds=PLENTY, seconds=PLENTY)[0]
    assert "PATH" in known
    assert "hunter2" not in known.values()


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


def test_threads_get_their_own_answers(decoder_pool: DecoderPool) -> None:
    payloads = [bytes([n]) * 300_000 for n in range(12)]
    with ThreadPoolExecutor(6) as threads:
        assert all(threads.map(lambda payload: echoes(decoder_pool, payload), payloads))


def test_a_dying_child_does_not_disturb_its_neighbour(decoder_pool: DecoderPool) -> None:
    with ThreadPoolExecutor(2) as threads:
        slow = threads.submit(decoder_pool.run, "spin", b"", cpu_seconds=1, seconds=PLENTY)
        assert all(echoes(decoder_pool) for _ in range(5))
        with pytest.raises(DecoderTimeout):
            slow.result()


def test_a_picture_that_kills_its_reader_is_a_bad_one(
    decoder_pool: DecoderPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoder_service, "DECODER_POOL", _Always(decoder_pool, "die"))
    with pytest.raises(UnprintableImage, match="damaged or too complex"):
        make_printable_picture_in_sandbox(b"")
    with pytest.raises(UnprintablePdf, match="damaged or too complex"):
        make_printable_pages_in_sandbox(b"")


def test_a_picture_that_takes_too_long_is_a_bad_one(decoder_pool: DecoderPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_service, "DECODER_POOL", _Always(decoder_pool, "wait"))
    with pytest.raises(UnprintableImage, match="took too long"):
        make_printable_picture_in_sandbox(b"")
    with pytest.raises(UnprintablePdf, match="took too long"):
        make_printable_pages_in_sandbox(b"")


def test_nothing_is_left_when_the_service_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "import os, signal\n"
        "from quillpost.rendering.decoder.service import DecoderPool\n"
        "decoder_pool = DecoderPool('failing_decoder')\n"
        "decoder_pool.run('echo', b'', cpu_seconds=9, seconds=9)\n"
        "print(decoder_pool.pid, flush=True)\n"
        "decoder_pool.run('wait', b'', cpu_seconds=9, seconds=60)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "support"), prepend=os.pathsep)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as service:
        assert service.stdout is not None
        decoder = int(service.stdout.readline())
        watched = os.pidfd_open(decoder)
        try:
            service.kill()
            ended, _, _ = select.select([watched], [], [], PLENTY)
            assert ended
        finally:
            os.close(watched)


class _Always:
    """A decoder_pool that does one kind of work, whatever it is asked for, and has little patience."""

    def __init__(self, decoder_pool: DecoderPool, work: str) -> None:
        self._decoder_pool = decoder_pool
        self._work = work

    def run(self, work: str, data: bytes, *, cpu_seconds: int, seconds: float, options: MessageHead | None) -> object:
        return self._decoder_pool.run(self._work, data, cpu_seconds=cpu_seconds, seconds=0.2, options=options)


def test_a_photograph_that_was_held_upright_is_taken() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    file = io.BytesIO()
    Image.new("RGB", (90, 60)).save(file, "JPEG", exif=exif)
    made = make_printable_picture_in_sandbox(file.getvalue())
    assert (made.width, made.height) == (60, 90)


def test_a_pdf_that_only_its_owner_may_change_is_taken() -> None:
    file = io.BytesIO()
    with pikepdf.new() as pdf:
        pdf.add_blank_page(page_size=(612, 792))
        pdf.save(file, encryption=pikepdf.Encryption(user="", owner="owner", R=6))
    assert make_printable_pages_in_sandbox(file.getvalue()).count == 1
