"""What operators say of single pieces: nothing is passed over without a word."""

from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import items
from quillpost.core.database.tables.fulfillment import prints
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


def inside(container: Container, batch_id: int) -> dict[int, int]:
    with container.db.system_transaction() as tx:
        rows = tx.execute(sa.select(prints).where(prints.c.batch_id == batch_id))
        return {row.position: row.item_id for row in rows}


def reprint(operator: Account, batch_id: int, **pieces: Any) -> dict[str, Any]:
    answer = operator.post(f"/print/batches/{batch_id}/reprint", pieces | {"reason": "Torn"})
    assert answer.status_code == 201, answer.text
    new_batch: dict[str, Any] = answer.json()
    return new_batch


@pytest.mark.parametrize("status", ["spoiled", "printed"])
def test_a_piece_that_was_reprinted_is_spoiled_in_its_new_batch(
    operator: Account, sender: Account, container: Container, clock: Clock, status: str
) -> None:
    batch_id = hand_over_batch(sender, container, clock)
    item = inside(container, batch_id)[3]
    new_batch = reprint(operator, batch_id, positions=[3])
    before = traces(container)
    spoiled = [{"position": 1}, {"position": 3}, {"item_id": item}]
    answer = operator.post(f"/print/batches/{batch_id}/mark", {"status": status, "spoiled": spoiled})
    error = f"Piece 3 was reprinted in {new_batch['reference']}: mark it there."
    assert (answer.status_code, answer.json()["errors"]) == (
        422,
        {"spoiled.1.position": [error], "spoiled.2.item_id": [error]},
    )
    assert answer.json()["message"].startswith(error)
    assert traces(container) == before


def test_a_reprint_names_the_pieces_that_it_leaves_out(
    operator: Account, sender: Account, container: Container, clock: Clock
) -> None:
    batch_id = hand_over_batch(sender, container, clock, 4)
    at = inside(container, batch_id)
    new_batch = reprint(operator, batch_id, positions=[4, 4])
    assert (new_batch["pieces"], new_batch["left_out"]) == (1, [])
    operator.post(f"/print/batches/{batch_id}/mark", {"status": "spoiled", "spoiled": [{"position": 1}]})
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(items).where(items.c.id == at[2]).values(status="In Transit"))
    second = reprint(operator, batch_id, **{"from": 1, "to": 4})
    assert (second["pieces"], second["reprint_of"]) == (1, batch_id)
    assert second["left_out"] == [
        {"position": 1, "item_id": at[1], "reason": "Ended already (Failed)."},
        {"position": 2, "item_id": at[2], "reason": "In the mail already (In Transit)."},
        {"position": 4, "item_id": at[4], "reason": f"Reprinted in {new_batch['reference']}."},
    ]
    assert "left_out" not in operator.get(f"/print/batches/{second['id']}").json()
