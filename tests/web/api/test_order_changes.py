"""Changing an order while it waits, and sending one again."""

from datetime import date
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import prices
from support.factories import (
    Account,
    Clock,
    make_sub_account,
    make_teammate,
    people,
    person,
    run_due_jobs,
    run_jobs_for,
)
from support.images import ImageServer
from support.mailing_lists import ListOwner
from support.orders import balances, item_rows, order_row
from support.rows import execute
from support.traces import assert_refused, unchanged

pytestmark = pytest.mark.usefixtures("clean_database")

JSON = {"Content-Type": "application/json"}
WHEN = "2026-06-01T09:00:00Z"


def make_list(owner: Account, **fields: Any) -> int:
    """With one person on it."""
    lists = ListOwner(owner)
    lists.add(list_id := lists.make(), **fields)
    return list_id


def sent(owner: Account, **changes: Any) -> int:
    answer = owner.send(**changes)
    assert answer.status_code == 200, answer.text
    return int(answer.json()["id"])


# Changing

BAD_CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"message": "A long story. " * 200}, "message"), ({"message": "%NOBODY%"}, "message"),
    ({"message": " "}, "message"), ({"message": None}, "message"), ({"message": 5}, "message"),
    ({"schedule_for": "2020-01-01T00:00:00Z"}, "schedule_for"), ({"metadata": [1]}, "metadata"),
    ({"metadata": {"a": "x" * 9_000}}, "metadata"),
]  # fmt: skip


def test_message_schedule_and_metadata_can_be_changed_until_it_is_made(
    subtests: pytest.Subtests, owner: Account, container: Container, clock: Clock
) -> None:
    order = sent(owner, metadata={"a": 1})
    assert_refused(subtests, container, lambda body: owner.put(f"/orders/{order}", body), BAD_CHANGES)
    before = owner.get(f"/orders/{order}/proof").content
    body: dict[str, Any] = {"message": "Other words", "metadata": {"b": 12345678901234567890.0}, "mesage": "Hi"}
    changed = owner.put(f"/orders/{order}", body)
    assert (changed.status_code, changed.json()["message"]) == (200, "Other words")
    assert changed.headers["X-Ignored-Fields"] == "mesage"
    assert owner.get(f"/orders/{order}/proof").content != before
    written = '{"schedule_for": "2026-06-01T09:00:00Z", "metadata": {"b": 1.50, "a": [1e2]}}'
    again = owner.call("PUT", f"/orders/{order}", content=written, headers=JSON)
    assert '"metadata":{"b":1.50,"a":[1e2]}' in again.text
    assert (again.json()["message"], again.json()["cancellable"]) == ("Other words", True)
    assert order_row(container, order).due_at.isoformat() == "2026-06-01T09:00:00+00:00"
    cleared = owner.put(f"/orders/{order}", {"schedule_for": None, "metadata": None}).json()
    due_at = order_row(container, order).due_at.isoformat()
    assert (cleared["metadata"], due_at) == (None, "2026-05-04T12:00:10+00:00")
    run_jobs_for(container, clock, seconds=45)
    late = owner.put(f"/orders/{order}", {"message": "Too late"})
    message = "This order can no longer be changed: it is Fulfilled."
    assert (late.status_code, late.json()) == (400, {"message": message})


def test_a_changed_message_must_fit_for_those_whom_the_order_has_taken_over(
    owner: Account, container: Container
) -> None:
    wordy, brief = make_list(owner, custom1="word " * 58), make_list(owner, custom1="short")
    both = sent(owner, mailing_list_ids=[wordy], recipients=people(1))
    order = sent(owner, mailing_list_ids=[brief], recipients=None, message="%CUSTOM1%")
    run_due_jobs(container)
    refused = owner.put(f"/orders/{both}", {"message": "%CUSTOM1%" + " and so on" * 60})
    assert "longest values on the lists" in refused.json()["errors"]["message"][0]
    assert ListOwner(owner).add(brief, address="9 Oak Ave", custom1="word " * 58).status_code == 201
    assert owner.put(f"/orders/{order}", {"message": "%CUSTOM1%" + " and so on" * 12}).status_code == 200
    too_long = owner.put(f"/orders/{order}", {"message": "%CUSTOM1%" + " and so on" * 90})
    assert list(too_long.json()["errors"]) == ["message"]


