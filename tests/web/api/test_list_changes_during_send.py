"""Lists that change hands, or purpose, while a send to them is being prepared."""

from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.orders import service as order_service
from quillpost.orders.service import OrderFiles
from support.factories import Account, make_sub_account, person, snapshot_rows


def make_list(owner: Account) -> int:
    number = int(owner.post("/mailing-lists", {"description": "Friends"}).json()["id"])
    added = owner.post("/recipients", person() | {"mailing_list_id": number})
    assert added.status_code == 201, added.text
    return number


@pytest.mark.parametrize("change", ["sub_account_id", "is_suppression_list"])
def test_a_send_to_such_a_list_is_refused_as_if_it_came_later(
    owner: Account, container: Container, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    number = make_list(owner)
    becomes = make_sub_account(container, owner) if change == "sub_account_id" else True
    keep_files, before = order_service.store_files, snapshot_rows(container)

    def meanwhile(*what: Any, **how: Any) -> OrderFiles:
        changed = owner.put(f"/mailing-lists/{number}", {"description": "Friends", change: becomes})
        assert changed.status_code == 200, changed.text
        return keep_files(*what, **how)

    monkeypatch.setattr(order_service, "store_files", meanwhile)
    crossed = owner.send(recipients=None, mailing_list_ids=[number])
    monkeypatch.undo()
    later = owner.send(recipients=None, mailing_list_ids=[number])
    assert (crossed.status_code, crossed.json()) == (later.status_code, later.json())
    assert later.status_code in (400, 422)
    assert snapshot_rows(container)["orders"] == before["orders"]
