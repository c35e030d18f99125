"""The print room over the API: batches, their files, and what operators say of them and of single pieces."""

import hashlib
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.app.container import Container
from quillpost.core.database.tables.base import items, orders
from quillpost.core.database.tables.fulfillment import batches, order_verdicts, prints
from quillpost.web.application import create_app
from support import factories
from support.factories import (
    Account,
    Build,
    Clock,
    count_rows,
    make_live,
    make_operator,
    person,
    run_due_jobs,
    run_jobs_for,
)
from support.orders import HOME, hand_over_batch
from support.production import LIVE_SETTINGS, delete_jobs
from support.rows import execute, scalar, scalars
from support.test_client import TestClient
from support.traces import assert_refused, unchanged


@pytest.fixture
def container(build: Build) -> Container:
    """Live mail may be printed, by a printer who says nothing by itself."""
    return build(**LIVE_SETTINGS, review_seconds=1)


@pytest.fixture
def operator(container: Container, http: TestClient) -> Account:
    return make_operator(container, http, mode="live")


@pytest.fixture
def sender(container: Container, http: TestClient) -> Account:
    return factories.make_account(container, http, "sender@example.com", mode="live")


def read(operator: Account, batch_id: int) -> dict[str, Any]:
    found: dict[str, Any] = operator.get(f"/print/batches/{batch_id}").json()
    return found


def mark(operator: Account, batch_id: int, status: str, **more: Any) -> Response:
    return operator.post(f"/print/batches/{batch_id}/mark", {"status": status} | more)


def reprint(operator: Account, batch_id: int, **pieces: Any) -> dict[str, Any]:
    answer = operator.post(f"/print/batches/{batch_id}/reprint", pieces | {"reason": "Torn"})
    assert answer.status_code == 201, answer.text
    new_batch: dict[str, Any] = answer.json()
    return new_batch


def item_ids(container: Container, batch_id: int) -> dict[int, int]:
    """The item at each position of the batch."""
    return {row.position: row.item_id for row in execute(container, sa.select(prints).filter_by(batch_id=batch_id))}


def change_batch(container: Container, batch_id: int, **columns: Any) -> None:
    execute(container, sa.update(batches).where(batches.c.id == batch_id).values(**columns))


def set_in_transit(container: Container, item_id: int) -> None:
    execute(container, sa.update(items).where(items.c.id == item_id).values(status="In Transit"))


def test_a_batch_is_shown_with_its_files_and_marked_on_its_way(
    operator: Account, sender: Account, container: Container, clock: Clock, http: TestClient
) -> None:
    batch_id = hand_over_batch(sender, container, clock)
    [listed] = operator.get("/print/batches").json()["data"]
    batch = read(operator, batch_id)
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
    heard = mark(operator, batch_id, "acknowledged").json()
    assert (heard["status"], heard["acknowledged_at"] is not None) == ("handed", True)
    clock.advance(hours=1)
    spoiled = [{"position": 2, "reason": "Torn"}]
    printed = mark(operator, batch_id, "printed", spoiled=spoiled).json()
    assert (printed["status"], printed["pieces_by_status"]) == ("printed", {"Failed": 1, "Printed": 2})
    pieces = sender.get("/order-items").json()["data"]
    assert sorted(piece["status"] for piece in pieces) == ["Failed", "Printed", "Printed"]
    clock.advance(hours=1)
    mailed = mark(operator, batch_id, "mailed").json()
    assert (mailed["status"], mailed["mailed_at"]) == ("mailed", "2026-05-04T14:00:04Z")

    def known() -> list[object]:
        row = sa.select(batches).where(batches.c.id == batch_id)
        return [count_rows(container), execute(container, row), sender.get("/order-items").json()]

    before = known()
    again = mark(operator, batch_id, "printed", spoiled=spoiled)
    assert (again.status_code, again.json()["status"]) == (200, "mailed")
    assert known() == before
    clock.advance(hours=22)  # a link to a file ends after a day
    path, later = f"batch-{batch_id}/../../secret.key", clock.now().replace(year=2030)
    for url in (batch["files"][0]["url"], container.storage.signed_path(path, expires_at=later)):
        assert http.get(url).status_code == 404


