"""The print room over the API: batches, their files, and what operators say of them."""

import hashlib
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import items, orders
from quillpost.core.database.tables.fulfillment import batches, order_verdicts, prints
from quillpost.web.application import create_app
from support.factories import (
    Account,
    Build,
    Clock,
    make_account,
    make_live,
    make_operator,
    make_sub_account,
    make_teammate,
    person,
    run_due_jobs,
    run_jobs_for,
)
from support.print_room import HOME, hand_over_batch
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


def statuses(sender: Account) -> list[str]:
    [order] = sender.get("/orders/list").json()["data"]
    return [item["status"] for item in sender.get(f"/orders/{order['id']}/items").json()["data"]]


# Looking


def test_a_batch_is_shown_with_its_files_and_its_statement(
    operator: Account, sender: Account, container: Container, clock: Clock, http: TestClient
) -> None:
    batch_id = hand_over_batch(sender, container, clock)
    [listed] = operator.get("/print/batches").json()["data"]
    batch = operator.get(f"/print/batches/{batch_id}").json()
    assert listed.items() <= batch.items()
    assert (batch["reference"], batch["status"], batch["pieces"]) == (f"batch-{batch_id:06d}", "handed", 3)
    assert (batch["piece"], batch["mail_class"], batch["mode"]) == ("postcard-4x6", "first", "live")
    assert (batch["pieces_by_status"], batch["void"], batch["reprints"]) == ({"Processing": 3}, 0, [])
    assert (batch["statement"]["pieces"], batch["statement"]["mailer_id"]) == (3, "123456789")
    assert {"print.pdf", "manifest.csv", "manifest.json", "statement.json"} <= {file["name"] for file in batch["files"]}
    for file in batch["files"]:
        opened = http.get(file["url"])
        assert opened.status_code == 200
        assert (len(opened.content), hashlib.sha256(opened.content).hexdigest()) == (file["size"], file["sha256"])
        name = f"{batch['reference']}-{file['name']}"
        assert opened.headers["Content-Disposition"] == f'attachment; filename="{name}"'
        assert http.head(file["url"]).headers["Content-Type"] == opened.headers["Content-Type"]


def test_a_link_to_a_file_ends_after_a_day(
    operator: Account, sender: Account, container: Container, clock: Clock, http: TestClient
) -> None:
    batch_id = hand_over_batch(sender, container, clock)
    file = operator.get(f"/print/batches/{batch_id}").json()["files"][0]
    clock.advance(hours=24)
    assert http.get(file["url"]).status_code == 404
    forged = container.storage.signed_path(
        f"batch-{batch_id}/../../secret.key", expires_at=clock.now().replace(year=2030)
    )
    assert http.get(forged).status_code == 404


def test_a_batch_that_is_not_composed_has_no_files_yet(
    operator: Account, sender: Account, container: Container, clock: Clock
) -> None:
    hand_over_batch(sender, container, clock)
    with container.db.system_transaction() as tx:
        made = sa.insert(batches).values(
            mode="live", piece="postcard-4x6", mail_class="first", status="new", item_count=0,
            created_at=clock.now(), stock="", rush=False,
        )  # fmt: skip
        batch_id = tx.execute(made.returning(batches.c.id)).scalar_one()
    batch = operator.get(f"/print/batches/{batch_id}").json()
    assert (batch["files"], batch["statement"], batch["pieces_by_status"]) == ([], None, {})


def test_batches_are_listed_newest_first_and_filtered(
    operator: Account, sender: Account, container: Container, clock: Clock
) -> None:
    first, second = hand_over_batch(sender, container, clock), hand_over_batch(sender, container, clock, 1)
    operator.post(f"/print/batches/{first}/mark", {"status": "mailed"})

    def ids(query: str) -> list[int]:
        found = operator.get(f"/print/batches?{query}")
        assert found.status_code == 200, found.text
        return [batch["id"] for batch in found.json()["data"]]

    assert ids("") == [second, first]
    assert ids("open=true") == ids("open=1") == ids("status=Handed") == [second]
    assert ids("open=false") == ids("status=mailed") == [first]
    assert ids("open=true&status=mailed") == []
    assert ids("items_per_page=1&page=2") == [first]
    page = operator.get("/print/batches?items_per_page=1&open=").json()
    assert (page["meta"]["total"], page["meta"]["last_page"]) == (2, 2)
    assert "items_per_page=1" in page["links"]["next"]


