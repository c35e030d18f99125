"""Processes, homes and a subscriber, for journeys through the whole service."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from quillpost.accounts.models import Caller
from support.event_receiver import EventReceiver
from support.process_deaths import MortalService
from support.processes import CommandRunner
from support.sender_service import SenderService, open_sender_service


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Processes take their time to start on a machine that is busy with much else."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def runner() -> Iterator[CommandRunner]:
    folder = Path(tempfile.mkdtemp(prefix="quillpost-nursery-"))
    runner = CommandRunner(folder)
    yield runner
    runner.close()
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def receiver() -> Iterator[EventReceiver]:
    with EventReceiver() as receiver:
        yield receiver


@pytest.fixture
def sender_service(conninfo: str, home: Path, receiver: EventReceiver) -> Iterator[SenderService]:
    with open_sender_service(conninfo, home, receiver) as sender_service:
        yield sender_service


@pytest.fixture
def service(conninfo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MortalService]:
    with closing(MortalService(conninfo, tmp_path, monkeypatch, mode="test")) as service:
        yield service


@pytest.fixture
def caller(service: MortalService) -> Caller:
    return Caller(service.sender.id, "test")
