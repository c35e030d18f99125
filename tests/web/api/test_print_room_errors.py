"""Words about batches that cannot be meant: each is refused by its field, and changes nothing."""

from typing import Any

import pytest

from quillpost.app.container import Container
from support.factories import Account, Build, Clock, make_account, make_operator
from support.print_room import hand_over_batch
from support.production import LIVE_SETTINGS
from support.test_client import TestClient
from support.traces import traces


@pytest.fixture
def container(build: Build) -> Container:
    """Live mail may be printed, by a printer who says nothing by itself."""
    return build(**LIVE_SETTINGS, review_seconds=1)


@pytest.fixture
def operator(container: Container, http: TestClient) -> Account:
    return make_operator(container, http, mode="live")


@pytest.fixture
def sender(container: Container, http: TestClient) -> Account:
    return make_account(container, http, "sender@example.com", mode="live")


BAD_MARKS: list[tuple[Any, str]] = [
    ({}, "status"),
    ({"status": None}, "status"),
    ({"status": "burnt"}, "status"),
    ({"status": 5}, "status"),
    ({"status": "printed", "at": "yesterday"}, "at"),
    ({"status": "printed", "at": 5}, "at"),
    ({"status": "printed", "at": "2026-05-04T23:00:00Z"}, "at"),
    ({"status": "printed", "at": "2026-05-04T11:00:00Z"}, "at"),
    ({"status": "printed", "at": "x" * 65}, "at"),
    ({"status": "spoiled"}, "spoiled"),
    ({"status": "spoiled", "spoiled": []}, "spoiled"),
    ({"status": "spoiled", "spoiled": {"position": 1}}, "spoiled"),
    ({"status": "spoiled", "spoiled": ["1"]}, "spoiled.0"),
    ({"status": "spoiled", "spoiled": [{}]}, "spoiled.0"),
    ({"status": "spoiled", "spoiled": [{"position": 1}, {"reason": "Torn"}]}, "spoiled.1"),
    ({"status": "spoiled", "spoiled": [{"position": 1, "item_id": 1}]}, "spoiled.0"),
    ({"status": "spoiled", "spoiled": [{"position": 1}, {"position": 4}]}, "spoiled.1.position"),
    ({"status": "spoiled", "spoiled": [{"position": 0}]}, "spoiled.0.position"),
    ({"status": "spoiled", "spoiled": [{"position": 2**40}]}, "spoiled.0.position"),
    ({"status": "spoiled", "spoiled": [{"item_id": 2**62}]}, "spoiled.0.item_id"),
    ({"status": "spoiled", "spoiled": [{"item_id": "x"}]}, "spoiled.0.item_id"),
    ({"status": "spoiled", "spoiled": [{"position": 1, "reason": "x" * 501}]}, "spoiled.0.reason"),
    ({"status": "spoiled", "spoiled": [{"position": 1}] * 5_001}, "spoiled"),
    ([], "body"),
]
BAD_REPRINTS: list[tuple[Any, str]] = [
    ({"reason": "Torn"}, "positions"),
    ({"positions": [1]}, "reason"),
    ({"positions": [1], "reason": " "}, "reason"),
    ({"positions": [], "reason": "Torn"}, "positions"),
    ({"positions": [1], "item_ids": [1], "reason": "Torn"}, "positions"),
    ({"positions": [1], "from": 1, "to": 2, "reason": "Torn"}, "positions"),
    ({"positions": [1, 9], "reason": "Torn"}, "positions.1"),
    ({"positions": ["a"], "reason": "Torn"}, "positions.0"),
    ({"positions": [0], "reason": "Torn"}, "positions.0"),
    ({"positions": 1, "reason": "Torn"}, "positions"),
    ({"positions": [1] * 5_001, "reason": "Torn"}, "positions"),
    ({"from": 1, "reason": "Torn"}, "to"),
    ({"to": 1, "reason": "Torn"}, "from"),
    ({"from": 3, "to": 2, "reason": "Torn"}, "to"),
    ({"from": 1, "to": 4, "reason": "Torn"}, "to"),
    ({"from": 9, "to": 12, "reason": "Torn"}, "from"),
    ({"from": 1, "to": 900_000, "reason": "Torn"}, "to"),
    ({"item_ids": [2**62], "reason": "Torn"}, "item_ids.0"),
    ({"item_ids": "1", "reason": "Torn"}, "item_ids"),
]
BAD_RUSHES: list[tuple[Any, str]] = [
    ({}, "order_ids"),
    ({"order_ids": []}, "order_ids"),
    ({"order_ids": [0]}, "order_ids.0"),
    ({"order_ids": ["x"]}, "order_ids.0"),
    ({"order_ids": [1] * 1_001}, "order_ids"),
]


def test_bad_words_about_a_batch_change_nothing(
    operator: Account, sender: Account, container: Container, clock: Clock
) -> None:
    batch_id = hand_over_batch(sender, container, clock)
    before = traces(container)
    calls = [(f"/print/batches/{batch_id}/mark", *bad) for bad in BAD_MARKS]
    calls += [(f"/print/batches/{batch_id}/reprint", *bad) for bad in BAD_REPRINTS]
    calls += [("/print/rush", *bad) for bad in BAD_RUSHES]
    for path, body, field in calls:
        answer = operator.post(path, body)
        assert (answer.status_code, list(answer.json().get("errors", ()))) == (422, [field]), (path, body)
    assert traces(container) == before


def test_what_a_spoiled_piece_says_in_vain_is_named(
    operator: Account, sender: Account, container: Container, clock: Clock
) -> None:
    batch_id = hand_over_batch(sender, container, clock)
    body = {"status": "spoiled", "spoiled": [{"position": 1, "why": "Torn"}], "who": "me"}
    answer = operator.post(f"/print/batches/{batch_id}/mark", body)
    assert answer.headers["X-Ignored-Fields"] == "spoiled.*.why, who"