@pytest.mark.parametrize(
    ("query", "field"), [("status=gone", "status"), ("open=maybe", "open"), ("page=0", "page"), ("limit=x", "limit")]
)
def test_a_filter_that_means_nothing_is_refused(operator: Account, query: str, field: str) -> None:
    answer = operator.get(f"/print/batches?{query}")
    assert (answer.status_code, list(answer.json()["errors"])) == (422, [field])


def test_a_list_of_batches_names_what_live_mail_lacks(build: Build, operator: Account) -> None:
    assert "gaps" not in operator.get("/print/batches").json()["meta"]
    container = build()
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        for mode in ("live", "test"):
            someone = make_operator(container, http, f"{mode}@example.com", mode=mode)
            meta = someone.get("/print/batches").json()["meta"]
            assert meta.get("gaps") == (list(container.environments["live"].gaps) if mode == "live" else None)


# Marking


def test_a_batch_is_marked_on_its_way(operator: Account, sender: Account, container: Container, clock: Clock) -> None:
    batch_id = hand_over_batch(sender, container, clock)
    path = f"/print/batches/{batch_id}/mark"
    heard = operator.post(path, {"status": "acknowledged"}).json()
    assert (heard["status"], heard["acknowledged_at"] is not None) == ("handed", True)
    clock.advance(hours=1)
    spoiled = [{"position": 2, "reason": "Torn"}]
    printed = operator.post(path, {"status": "printed", "spoiled": spoiled}).json()
    assert (printed["status"], printed["pieces_by_status"]) == ("printed", {"Failed": 1, "Printed": 2})
    assert sorted(statuses(sender)) == ["Failed", "Printed", "Printed"]
    clock.advance(hours=1)
    mailed = operator.post(path, {"status": "mailed"}).json()
    assert (mailed["status"], mailed["mailed_at"]) == ("mailed", "2026-05-04T14:00:04Z")
    before = traces(container)
    again = operator.post(path, {"status": "printed", "spoiled": spoiled})
    assert (again.status_code, again.json()["status"]) == (200, "mailed")
    assert traces(container) == before


def test_a_mark_may_be_of_an_earlier_hour(
    operator: Account, sender: Account, container: Container, clock: Clock
) -> None:
    batch_id = hand_over_batch(sender, container, clock)
    clock.advance(hours=5)
    at = "2026-05-04T15:30:00+02:00"
    marked = operator.post(f"/print/batches/{batch_id}/mark", {"status": "mailed", "at": at}).json()
    assert (marked["printed_at"], marked["mailed_at"]) == ("2026-05-04T13:30:00Z",) * 2


def test_spoiled_pieces_fail_and_are_given_back(
    operator: Account, sender: Account, container: Container, clock: Clock
) -> None:
    batch_id = hand_over_batch(sender, container, clock)
    with container.db.system_transaction() as tx:
        at = {row.position: row.item_id for row in tx.execute(sa.select(prints))}
    body = {"status": "spoiled", "spoiled": [{"item_id": at[1]}, {"position": 3, "reason": "Smudged"}]}
    answer = operator.post(f"/print/batches/{batch_id}/mark", body)
    assert answer.json()["pieces_by_status"] == {"Failed": 2, "Processing": 1}
    failures = {n: sender.get(f"/order-items/{at[n]}").json()["failure"] for n in (1, 2, 3)}
    assert failures == {1: "Spoiled in printing", 2: None, 3: "Smudged"}
    [order] = sender.get("/orders/list").json()["data"]
    assert order["order_total"] == 109


def test_a_piece_in_the_mail_cannot_be_spoiled(
    operator: Account, sender: Account, container: Container, clock: Clock
) -> None:
    batch_id = hand_over_batch(sender, container, clock)
    with container.db.system_transaction() as tx:
        seen = tx.execute(sa.select(prints.c.item_id).where(prints.c.position == 2)).scalar_one()
        tx.execute(sa.update(items).where(items.c.id == seen).values(status="In Transit"))
    before = traces(container)
    body = {"status": "printed", "spoiled": [{"position": 1}, {"position": 2}]}
    answer = operator.post(f"/print/batches/{batch_id}/mark", body)
    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["spoiled.1.position"])
    assert "Piece 2 is in the mail already" in answer.json()["message"]
    assert traces(container) == before


