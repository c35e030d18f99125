"""Processes, homes and a subscriber, for journeys through the whole service."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from event_receiver import EventReceiver
from processes import Nursery


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    folder = Path(tempfile.mkdtemp(prefix="quillpost-nursery-"))
    nursery = Nursery(folder)
    yield nursery
    nursery.close()
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def receiver() -> Iterator[EventReceiver]:
    receiver = EventReceiver()
    yield receiver
    receiver.close()


@pytest.fixture
def home() -> Iterator[Path]:
    """Not in pytest's own folder, which is closed to the database server's unprivileged user."""
    home = Path(tempfile.mkdtemp(prefix="quillpost-home-"))
    home.chmod(0o755)
    yield home
    shutil.rmtree(home, ignore_errors=True)
