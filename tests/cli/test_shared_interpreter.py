"""A server whose threads compute leaves light calls their turn."""

import sys
from collections.abc import Iterator

import pytest

from quillpost.app import bootstrap, runtime
from quillpost.cli import server
from quillpost.core.settings import Settings


@pytest.fixture
def as_before() -> Iterator[None]:
    usual = sys.getswitchinterval()
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("as_before")
def test_threads_of_a_server_change_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "build_container", lambda *_: None)
    monkeypatch.setattr(runtime, "warn_if_key_file_exposed", lambda *_: None)
    monkeypatch.setattr(server, "create_app", lambda *_: None)
    monkeypatch.setenv("QUILLPOST_SERVE_JOBS", "no")
    server._create_application(Settings(), "nowhere")
    assert sys.getswitchinterval() == pytest.approx(server.THREAD_SWITCH_SECONDS)
    assert server.THREAD_SWITCH_SECONDS < 0.001