def test_a_batch_that_the_printer_does_not_have_is_not_marked(
    operator: Account, sender: Account, container: Container, clock: Clock
) -> None:
    batch_id = hand_over_batch(sender, container, clock)
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(batches).values(status="composed", handed_at=None))
    for act, body in (("mark", {"status": "printed"}), ("reprint", {"positions": [1], "reason": "Torn"})):
        answer = operator.post(f"/print/batches/{batch_id}/{act}", body)
        assert answer.status_code == 409
        assert "has not been handed to the printer" in answer.json()["message"]


# Printing again


@pytest.mark.parametrize("pieces", [{"positions": [2, 3]}, {"from": 2, "to": 3}, {"positions": ["2", "3", 2]}])
def test_pieces_are_printed_again_under_new_barcodes(
    operator: Account, sender: Account, container: Container, clock: Clock, pieces: dict[str, Any]
) -> None:
    batch_id = hand_over_batch(sender, container, clock)
    answer = operator.post(f"/print/batches/{batch_id}/reprint", pieces | {"reason": "Cut askew."})
    assert answer.status_code == 201, answer.text
    new_batch = answer.json()
    assert (new_batch["reprint_of"], new_batch["pieces"], new_batch["rush"], new_batch["status"]) == (
        batch_id,
        2,
        True,
        "new",
    )
    former = operator.get(f"/print/batches/{batch_id}").json()
    assert (former["pieces_by_status"], former["void"], former["reprints"]) == ({"Processing": 1}, 2, [new_batch["id"]])
    with container.db.system_transaction() as tx:
        codes = list(tx.execute(sa.select(prints.c.tracking)).scalars())
    assert len(set(codes)) == len(codes) == 5
    run_jobs_for(container, clock, seconds=2)
    assert operator.get(f"/print/batches/{new_batch['id']}").json()["status"] == "handed"


def test_pieces_are_printed_again_by_their_items(
    operator: Account, sender: Account, container: Container, clock: Clock
) -> None:
    batch_id = hand_over_batch(sender, container, clock)
    with container.db.system_transaction() as tx:
        item = tx.execute(sa.select(prints.c.item_id).where(prints.c.position == 2)).scalar_one()
    path, body = f"/print/batches/{batch_id}/reprint", {"item_ids": [str(item)], "reason": "Torn"}
    assert operator.post(path, body).json()["pieces"] == 1
    again = operator.post(path, body)
    assert again.status_code == 409
    assert "None of these pieces can be printed again" in again.json()["message"]


# The rest


def test_a_step_that_was_given_up_is_tried_again(
    operator: Account, sender: Account, container: Container, clock: Clock
) -> None:
    batch_id = hand_over_batch(sender, container, clock)
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("delete from procrastinate_jobs"))
        tx.execute(sa.update(batches).values(status="composed", handed_at=None, trouble="No answer."))
    assert operator.get(f"/print/batches/{batch_id}").json()["trouble"] == "No answer."
    tried = operator.post(f"/print/batches/{batch_id}/retry")
    assert (tried.status_code, tried.json()["status"]) == (200, "composed")
    run_due_jobs(container)
    found = operator.get(f"/print/batches/{batch_id}").json()
    assert (found["status"], found["trouble"]) == ("handed", None)
    operator.post(f"/print/batches/{batch_id}/mark", {"status": "mailed"})
    assert operator.post(f"/print/batches/{batch_id}/retry").status_code == 409


def test_a_batch_offered_to_a_former_partner_is_offered_again_only_on_request(
    operator: Account, sender: Account, container: Container, clock: Clock
) -> None:
    batch_id = hand_over_batch(sender, container, clock)
    path = f"/print/batches/{batch_id}/retry"
    refused = operator.post(path, {"anew": True})
    assert (refused.status_code, refused.json()["message"][:20]) == (409, "The batch is handed:")
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("delete from procrastinate_jobs"))
        offered = {"status": "composed", "handed_at": None, "partner": "https://old.example.com"}
        tx.execute(sa.update(batches).values(**offered))
    for body in (None, {}, {"anew": False}, {"anew": None}):
        assert operator.post(path, body).status_code == 200
        run_due_jobs(container)
        found = operator.get(f"/print/batches/{batch_id}").json()
        assert found["status"] == "composed"
        assert found["trouble"].startswith("It was offered to https://old.example.com, who may have it. ")
    wrong = operator.post(path, {"anew": "yes"})
    assert (wrong.status_code, list(wrong.json()["errors"])) == (422, ["anew"])
    response = operator.post(path, {"anew": True})
    assert (response.status_code, response.json()["trouble"]) == (200, None)
    run_due_jobs(container)
    assert operator.get(f"/print/batches/{batch_id}").json()["status"] == "handed"


