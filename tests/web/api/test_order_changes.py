"""Orders changed and sent again, and what holds an order when its review ends."""

from dataclasses import replace
from datetime import date
from io import BytesIO
from typing import Any

import pytest
import sqlalchemy as sa
from PIL import Image

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.base import orders, prices
from quillpost.core.database.tables.fulfillment import order_verdicts
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.recipients.rules import SUPPRESSED
from quillpost.web.application import create_app
from support import factories, mailing_lists
from support.factories import Account, Build, Clock, make_sub_account, people, person, run_due_jobs, run_jobs_for
from support.images import ImageServer
from support.mailing_lists import ListOwner
from support.orders import HOME, balances, create_held_orders, fact_rows, item_rows, order_row
from support.production import LIVE_SETTINGS, batch_rows
from support.rows import execute, scalars
from support.test_client import TestClient
from support.traces import assert_refused, unchanged
from support.uploads import upload

pytestmark = pytest.mark.usefixtures("clean_database", "loopback_urls")

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


def test_a_changed_message_must_fit_all_people_of_the_order(owner: Account, container: Container) -> None:
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
    assert list(owner.put(f"/orders/{other}", {"schedule_for": None}).json()["errors"]) == ["schedule_for"]


def test_a_limited_token_changes_and_replays_what_was_sent_with_the_accounts_own_files(
    owner: Account, container: Container, clock: Clock, art: ImageServer
) -> None:
    branch = make_sub_account(container, owner)
    image = owner.post("/image-templates", {"type": "postcard", "name": "All", "image": art.picture()}).json()
    owner.send(front_image_url=art.picture("gold"))
    mate = factories.make_teammate(container, owner, branch)
    fronts = {"image_template": image["id"]}, {"front_image_url": art.picture("gold")}
    made = [sent(owner, sub_account_id=branch, **front) for front in fronts]
    assert [mate.put(f"/orders/{order}", {"message": "Other words"}).status_code for order in made] == [200, 200]
    run_jobs_for(container, clock, seconds=45)
    assert [mate.post(f"/orders/{order}/replay").status_code for order in made] == [200, 200]


def test_a_replay_equals_the_first_order(owner: Account, container: Container, clock: Clock, art: ImageServer) -> None:
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


def test_a_replay_to_others_is_checked_like_a_send(owner: Account, container: Container, clock: Clock) -> None:
    order = sent(owner, mailing_list_ids=[make_list(owner, name="Zoe", address="9 Oak Ave")], metadata={"a": 1})
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
        ({"recipients": []}, "recipients"), ({"recipients": [person(postal_code="1")]}, "recipients.0.postal_code"),
        ({"schedule_for": "soon"}, "schedule_for"), ({"metadata": []}, "metadata"),
    ):  # fmt: skip
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


# A 4x6 postcard with its bleed is 6.25 inches wide: 75 dots an inch are 469 pixels.
SOFT, SHARP = (300, 204), (1875, 1275)


def picture(size: tuple[int, int]) -> bytes:
    file = BytesIO()
    Image.new("RGB", size, "teal").save(file, "PNG")
    return file.getvalue()


def read(owner: Account, order_id: int) -> tuple[str, list[str]]:
    order = owner.get(f"/orders/{order_id}").json()
    return order["status"], order["warnings"]


def test_a_blurred_picture_holds_orders(owner: Account, operator: Account, container: Container, clock: Clock) -> None:
    soft, sharp = (upload(owner, image=picture(size)).json()["id"] for size in (SOFT, SHARP))
    sent = [owner.send(image_template=template).json()["id"] for template in (soft, soft, sharp, None)]
    owner.put(f"/orders/{sent[1]}", {"message": "Other words"})
    assert [order_row(container, order_id).lowest_dpi for order_id in sent] == [48, 48, None, None]
    run_jobs_for(container, clock, seconds=11)
    shown = [read(owner, order_id) for order_id in sent]
    assert [status == "Paused" for status, _ in shown] == [True, True, False, False]
    assert all("would print at 48 dpi" in warnings[-1] for _, warnings in shown[:2])
    operator.post(f"/orders/{sent[0]}/release")
    run_jobs_for(container, clock, seconds=40)
    again = owner.post(f"/orders/{sent[0]}/replay").json()["id"]
    assert order_row(container, again).lowest_dpi == 48
    run_jobs_for(container, clock, seconds=11)
    assert read(owner, again)[0] == "Paused"


def test_lists_with_longer_words_or_without_addresses_hold_their_orders_and_released_only_they_fail(
    owner: Account, operator: Account, container: Container, clock: Clock
) -> None:
    lists = ListOwner(owner)
    wordy, nowhere = lists.make(), lists.make()
    lists.add(wordy, custom1="You won!")
    lists.add(nowhere)
    large = {"message": "%CUSTOM1|Hello!%", "font_size": "large"}
    longer = owner.send(recipients=None, mailing_list_ids=[wordy], **large).json()["id"]
    lists.add(wordy, address="9 Oak Ave", custom1="A very long story. " * 15)
    lists.add(wordy, address="8 Oak Ave")
    for n in range(3):
        lists.add_email(nowhere, f"{n}@example.com")
    lost = owner.send(recipients=None, mailing_list_ids=[nowhere], message="Hello!").json()["id"]
    run_jobs_for(container, clock, seconds=11)
    status, warnings = read(owner, lost)
    assert (status, "3 of 4 recipients cannot be delivered to, more than 50 %" in warnings[-1]) == ("Paused", True)
    # What was told when it was sent is told still, and first.
    assert warnings[0].startswith("On the lists 3 recipients are not mailed to:")
    status, warnings = read(owner, longer)
    assert (status, "too long for a 4x6 postcard" in warnings[-1]) == ("Paused", True)
    assert operator.post(f"/orders/{longer}/release").status_code == 200
    run_jobs_for(container, clock, seconds=40)
    pieces = owner.get(f"/orders/{longer}/items").json()["data"]
    assert [piece["status"] for piece in pieces] == ["Delivered", "Failed", "Delivered"]
    assert "too long" in pieces[1]["failure"]