@pytest.mark.usefixtures("conninfo")
def test_only_other_mail_or_another_time_is_priced_again(owner: Account, container: Container) -> None:
    soon = [sent(owner, recipients=people(2), message="Hello!") for _ in range(2)]
    late = [sent(owner, recipients=people(2), message="Hello!", schedule_for=WHEN) for _ in range(4)]
    columns = {"type": "postcard", "size": "4x6", "mail_class": "first", "country": "US"}
    execute(container, sa.insert(prices).values(**columns, unit_cents=150, valid_from=date(2026, 5, 4)))
    for order, change in zip(soon, ({"message": "Hello again!"}, {"schedule_for": WHEN}), strict=True):
        changed = owner.put(f"/orders/{order}", change).json()
        assert (changed["order_total"], changed["grand_total"], changed["authorization_total"]) == (300, 300, 218)
        assert balances(container, order) == {"credit": -300, "held": 300, "earned": 0}
    same: tuple[dict[str, Any], ...] = ({}, {"metadata": {"a": 1}}, {"message": "Hello!"}, {"schedule_for": WHEN})
    for order, change in zip(late, same, strict=True):
        assert owner.put(f"/orders/{order}", change).json()["order_total"] == 218, change
        assert balances(container, order) == {"credit": -218, "held": 218, "earned": 0}
        assert {item.price_cents for item in item_rows(container, order)} == {109}


def test_warnings_are_those_of_the_new_words(owner: Account) -> None:
    order, twice = sent(owner, message="漢"), sent(owner, message="漢", recipients=[person(), person()])
    assert any("漢" in warning for warning in owner.get(f"/orders/{order}").json()["warnings"])
    assert owner.put(f"/orders/{order}", {"message": "Hello"}).json()["warnings"] == []
    (kept,) = owner.put(f"/orders/{twice}", {"message": "Hello"}).json()["warnings"]
    assert "same address" in kept


@pytest.mark.usefixtures("loopback_urls")
def test_a_pdf_alone_has_no_message_to_change(owner: Account, art: ImageServer) -> None:
    order = owner.post("/send/letter", {"recipients": [person()], "pdf_only_url": art.letter()}).json()["id"]
    assert list(owner.put(f"/orders/{order}", {"message": "Hi"}).json()["errors"]) == ["message"]
    assert owner.put(f"/orders/{order}", {"metadata": {}}).json()["metadata"] == {}


def test_a_changed_creative_is_another_one_that_nobody_gets_twice(owner: Account) -> None:
    def reached(message: str) -> int:
        return int(owner.send(message=message, allow_duplicates=False).json()["total_estimated_recipients"])

    order = sent(owner, message="First", allow_duplicates=False)
    owner.put(f"/orders/{order}", {"message": "Second"})
    assert (reached("First"), reached("Second")) == (1, 0)
    other = sent(owner, message="Third", allow_duplicates=False)
    refused = owner.put(f"/orders/{other}", {"message": "First"})
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["message"])
    assert owner.get(f"/orders/{other}").json()["message"] == "Third"
    assert owner.put(f"/orders/{other}", {"schedule_for": WHEN, "message": "First"}).status_code == 200
    sooner = owner.put(f"/orders/{other}", {"schedule_for": None})
    assert list(sooner.json()["errors"]) == ["schedule_for"]


@pytest.mark.usefixtures("loopback_urls")
def test_a_limited_token_changes_and_replays_what_was_sent_with_the_accounts_own_files(
    owner: Account, container: Container, clock: Clock, art: ImageServer
) -> None:
    branch = make_sub_account(container, owner)
    image = owner.post("/image-templates", {"type": "postcard", "name": "All", "image": art.picture()}).json()
    owner.send(front_image_url=art.picture("gold"))
    mate = make_teammate(container, owner, branch)
    fronts = {"image_template": image["id"]}, {"front_image_url": art.picture("gold")}
    made = [sent(owner, sub_account_id=branch, **front) for front in fronts]
    assert [mate.put(f"/orders/{order}", {"message": "Other words"}).status_code for order in made] == [200, 200]
    run_jobs_for(container, clock, seconds=45)
    assert [mate.post(f"/orders/{order}/replay").status_code for order in made] == [200, 200]


# Sending again