def test_the_newest_batches_come_first(operator: Account, sender: Account, container: Container, clock: Clock) -> None:
    first, second = hand_over_batch(sender, container, clock), hand_over_batch(sender, container, clock, 1)
    mark(operator, first, "mailed")

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
    assert (page["meta"]["total"], page["meta"]["last_page"], "gaps" in page["meta"]) == (2, 2, False)
    assert "items_per_page=1" in page["links"]["next"]
    for query in ("status=gone", "open=maybe", "page=0", "limit=x"):
        refused = operator.get(f"/print/batches?{query}")
        assert (refused.status_code, list(refused.json()["errors"])) == (422, [query.split("=")[0]])
    made = sa.insert(batches).values(
        mode="live", piece="postcard-4x6", mail_class="first", status="new", item_count=0, created_at=clock.now(),
        stock="", rush=False,
    )  # fmt: skip
    new = read(operator, scalar(container, made.returning(batches.c.id)))
    assert (new["files"], new["statement"], new["pieces_by_status"]) == ([], None, {})


def test_spoiled_pieces_fail_for_free(operator: Account, sender: Account, container: Container, clock: Clock) -> None:
    batch_id = hand_over_batch(sender, container, clock)
    at = item_ids(container, batch_id)
    spoiled = [{"item_id": at[1], "why": "Torn"}, {"position": 3, "reason": "Smudged"}]
    answer = mark(operator, batch_id, "spoiled", spoiled=spoiled, whom="me")
    assert answer.json()["pieces_by_status"] == {"Failed": 2, "Processing": 1}
    assert answer.headers["X-Ignored-Fields"] == "spoiled.*.why, whom"
    failures = {n: sender.get(f"/order-items/{at[n]}").json()["failure"] for n in (1, 2, 3)}
    assert failures == {1: "Spoiled in printing", 2: None, 3: "Smudged"}
    [order] = sender.get("/orders/list").json()["data"]
    assert order["order_total"] == 109
    clock.advance(hours=5)
    earlier = mark(operator, batch_id, "mailed", at="2026-05-04T15:30:00+02:00").json()
    assert (earlier["printed_at"], earlier["mailed_at"]) == ("2026-05-04T13:30:00Z",) * 2


def test_neither_a_piece_in_the_mail_nor_one_that_the_printer_lacks_is_marked(
    operator: Account, sender: Account, container: Container, clock: Clock
) -> None:
    batch_id = hand_over_batch(sender, container, clock)
    set_in_transit(container, item_ids(container, batch_id)[2])
    with unchanged(container):
        refused = mark(operator, batch_id, "printed", spoiled=[{"position": 1}, {"position": 2}])
        assert (refused.status_code, list(refused.json()["errors"])) == (422, ["spoiled.1.position"])
        assert "Piece 2 is in the mail already" in refused.json()["message"]
    change_batch(container, batch_id, status="composed", handed_at=None)
    for act, body in (("mark", {"status": "printed"}), ("reprint", {"positions": [1], "reason": "Torn"})):
        refused = operator.post(f"/print/batches/{batch_id}/{act}", body)
        assert refused.status_code == 409
        assert "has not been handed to the printer" in refused.json()["message"]


def test_reprints_have_other_barcodes(operator: Account, sender: Account, container: Container, clock: Clock) -> None:
    ways: tuple[dict[str, Any], ...] = ({"positions": [2, 3]}, {"from": 2, "to": 3}, {"positions": ["2", "3", 2]})
    for place, pieces in enumerate(ways, start=1):
        batch_id = hand_over_batch(sender, container, clock)
        new_batch = reprint(operator, batch_id, **pieces)
        shown = {name: new_batch[name] for name in ("reprint_of", "pieces", "rush", "status", "left_out")}
        assert shown == {"reprint_of": batch_id, "pieces": 2, "rush": True, "status": "new", "left_out": []}
        former = read(operator, batch_id)
        assert (former["pieces_by_status"], former["void"]) == ({"Processing": 1}, 2)
        assert former["reprints"] == [new_batch["id"]]
        codes = scalars(container, sa.select(prints.c.tracking))
        assert len(set(codes)) == len(codes) == 5 * place
        run_jobs_for(container, clock, seconds=2)
        assert read(operator, new_batch["id"])["status"] == "handed"


