"""What every carrier feed promises, and what the sandbox's tells."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from quillpost.adapters.carrier.none import NoFeed
from quillpost.adapters.carrier.sandbox import SandboxCarrier
from quillpost.adapters.files.objects import folder_store
from quillpost.adapters.printing.sandbox import MAILBOX
from quillpost.ports import CarrierFeed, FileStore

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
JOURNEY = timedelta(seconds=100)
ARRIVED = NOON + JOURNEY * 2
FOLDER = "print-jobs/test"

Feeds = dict[str, Callable[[FileStore], CarrierFeed]]
FEEDS: Feeds = {
    "none": lambda _: NoFeed(),
    "sandbox": lambda store: SandboxCarrier(store, FOLDER, journey=JOURNEY),
}


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return folder_store(tmp_path)


@pytest.fixture
def carrier(store: FileStore) -> SandboxCarrier:
    return SandboxCarrier(store, FOLDER, journey=JOURNEY)


def drop(store: FileStore, reference: str, tracking: str, *, at: datetime = NOON) -> str:
    """A job of one piece in the mail; its place in the mailbox."""
    manifest = {"pieces": [{"item_id": 1, "name": "Jane Doe", "tracking": tracking}]}
    store.put(f"{FOLDER}/{reference}/manifest.json", json.dumps(manifest).encode())
    store.put(f"{MAILBOX}/{reference}", at.isoformat().encode())
    return f"{MAILBOX}/{reference}"


@pytest.mark.parametrize("name", FEEDS)
def test_a_feed_tells_the_same_until_it_is_settled(store: FileStore, name: str) -> None:
    feed = FEEDS[name](store)
    drop(store, "batch-1", "00310999999000000001")
    first, again = feed.poll(now=ARRIVED), feed.poll(now=ARRIVED)
    assert list(first.scans) == list(again.scans)
    feed.settled(first.receipt)
    feed.settled(first.receipt)
    settled = feed.poll(now=ARRIVED)
    assert (list(settled.scans), settled.expects_more) == ([], False)


def test_pieces_on_their_way_are_worth_another_poll(store: FileStore, carrier: SandboxCarrier) -> None:
    dropped = drop(store, "batch-1", "00310999999000000001")
    early, late = carrier.poll(now=NOON + JOURNEY / 2), carrier.poll(now=ARRIVED)
    assert (early.receipt, early.expects_more) == ((), True)
    assert (late.receipt, late.expects_more) == ((dropped,), False)
    assert [scan.phase for scan in late.scans] == ["1", "2", "3a", "4c"]


def test_a_poll_settles_what_it_told_itself(store: FileStore, carrier: SandboxCarrier) -> None:
    """Two polls at once: what only the second saw arrive is not settled with the first."""
    drop(store, "batch-1", "00310999999000000001")
    early = carrier.poll(now=NOON)
    late = carrier.poll(now=ARRIVED)
    carrier.settled(early.receipt)
    assert carrier.poll(now=ARRIVED) == late
    carrier.settled(late.receipt)
    assert list(store.keys(MAILBOX)) == []


def test_a_job_that_another_poll_settles_meanwhile_is_passed_over(
    store: FileStore, carrier: SandboxCarrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = drop(store, "batch-1", "00310999999000000001")
    drop(store, "batch-2", "00310999999000000002")
    listed = list(store.keys(MAILBOX))
    monkeypatch.setattr(store, "keys", lambda _: iter(listed))
    store.delete(gone)
    assert {scan.tracking for scan in carrier.poll(now=ARRIVED).scans} == {"00310999999000000002"}
