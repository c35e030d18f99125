"""Changing an order while it waits, and sending one again."""

from datetime import date
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import items, orders, prices
from quillpost.orders.queries import read_order
from support.factories import (
    Account,
    Build,
    Clock,
    make_account,
    make_sub_account,
    make_teammate,
    people,
    person,
    run_due_jobs,
    run_jobs_for,
)
from support.image_server import ImageServer
from support.orders import balances
from support.test_client import TestClient
from support.traces import traces


@pytest.fixture
def container(build: Build) -> Container:
    return build(allow_private_urls=True)


JSON = {"Content-Type": "application/json"}


def make_list(owner: Account, rows: list[dict[str, Any]]) -> int:
    number = int(owner.post("/mailing-lists", {"description": "Friends"}).json()["id"])
    owner.post("/recipients_multi", [row | {"mailing_list_id": number} for row in rows])
    return number


def delivered(owner: Account, container: Container, clock: Clock, **changes: Any) -> int:
    order = owner.send(**changes).json()["id"]
    run_jobs_for(container, clock, seconds=45)
    return int(order)


# Changing


def test_message_schedule_and_metadata_can_be_changed(owner: Account, container: Container) -> None:
    order = owner.send(metadata={"a": 1}).json()["id"]
    changed = owner.put(f"/orders/{order}", {"message": "Other words", "metadata": {"b": 12345678901234567890.0}})
    assert (changed.status_code, changed.json()["message"]) == (200, "Other words")
    body = '{"schedule_for": "2026-06-01T09:00:00Z", "metadata": {"b": 1.50, "a": [1e2]}}'
    again = owner.call("PUT", f"/orders/{order}", content=body, headers={"Content-Type": "application/json"})
    assert '"metadata":{"b":1.50,"a":[1e2]}' in again.text
    assert (again.json()["message"], again.json()["cancellable"]) == ("Other words", True)
    with container.db.system_transaction() as tx:
        assert read_order(tx, order).due_at.isoformat() == "2026-06-01T09:00:00+00:00"
    cleared = owner.put(f"/orders/{order}", {"schedule_for": None, "metadata": None}).json()
    assert cleared["metadata"] is None
    with container.db.system_transaction() as tx:
        assert read_order(tx, order).due_at.isoformat() == "2026-05-04T12:00:10+00:00"


def test_the_changed_words_are_printed(owner: Account, container: Container, clock: Clock) -> None:
    order = owner.send(message="Old words").json()["id"]
    before = owner.get(f"/orders/{order}/proof").content
    owner.put(f"/orders/{order}", {"message": "New words"})
    assert owner.get(f"/orders/{order}/proof").content != before
    run_jobs_for(container, clock, seconds=45)
    assert owner.get(f"/orders/{order}").json()["status"] == "Fulfilled"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"message": "A long story. " * 200}, "message"),
        ({"message": "%NOBODY%"}, "message"),
        ({"message": " "}, "message"),
        ({"message": None}, "message"),
        ({"message": 5}, "message"),
        ({"schedule_for": "2020-01-01T00:00:00Z"}, "schedule_for"),
        ({"metadata": [1]}, "metadata"),
        ({"metadata": {"a": "x" * 9_000}}, "metadata"),
    ],
)
def test_a_change_is_checked_like_a_send(
    owner: Account, container: Container, body: dict[str, Any], field: str
) -> None:
    order = owner.send().json()["id"]
    read, before = owner.get(f"/orders/{order}").json(), traces(container)
    refused = owner.put(f"/orders/{order}", body)
    assert (refused.status_code, list(refused.json()["errors"])) == (422, [field])
    after = owner.get(f"/orders/{order}").json()
    assert (after["message"], after["updated_at"], traces(container)) == (read["message"], read["updated_at"], before)


def test_a_changed_message_must_fit_for_everyone(owner: Account, container: Container) -> None:
    number = make_list(owner, [person(custom1="word " * 58)])
    order = owner.send(mailing_list_ids=[number], recipients=people(1)).json()["id"]
    run_due_jobs(container)
    refused = owner.put(f"/orders/{order}", {"message": "%CUSTOM1%" + " and so on" * 60})
    assert "longest values on the lists" in refused.json()["errors"]["message"][0]