def test_a_reprinted_piece_is_marked_in_its_new_batch_and_what_a_reprint_leaves_out_is_named(
    operator: Account, sender: Account, container: Container, clock: Clock
) -> None:
    batch_id = hand_over_batch(sender, container, clock, 4)
    at = item_ids(container, batch_id)
    new_batch = reprint(operator, batch_id, item_ids=[str(at[4]), at[4]])
    assert (new_batch["pieces"], new_batch["left_out"]) == (1, [])
    error = f"Piece 4 was reprinted in {new_batch['reference']}: mark it there."
    with unchanged(container):
        for status in ("spoiled", "printed"):
            spoiled = [{"position": 1}, {"position": 4}, {"item_id": at[4]}]
            refused = mark(operator, batch_id, status, spoiled=spoiled)
            errors = {"spoiled.1.position": [error], "spoiled.2.item_id": [error]}
            assert (refused.status_code, refused.json()["errors"]) == (422, errors)
            assert refused.json()["message"].startswith(error)
    mark(operator, batch_id, "spoiled", spoiled=[{"position": 1}])
    set_in_transit(container, at[2])
    second = reprint(operator, batch_id, **{"from": 1, "to": 4})
    assert (second["pieces"], second["reprint_of"]) == (1, batch_id)
    assert second["left_out"] == [
        {"position": 1, "item_id": at[1], "reason": "Ended already (Failed)."},
        {"position": 2, "item_id": at[2], "reason": "In the mail already (In Transit)."},
        {"position": 4, "item_id": at[4], "reason": f"Reprinted in {new_batch['reference']}."},
    ]
    assert "left_out" not in read(operator, second["id"])
    none = operator.post(f"/print/batches/{batch_id}/reprint", {"item_ids": [at[4]], "reason": "Torn"})
    assert (none.status_code, "None of these pieces can be printed again" in none.json()["message"]) == (409, True)


def test_a_step_that_was_given_up_is_tried_again_and_offered_to_another_partner_only_on_request(
    operator: Account, sender: Account, container: Container, clock: Clock
) -> None:
    batch_id = hand_over_batch(sender, container, clock)
    path = f"/print/batches/{batch_id}/retry"
    refused = operator.post(path, {"anew": True})
    assert (refused.status_code, refused.json()["message"][:20]) == (409, "The batch is handed:")
    delete_jobs(container)
    change_batch(container, batch_id, status="composed", handed_at=None, trouble="No answer.")
    assert read(operator, batch_id)["trouble"] == "No answer."
    tried = operator.post(path)
    assert (tried.status_code, tried.json()["status"]) == (200, "composed")
    run_due_jobs(container)
    found = read(operator, batch_id)
    assert (found["status"], found["trouble"]) == ("handed", None)
    delete_jobs(container)
    change_batch(container, batch_id, status="composed", handed_at=None, partner="https://old.example.com")
    for body in (None, {}, {"anew": False}, {"anew": None}):
        assert operator.post(path, body).status_code == 200
        run_due_jobs(container)
        found = read(operator, batch_id)
        assert found["status"] == "composed"
        assert found["trouble"].startswith("It was offered to https://old.example.com, who may have it. ")
    wrong = operator.post(path, {"anew": "yes"})
    assert (wrong.status_code, list(wrong.json()["errors"])) == (422, ["anew"])
    anew = operator.post(path, {"anew": True})
    assert (anew.status_code, anew.json()["trouble"]) == (200, None)
    run_due_jobs(container)
    assert read(operator, batch_id)["status"] == "handed"
    mark(operator, batch_id, "mailed")
    assert operator.post(path).status_code == 409


def test_orders_are_rushed(operator: Account, sender: Account, container: Container) -> None:
    order_id, other = (sender.send(**HOME).json()["id"] for _ in range(2))
    answer = operator.post("/print/rush", {"order_ids": [order_id]})
    assert answer.json() == {"message": "success", "order_ids": [order_id]}
    assert {row.id: row.rush for row in execute(container, sa.select(orders))} == {order_id: True, other: False}
    [decision] = execute(container, sa.select(order_verdicts))
    assert (decision.verdict, decision.operator_id) == ("rushed", operator.id)
    assert operator.post("/print/rush", {"order_ids": [order_id]}).json()["order_ids"] == []
    with unchanged(container):
        for unknown in ([999_999], [other, 999_999], [999_999, other]):
            refused = operator.post("/print/rush", {"order_ids": unknown})
            assert (refused.status_code, refused.json()) == (400, {"message": "There is no order 999999."})


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