def test_a_postage_mark_that_does_not_fit_must_be_fixed_by_the_operator(build: Build, clock: Clock) -> None:
    too_long = LIVE_SETTINGS | {"permit_first": "U.S. POSTAGE PAID " * 20}
    container = build(**too_long, review_seconds=1)
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        sender = factories.make_account(container, http, "owner@example.com", mode="live")
        operator = factories.make_operator(container, http, mode="live")
        sent = sender.send(**HOME)
        assert sent.status_code == 200, sent.text
        order_id = sent.json()["id"]
        assert sender.send(preview=True, **HOME).status_code == 200
        run_jobs_for(container, clock, seconds=2)
        assert read(sender, order_id) == ("Paused", ["There is no postage permit for first-class mail."])
        [gap] = operator.get("/print/batches").json()["meta"]["gaps"]
        assert gap.startswith("QUILLPOST_PERMIT_FIRST is too long for its place on 4x6 postcard,")
        refused = operator.post(f"/orders/{order_id}/release", {"reason": "It may go."})
        assert (refused.status_code, gap in refused.json()["message"]) == (409, True)

    mended = build(**LIVE_SETTINGS, review_seconds=1)
    with TestClient(create_app(mended), base_url="http://quillpost.test") as http:
        operator, sender = replace(operator, http=http), replace(sender, http=http)
        released = operator.post(f"/orders/{order_id}/release", {"reason": "It may go."})
        assert (released.status_code, released.json()["status"]) == (200, "Processing")
        run_jobs_for(mended, clock, seconds=2)
        assert read(sender, order_id) == ("Printing", [])


def test_an_order_that_is_put_off_while_it_is_held_waits_for_its_day_after_its_release(
    owner: Account, operator: Account, container: Container, clock: Clock
) -> None:
    unfilled, cancelled, mended, suppressed = held = [
        *create_held_orders(owner, container, clock, 3),
        *create_held_orders(owner, container, clock, 1, recipients=[person(address="9 Oak Ave")]),
    ]
    for order_id in held:
        owner.put(f"/orders/{order_id}", {"schedule_for": clock.now().replace(hour=20).isoformat()})
        released = operator.post(f"/orders/{order_id}/release", {"reason": "It reads well."})
        assert (released.status_code, released.json()["status"]) == (200, "Reviewing"), released.text
    run_jobs_for(container, clock, seconds=3)
    order = owner.get(f"/orders/{unfilled}").json()
    assert (order["status"], order["warnings"], order["cancellable"]) == ("Reviewing", [], True)
    assert (set(scalars(container, sa.select(orders.c.pool_at))), batch_rows(container)) == ({None}, [])
    change = fact_rows(container, unfilled)[-1]
    assert (change.previous, change.current) == ("paused", "reviewing")
    decisions = execute(container, sa.select(order_verdicts))
    assert {(each.verdict, each.reason, len(each.reasons)) for each in decisions} == {("released", "It reads well.", 1)}
    assert owner.post(f"/orders/{cancelled}/cancel").status_code == 200
    for order_id in (mended, suppressed):
        owner.put(f"/orders/{order_id}", {"message": "Hello!"})
    mailing_lists.make_list(container, Caller(owner.id, "test"), [person(address="9 Oak Ave")], suppresses=True)
    clock.advance(hours=8)
    run_due_jobs(container)
    status, warnings = read(owner, unfilled)
    assert (status, len(warnings)) == ("Paused", 1)
    assert operator.post(f"/orders/{unfilled}/release").json()["status"] == "Processing"
    assert read(owner, cancelled)[0] == "Cancelled"
    assert read(owner, mended)[0] in ("Processing", "Printing")
    [piece] = item_rows(container, suppressed)
    assert len(batch_rows(container)) == 1
    assert (piece.status, piece.failure) == ("Failed", SUPPRESSED)


def test_nobody_makes_batches_of_an_order_before_it_is_due(owner: Account, container: Container, clock: Clock) -> None:
    later = clock.now().replace(hour=20)
    order_id = owner.send(schedule_for=later.isoformat()).json()["id"]
    for deed in ("pool", "rush"):
        execute(container, sa.update(orders).values(status="processing", pool_at=later.replace(hour=22)))
        for _ in range(2):
            if deed == "rush":
                print_room_service.rush_orders(container.db, "test", [order_id], operator_id=None, now=clock.now())
            else:
                print_room_service.pool_orders_now(container.db, "test", now=clock.now())
        assert order_row(container, order_id).pool_at == later
        assert print_room_service.pool_orders_now(container.db, "test", now=clock.now()) == 0
