"""A server whose threads compute leaves light calls their turn."""

import sys
from collections.abc import Iterator

import pytest

from quillpost import wiring
from quillpost.cli import serving


@pytest.fixture
def as_before() -> Iterator[None]:
    usual = sys.getswitchinterval()
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("as_before")
def test_threads_of_a_server_change_often(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("build", "warn_of_open_key"):
        monkeypatch.setattr(wiring, name, lambda *_: None)
    monkeypatch.setattr(serving, "create_app", lambda *_: None)
    monkeypatch.setenv("QUILLPOST_SERVE_JOBS", "no")
    serving._application(wiring.Settings(), "nowhere")
    assert sys.getswitchinterval() == pytest.approx(serving.SWITCH_SECONDS)
    assert serving.SWITCH_SECONDS < 0.001