BAD_MARKS: list[tuple[Any, str]] = [
    ({}, "status"), ({"status": None}, "status"), ({"status": "burnt"}, "status"), ({"status": 5}, "status"),
    ({"status": "spoiled"}, "spoiled"), ([], "body"),
]  # fmt: skip
BAD_TIMES = ("yesterday", 5, "2026-05-04T23:00:00Z", "2026-05-04T11:00:00Z", "x" * 65)
BAD_SPOILED: list[tuple[Any, str]] = [
    ([], ""), ({"position": 1}, ""), (["1"], ".0"), ([{}], ".0"), ([{"position": 1}, {"reason": "Torn"}], ".1"),
    ([{"position": 1, "item_id": 1}], ".0"), ([{"position": 1}, {"position": 4}], ".1.position"),
    ([{"position": 0}], ".0.position"), ([{"position": 2**40}], ".0.position"), ([{"item_id": 2**62}], ".0.item_id"),
    ([{"item_id": "x"}], ".0.item_id"), ([{"position": 1, "reason": "x" * 501}], ".0.reason"),
    ([{"position": 1}] * 5_001, ""),
]  # fmt: skip
BAD_REPRINTS: list[tuple[dict[str, Any], str]] = [
    ({}, "positions"), ({"positions": [1], "reason": None}, "reason"), ({"positions": [1], "reason": " "}, "reason"),
    ({"positions": []}, "positions"), ({"positions": [1], "item_ids": [1]}, "positions"),
    ({"positions": [1], "from": 1, "to": 2}, "positions"), ({"positions": [1, 9]}, "positions.1"),
    ({"positions": ["a"]}, "positions.0"), ({"positions": [0]}, "positions.0"), ({"positions": 1}, "positions"),
    ({"positions": [1] * 5_001}, "positions"), ({"from": 1}, "to"), ({"to": 1}, "from"), ({"from": 3, "to": 2}, "to"),
    ({"from": 1, "to": 4}, "to"), ({"from": 9, "to": 12}, "from"), ({"from": 1, "to": 900_000}, "to"),
    ({"item_ids": [2**62]}, "item_ids.0"), ({"item_ids": "1"}, "item_ids"),
]  # fmt: skip
BAD_RUSHES: list[tuple[Any, str]] = [
    ({}, "order_ids"), ({"order_ids": []}, "order_ids"), ({"order_ids": [0]}, "order_ids.0"),
    ({"order_ids": ["x"]}, "order_ids.0"), ({"order_ids": [1] * 1_001}, "order_ids"),
]  # fmt: skip


def test_words_about_a_batch_that_cannot_be_meant_are_refused(
    subtests: pytest.Subtests, operator: Account, sender: Account, container: Container, clock: Clock
) -> None:
    batch_id = hand_over_batch(sender, container, clock)
    marks = [*BAD_MARKS, *(({"status": "printed", "at": at}, "at") for at in BAD_TIMES)]
    marks += [({"status": "spoiled", "spoiled": given}, f"spoiled{place}") for given, place in BAD_SPOILED]
    reprints = [({"positions": [1]}, "reason"), *(({"reason": "Torn"} | body, field) for body, field in BAD_REPRINTS)]
    calls = {f"batches/{batch_id}/mark": marks, f"batches/{batch_id}/reprint": reprints, "rush": BAD_RUSHES}
    for path, cases in calls.items():
        assert_refused(subtests, container, partial(operator.post, f"/print/{path}"), cases)


def test_an_operator_has_the_print_room_of_the_mode_of_the_token(
    operator: Account, sender: Account, container: Container, clock: Clock, http: TestClient
) -> None:
    batch_id = hand_over_batch(sender, container, clock)
    tester = make_operator(container, http, "tester@example.com", mode="test")
    calls: list[tuple[str, str, Any]] = [
        ("GET", "", None), ("POST", "/mark", {"status": "printed"}),
        ("POST", "/reprint", {"positions": [1], "reason": "Torn"}), ("POST", "/retry", None),
    ]  # fmt: skip
    with unchanged(container):
        for method, act, body in calls:
            for caller, number in ((tester, batch_id), (operator, 999_999)):
                answer = caller.call(method, f"/print/batches/{number}{act}", json=body)
                assert (answer.status_code, answer.json()) == (404, {"message": "Not Found"}), act
        assert tester.get("/print/batches").json()["data"] == []
        assert tester.post("/print/rush", {"order_ids": [1]}).status_code == 400
    tester.send(recipients=[person()])
    run_jobs_for(container, clock, seconds=11)
    assert [batch["mode"] for batch in tester.get("/print/batches").json()["data"]] == ["test"]
    live = make_live(container, tester)
    assert [batch["id"] for batch in live.get("/print/batches").json()["data"]] == [batch_id]
