"""The typefaces of lettering are prepared by a helper process beside the service, which goes on where a killed one
stopped. Handwriting needs no preparation."""

import asyncio
import fcntl
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from quillpost.client import Quillpost
from quillpost.rendering.handwriting.models import DEFAULT_STYLE, HELPER_FACE, PLAIN_FACE, STYLES, PreparedFace
from quillpost.web import application
from support.designs import NO_PACKAGES, file_of, hands_in, stock
from support.factories import postcard
from support.processes import PATIENCE, Command, CommandRunner, until

LETTERING = {style.number: style.lettering for style in STYLES if style.lettering}
GRACE = next(style.number for style in STYLES if style.name == "Grace")
GRACES_FACE = LETTERING[GRACE]

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found through /proc")


def preview(server: Command, home: Path, style: int) -> list[str]:
    token = (home / "first-token").read_text().strip()
    with Quillpost(token, server.url, timeout=PATIENCE) as client:
        return client.preview("postcard", **postcard(handwriting_style=style))["data"]["previews"]


@pytest.fixture
def faces(home: Path) -> Path:
    return home / "faces"


Serve = Callable[[], Command]


@pytest.fixture
def serve(runner: CommandRunner, home: Path, faces: Path, conninfo: str) -> Iterator[Serve]:
    settings = {"QUILLPOST_HOME": str(home), "QUILLPOST_DATABASE_URL": conninfo}
    settings |= {"QUILLPOST_FACES_FOLDER": str(faces), "QUILLPOST_FONT_PACKAGES": str(NO_PACKAGES)}
    with ExitStack() as running:
        yield lambda: running.enter_context(runner.serving("--welcome", settings=settings, path="/ready"))
    until(lambda: not helpers(faces), what="no helper left behind")


def helpers(faces: Path) -> list[int]:
    """Processes that prepare typefaces for this folder."""
    return [int(process.name) for process in Path("/proc").glob("[0-9]*") if _prepares(process, faces)]


def _prepares(process: Path, faces: Path) -> bool:
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
        return b"--prepare" in words and bytes(faces) in (process / "environ").read_bytes()
    except OSError:
        return False


def test_faces_get_ready_beside_the_service_and_after_a_kill_the_rest_of_them(serve: Serve, faces: Path) -> None:
    stock(faces, without=[PLAIN_FACE, *LETTERING.values(), HELPER_FACE])
    first = serve()
    until(file_of(GRACES_FACE, faces).exists, what="the helper's first face ready")
    first.stop(signal.SIGKILL)
    until(lambda: not helpers(faces), what="the helper gone with its service")
    missing = hands_in(faces).unprepared_faces()
    assert missing, "it was killed in the middle of its work"
    made = [file_of(face, faces) for face in (PLAIN_FACE, GRACES_FACE)]
    ages = [file.stat().st_mtime_ns for file in made]

    second = serve()
    until(lambda: helpers(faces), what="a helper that goes on")
    assert httpx2.get(f"{second.url}/health").status_code == 200
    until(lambda: hands_in(faces).unprepared_faces() == [], what="all faces ready")
    for face in (PLAIN_FACE, GRACES_FACE, *missing):
        PreparedFace.from_bytes(file_of(face, faces).read_bytes())
    assert [file.stat().st_mtime_ns for file in made] == ages, "nothing is made twice"
    until(lambda: "handwriting.fonts_prepared" in second.output, what="the log says so")
    assert second.stop() == 0, second.output
    assert "Traceback" not in second.output


def test_a_service_that_stops_takes_its_helper_along(serve: Serve, faces: Path) -> None:
    stock(faces, without=LETTERING.values())
    server = serve()
    until(lambda: helpers(faces), what="a helper at work")
    assert server.stop() == 0, server.output
    assert helpers(faces) == []
    for event in ("handwriting.fonts_prepared", "handwriting.font_preparation_failed", "Traceback"):
        assert event not in server.output


def test_a_face_that_is_not_ready_is_made_for_whoever_sends_with_it(serve: Serve, faces: Path, home: Path) -> None:
    stock(faces, without=[GRACES_FACE])
    with (faces / ".preparing").open("a") as held:
        # As if another process prepared for this folder, and never came to this face.
        fcntl.flock(held, fcntl.LOCK_EX)
        assert len(preview(serve(), home, GRACE)) == 2
        assert hands_in(faces).unprepared_faces() == []


def test_an_unusable_folder_is_logged_and_does_no_harm(serve: Serve, faces: Path, home: Path) -> None:
    faces.write_text("a file in the place of the folder")
    server = serve()
    until(lambda: "handwriting.font_preparation_failed" in server.output, what="the log says so")
    assert str(faces) in server.output
    assert len(preview(server, home, GRACE)) == 2


def test_of_two_services_on_one_folder_one_prepares_the_faces(
    faces: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QUILLPOST_FACES_FOLDER", str(faces))
    monkeypatch.setenv("QUILLPOST_FONT_PACKAGES", str(NO_PACKAGES))
    monkeypatch.setattr(application, "START_DELAY_SECONDS", 0)
    stock(faces, without=[GRACES_FACE])

    async def serve_twice() -> None:
        async with (
            application.prepare_in_background(hands_in(faces)),
            application.prepare_in_background(hands_in(faces)),
        ):
            while hands_in(faces).unprepared_faces() or helpers(faces):
                await asyncio.sleep(0.3)

    asyncio.run(asyncio.wait_for(serve_twice(), PATIENCE))
    PreparedFace.from_bytes(file_of(GRACES_FACE, faces).read_bytes())
    assert "handwriting.font_preparation_failed" not in capfd.readouterr().err


def test_where_all_faces_are_ready_no_helper_is_started(faces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "START_DELAY_SECONDS", 0)
    started = []

    async def start(*command: str, **_: object) -> None:
        started.append(command)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    stock(faces, without=[])
    hands = hands_in(faces)

    async def serve_until_read() -> None:
        async with application.prepare_in_background(hands):
            while DEFAULT_STYLE.number not in hands._hands:
                await asyncio.sleep(0.02)

    asyncio.run(asyncio.wait_for(serve_until_read(), PATIENCE))
    assert started == []