def raise_the_price(container: Container) -> None:
    with container.db.system_transaction() as tx:
        tx.execute(
            sa.insert(prices).values(
                type="postcard", size="4x6", mail_class="first", country="US", unit_cents=150,
                valid_from=date(2026, 5, 4),
            )
        )  # fmt: skip


@pytest.mark.parametrize("change", [{"message": "Hello again!"}, {"schedule_for": "2026-06-01T09:00:00Z"}])
def test_a_change_is_priced_again(owner: Account, container: Container, change: dict[str, Any]) -> None:
    order = owner.send(recipients=people(2), message="Hello!").json()["id"]
    raise_the_price(container)
    changed = owner.put(f"/orders/{order}", change).json()
    assert (changed["order_total"], changed["grand_total"], changed["authorization_total"]) == (300, 300, 218)
    with container.db.system_transaction() as tx:
        assert balances(tx, read_order(tx, order)) == {"credit": -300, "held": 300, "earned": 0}


@pytest.mark.parametrize(
    "change", [{}, {"metadata": {"a": 1}}, {"message": "Hello!"}, {"schedule_for": "2026-06-01T09:00:00Z"}]
)
def test_what_mails_the_same_at_the_same_time_costs_the_same(
    owner: Account, container: Container, change: dict[str, Any]
) -> None:
    when = "2026-06-01T09:00:00Z"
    order = owner.send(recipients=people(2), message="Hello!", schedule_for=when).json()["id"]
    raise_the_price(container)
    assert owner.put(f"/orders/{order}", change).json()["order_total"] == 218
    with container.db.system_transaction() as tx:
        assert balances(tx, read_order(tx, order)) == {"credit": -218, "held": 218, "earned": 0}
        assert set(tx.execute(sa.select(items.c.price_cents)).scalars()) == {109}


def test_warnings_are_those_of_the_new_words(owner: Account) -> None:
    order = owner.send(message="漢").json()["id"]
    assert any("漢" in warning for warning in owner.get(f"/orders/{order}").json()["warnings"])
    changed = owner.put(f"/orders/{order}", {"message": "Hello"}).json()
    assert changed["warnings"] == []
    twice = owner.send(message="漢", recipients=[person(), person()]).json()["id"]
    (kept,) = owner.put(f"/orders/{twice}", {"message": "Hello"}).json()["warnings"]
    assert "same address" in kept


def test_an_order_that_is_being_made_can_no_longer_be_changed(
    owner: Account, container: Container, clock: Clock
) -> None:
    order = delivered(owner, container, clock)
    refused = owner.put(f"/orders/{order}", {"message": "Too late"})
    assert refused.status_code == 400
    assert refused.json() == {"message": "This order can no longer be changed: it is Fulfilled."}


def test_a_pdf_alone_has_no_message_to_change(owner: Account, art: ImageServer) -> None:
    body = {"recipients": [person()], "pdf_only_url": art.letter()}
    order = owner.post("/send/letter", body).json()["id"]
    assert list(owner.put(f"/orders/{order}", {"message": "Hi"}).json()["errors"]) == ["message"]
    assert owner.put(f"/orders/{order}", {"metadata": {}}).json()["metadata"] == {}


def test_unknown_fields_of_a_change_are_named(owner: Account) -> None:
    order = owner.send().json()["id"]
    assert owner.put(f"/orders/{order}", {"mesage": "Hi"}).headers["X-Ignored-Fields"] == "mesage"


def test_a_changed_creative_is_another_one(owner: Account) -> None:
    order = owner.send(message="First", allow_duplicates=False).json()["id"]
    owner.put(f"/orders/{order}", {"message": "Second"})
    assert owner.send(message="First", allow_duplicates=False).json()["total_estimated_recipients"] == 1
    assert owner.send(message="Second", allow_duplicates=False).json()["total_estimated_recipients"] == 0


def test_a_change_does_not_bring_the_same_piece_twice(owner: Account) -> None:
    owner.send(message="One", allow_duplicates=False)
    second = owner.send(message="Two", allow_duplicates=False).json()["id"]
    refused = owner.put(f"/orders/{second}", {"message": "One"})
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["message"])
    assert owner.get(f"/orders/{second}").json()["message"] == "Two"
    later = {"schedule_for": "2026-06-01T09:00:00Z", "message": "One"}
    assert owner.put(f"/orders/{second}", later).status_code == 200
    sooner = owner.put(f"/orders/{second}", {"schedule_for": None})
    assert list(sooner.json()["errors"]) == ["schedule_for"]