@pytest.mark.usefixtures("loopback_urls")
def test_a_replay_is_a_new_order_that_is_the_first_column_by_column(
    owner: Account, container: Container, clock: Clock, art: ImageServer
) -> None:
    number, branch = make_list(owner, name="Zoe", address="9 Oak Ave"), make_sub_account(container, owner)
    order = sent(
        owner,
        recipients=[person(custom10="x", dob="01/31/1990")], mailing_list_ids=[number],
        front_image_url=art.picture(), metadata={"n": 1.0}, qrcode_url="https://example.com",
        return_address="1 Elm St, Waco, TX 76701", handwriting_style=2,
    )  # fmt: skip
    whole = sent(
        owner,
        size="6x9", sub_account_id=branch, handwriting_style=3, handwriting_color="green",
        handwriting_realism=False, font_size="small", front_image_url=art.picture(),
        custom_background_image=art.picture("pink"), qrcode_url="https://example.com/~CITY~",
        send_standard_mail=True, append_or_current_resident=True, notification_emails=["a@example.com"],
        metadata={"a": 1}, return_name="Dana", return_address="1 Elm St", return_address2="2",
        return_city="Austin", return_state="TX", return_postal_code="78702",
    )  # fmt: skip
    run_jobs_for(container, clock, seconds=45)
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
    copied = owner.post(f"/orders/{whole}/replay").json()["id"]
    row = item_rows(container, again["id"])[0]
    one, other = (order_row(container, each)._asdict() for each in (whole, copied))
    assert (row.custom10, row.dob, row.code is not None) == ("x", date(1990, 1, 31), True)
    its_own = {"id", "status", "created_at", "updated_at", "due_at"} | {name for name in one if name.startswith("n_")}
    assert {name for name in one if one[name] != other[name]} <= its_own


def test_a_replay_may_go_to_others_at_another_time_and_is_checked_like_a_send(
    owner: Account, container: Container, clock: Clock
) -> None:
    number = make_list(owner, name="Zoe", address="9 Oak Ave")
    order = sent(owner, mailing_list_ids=[number], metadata={"a": 1})
    run_jobs_for(container, clock, seconds=45)
    path = f"/orders/{order}/replay"
    again = owner.post(path, {"recipients": people(3), "schedule_for": WHEN, "metadata": {"b": 2}}).json()
    assert (again["total_estimated_recipients"], again["mailing_list_ids_used"]) == (3, "")
    assert owner.get(f"/orders/{again['id']}").json()["metadata"] == {"b": 2}
    none = owner.post(path, {"metadata": None}).json()
    assert owner.get(f"/orders/{none['id']}").json()["metadata"] is None
    for body, reached in ((None, 2), ({"allow_duplicates": False}, 0)):
        assert owner.post(path, body).json()["total_estimated_recipients"] == reached
    for wrong, field in (
        ({"recipients": []}, "recipients"),
        ({"recipients": [person(postal_code="1")]}, "recipients.0.postal_code"),
        ({"schedule_for": "soon"}, "schedule_for"),
        ({"metadata": []}, "metadata"),
    ):
        assert list(owner.post(path, wrong).json()["errors"]) == [field]
    assert owner.call("POST", path, content=b"null", headers=JSON).status_code == 200
    odd = owner.post(path, {"recipients": [person(nick="J")], "x": 1})
    assert odd.headers["X-Ignored-Fields"] == "recipients.*.nick, x"


def test_only_what_was_mailed_can_be_replayed(owner: Account, container: Container, clock: Clock) -> None:
    gone = make_sub_account(container, owner)
    waiting, cancelled, ended = sent(owner), sent(owner), sent(owner, sub_account_id=gone)
    failed = sent(owner, recipients=[{"email": "e@example.com"}])
    owner.put(f"/orders/{cancelled}/cancel")
    assert owner.post(f"/orders/{waiting}/replay").status_code == 400
    run_jobs_for(container, clock, seconds=45)
    assert owner.delete(f"/sub-accounts/{gone}").status_code == 200
    with unchanged(container):
        for order, why in (
            (cancelled, "was cancelled"), (failed, "mailed nothing"), (ended, "Sub Account ID does not exist"),
        ):  # fmt: skip
            refused = owner.post(f"/orders/{order}/replay")
            assert (refused.status_code, why in refused.json()["message"]) == (400, True)
    assert owner.post(f"/orders/{waiting}/replay").status_code == 200