def test_orders_are_rushed(operator: Account, sender: Account, container: Container, clock: Clock) -> None:
    order_id, other = (sender.send(**HOME).json()["id"] for _ in range(2))
    answer = operator.post("/print/rush", {"order_ids": [order_id]})
    assert answer.json() == {"message": "success", "order_ids": [order_id]}
    with container.db.system_transaction() as tx:
        rushed = {row.id: row.rush for row in tx.execute(sa.select(orders))}
        decisions = tx.execute(sa.select(order_verdicts.c.verdict, order_verdicts.c.operator_id)).all()
    assert rushed == {order_id: True, other: False}
    assert [tuple(row) for row in decisions] == [("rushed", operator.id)]
    assert operator.post("/print/rush", {"order_ids": [order_id]}).json()["order_ids"] == []
    before = traces(container)
    for unknown in ([999_999], [other, 999_999], [999_999, other]):
        refused = operator.post("/print/rush", {"order_ids": unknown})
        assert (refused.status_code, refused.json()) == (400, {"message": "There is no order 999999."})
    assert traces(container) == before


def test_what_waits_for_the_cutoff_is_pooled_at_once(build: Build, clock: Clock) -> None:
    container = build(**LIVE_SETTINGS, review_seconds=1, print_cutoff="23:00")
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        operator = make_operator(container, http, mode="live")
        operator.send(**HOME)
        run_jobs_for(container, clock, seconds=3)
        assert operator.get("/print/batches").json()["data"] == []
        assert operator.post("/print/pool").json() == {"message": "success", "orders": 1}
        run_jobs_for(container, clock, seconds=2)
        assert len(operator.get("/print/batches").json()["data"]) == 1


# Who may


def test_only_operators_have_a_print_room(
    operator: Account, sender: Account, container: Container, clock: Clock, http: TestClient
) -> None:
    batch_id = hand_over_batch(sender, container, clock)
    calls: list[tuple[str, str, Any]] = [
        ("GET", "/print/batches", None),
        ("GET", f"/print/batches/{batch_id}", None),
        ("POST", f"/print/batches/{batch_id}/mark", {"status": "printed"}),
        ("POST", f"/print/batches/{batch_id}/reprint", {"positions": [1], "reason": "Torn"}),
        ("POST", f"/print/batches/{batch_id}/retry", None),
        ("POST", "/print/rush", {"order_ids": [1]}),
        ("POST", "/print/pool", None),
    ]
    strangers = {
        "the sender": sender,
        "an operator's branch": make_teammate(container, operator, make_sub_account(container, operator), "live"),
        "an operator without the scope": make_operator(
            container, http, "narrow@example.com", mode="live", scopes=["send:write"]
        ),
    }
    reader = make_operator(container, http, "reader@example.com", mode="live", scopes=["orders:read"])
    other_mode = make_operator(container, http, "tester@example.com", mode="test")
    before = traces(container)
    for method, path, body in calls:
        for name, caller in strangers.items():
            answer = caller.call(method, path, json=body)
            assert (answer.status_code, list(answer.json())) == (403, ["message"]), (name, path)
        assert http.request(method, f"/api/v2{path}", json=body).status_code == 401
        assert reader.call(method, path, json=body).status_code == (200 if method == "GET" else 403)
        if str(batch_id) in path:
            assert other_mode.call(method, path, json=body).status_code == 404
            gone = path.replace(f"/{batch_id}", "/999999")
            assert operator.call(method, gone, json=body).status_code == 404
    assert other_mode.get("/print/batches").json()["data"] == []
    assert other_mode.post("/print/rush", {"order_ids": [1]}).status_code == 400
    assert traces(container) == before


def test_an_operator_of_both_modes_sees_each_with_its_token(
    operator: Account, sender: Account, container: Container, clock: Clock, http: TestClient
) -> None:
    batch_id = hand_over_batch(sender, container, clock)
    tester = make_operator(container, http, "tester@example.com")
    tester.send(recipients=[person()])
    run_jobs_for(container, clock, seconds=11)
    assert [batch["mode"] for batch in tester.get("/print/batches").json()["data"]] == ["test"]
    live = make_live(container, tester)
    assert [batch["id"] for batch in live.get("/print/batches").json()["data"]] == [batch_id]