def test_only_the_new_words_must_fit_those_whom_the_order_has_taken_over(owner: Account, container: Container) -> None:
    number = make_list(owner, [person(custom1="short")])
    order = owner.send(mailing_list_ids=[number], recipients=None, message="%CUSTOM1%").json()["id"]
    run_due_jobs(container)
    late = person(address="9 Oak Ave", custom1="word " * 58) | {"mailing_list_id": number}
    assert owner.post("/recipients", late).status_code == 201
    long = "%CUSTOM1%" + " and so on" * 12
    assert owner.put(f"/orders/{order}", {"message": long}).status_code == 200
    too_long = owner.put(f"/orders/{order}", {"message": "%CUSTOM1%" + " and so on" * 90})
    assert list(too_long.json()["errors"]) == ["message"]


def test_a_limited_token_changes_and_replays_what_was_sent_with_the_accounts_own_files(
    owner: Account, container: Container, clock: Clock, art: ImageServer
) -> None:
    branch = make_sub_account(container, owner)
    image = owner.post("/image-templates", {"type": "postcard", "name": "All", "image": art.picture()}).json()
    owner.send(front_image_url=art.picture("gold"))
    mate = make_teammate(container, owner, branch)
    for front in ({"image_template": image["id"]}, {"front_image_url": art.picture("gold")}):
        order = owner.send(sub_account_id=branch, **front).json()["id"]
        assert mate.put(f"/orders/{order}", {"message": "Other words"}).status_code == 200
        run_jobs_for(container, clock, seconds=45)
        assert mate.post(f"/orders/{order}/replay").status_code == 200


# Sending again


def test_a_replay_is_a_new_order_of_the_same_creative(
    owner: Account, container: Container, clock: Clock, art: ImageServer
) -> None:
    number = make_list(owner, [person(name="Zoe", address="9 Oak Ave")])
    order = delivered(
        owner, container, clock,
        recipients=[person(custom10="x", dob="01/31/1990")], mailing_list_ids=[number],
        front_image_url=art.picture(), metadata={"n": 1.0}, qrcode_url="https://example.com",
        return_address="1 Elm St, Waco, TX 76701", handwriting_style=2,
    )  # fmt: skip
    fetched = len(art.requests)
    first = owner.get(f"/orders/{order}").json()
    answer = owner.post(f"/orders/{order}/replay")
    again = answer.json()
    assert (answer.status_code, again["id"] != order, again["status"]) == (200, True, "reviewing")
    assert '"n":1.0' in owner.get(f"/orders/{again['id']}").text
    for name in ("message", "type", "size", "style", "front_image", "sub_account_id"):
        assert again[name] == first[name]
    assert (again["qrcode_url"], again["return_address"]) == ("https://example.com", "1 Elm St")
    assert (again["mailing_list_ids_used"], again["total_estimated_recipients"]) == (str(number), 2)
    assert len(art.requests) == fetched
    run_due_jobs(container)
    names = [row["recipient"]["name"] for row in owner.get(f"/orders/{again['id']}/items").json()["data"]]
    assert names == ["Jane Doe", "Zoe"]
    with container.db.system_transaction() as tx:
        row = tx.execute(sa.select(items).where(items.c.order_id == again["id"]).order_by(items.c.id)).first()
    assert row is not None
    assert (row.custom10, row.dob, row.code is not None) == ("x", date(1990, 1, 31), True)


def test_a_replay_is_the_order_column_by_column(
    owner: Account, container: Container, clock: Clock, art: ImageServer
) -> None:
    branch = make_sub_account(container, owner)
    order = delivered(
        owner, container, clock,
        size="6x9", sub_account_id=branch, handwriting_style=3, handwriting_color="green",
        handwriting_realism=False, font_size="small", front_image_url=art.picture(),
        custom_background_image=art.picture("pink"), qrcode_url="https://example.com/~CITY~",
        send_standard_mail=True, append_or_current_resident=True, notification_emails=["a@example.com"],
        metadata={"a": 1}, return_name="Dana", return_address="1 Elm St", return_address2="2",
        return_city="Austin", return_state="TX", return_postal_code="78702",
    )  # fmt: skip
    again = owner.post(f"/orders/{order}/replay").json()["id"]
    with container.db.system_transaction() as tx:
        first, second = (
            tx.execute(sa.select(orders).where(orders.c.id == number)).one()._asdict() for number in (order, again)
        )
    its_own = {"id", "status", "created_at", "updated_at", "due_at"} | {name for name in first if name.startswith("n_")}
    assert {name for name in first if first[name] != second[name]} <= its_own


def test_an_order_of_a_sub_account_that_is_gone_is_not_replayed(
    owner: Account, container: Container, clock: Clock
) -> None:
    branch = make_sub_account(container, owner)
    order = delivered(owner, container, clock, sub_account_id=branch)
    assert owner.delete(f"/sub-accounts/{branch}").status_code == 200
    refused = owner.post(f"/orders/{order}/replay")
    assert (refused.status_code, refused.json()["message"]) == (400, "Sub Account ID does not exist")


def test_a_replay_may_go_to_others_at_another_time(owner: Account, container: Container, clock: Clock) -> None:
    number = make_list(owner, [person(name="Zoe", address="9 Oak Ave")])
    order = delivered(owner, container, clock, mailing_list_ids=[number], metadata={"a": 1})
    body = {"recipients": people(3), "schedule_for": "2026-06-01T09:00:00Z", "metadata": {"b": 2}}
    again = owner.post(f"/orders/{order}/replay", body).json()
    assert (again["total_estimated_recipients"], again["mailing_list_ids_used"]) == (3, "")
    assert owner.get(f"/orders/{again['id']}").json()["metadata"] == {"b": 2}
    none = owner.post(f"/orders/{order}/replay", {"metadata": None}).json()
    assert owner.get(f"/orders/{none['id']}").json()["metadata"] is None


def test_a_replay_allows_duplicates_by_default(owner: Account, container: Container, clock: Clock) -> None:
    order = delivered(owner, container, clock)
    assert owner.post(f"/orders/{order}/replay").json()["total_estimated_recipients"] == 1
    careful = owner.post(f"/orders/{order}/replay", {"allow_duplicates": False}).json()
    assert careful["total_estimated_recipients"] == 0


def test_only_what_was_mailed_can_be_replayed(owner: Account, container: Container, clock: Clock) -> None:
    waiting, cancelled = owner.send().json()["id"], owner.send().json()["id"]
    owner.put(f"/orders/{cancelled}/cancel")
    failed = owner.send(recipients=[{"email": "e@example.com"}]).json()["id"]
    assert owner.post(f"/orders/{waiting}/replay").status_code == 400
    run_jobs_for(container, clock, seconds=45)
    before = traces(container)
    for order, why in ((cancelled, "was cancelled"), (failed, "mailed nothing")):
        refused = owner.post(f"/orders/{order}/replay")
        assert (refused.status_code, why in refused.json()["message"]) == (400, True)
    assert traces(container) == before
    assert owner.post(f"/orders/{waiting}/replay").status_code == 200


def test_a_replay_is_checked_like_a_send(owner: Account, container: Container, clock: Clock) -> None:
    order = delivered(owner, container, clock)
    for body, field in (
        ({"recipients": []}, "recipients"),
        ({"recipients": [person(postal_code="1")]}, "recipients.0.postal_code"),
        ({"schedule_for": "soon"}, "schedule_for"),
        ({"metadata": []}, "metadata"),
    ):
        assert list(owner.post(f"/orders/{order}/replay", body).json()["errors"]) == [field]
    nothing = owner.call("POST", f"/orders/{order}/replay", content=b"null", headers=JSON)
    assert nothing.status_code == 200
    odd = owner.post(f"/orders/{order}/replay", {"recipients": [person(nick="J")], "x": 1})
    assert odd.headers["X-Ignored-Fields"] == "recipients.*.nick, x"


def test_nobody_else_changes_or_replays_an_order(
    owner: Account, stranger: Account, container: Container, clock: Clock, http: TestClient
) -> None:
    here, there = make_sub_account(container, owner), make_sub_account(container, owner)
    order = delivered(owner, container, clock, sub_account_id=here)
    live = make_account(container, http, "live@example.com", mode="live")
    for other in (stranger, live, make_teammate(container, owner, there)):
        assert other.put(f"/orders/{order}", {"message": "Mine"}).status_code == 404
        assert other.post(f"/orders/{order}/replay").status_code == 404
    assert make_teammate(container, owner, here).post(f"/orders/{order}/replay").status_code == 200
