"""What holds an order when its review ends, and an order that is released before its day."""

from dataclasses import replace
from io import BytesIO

import pytest
import sqlalchemy as sa
from PIL import Image

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.base import orders
from quillpost.core.database.tables.fulfillment import order_verdicts
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.recipients.rules import SUPPRESSED
from quillpost.web.application import create_app
from support.factories import Account, Build, Clock, make_account, make_operator, person, run_due_jobs, run_jobs_for
from support.mailing_lists import ListOwner, make_list
from support.orders import HOME, create_held_orders, fact_rows, item_rows, order_row
from support.production import LIVE_SETTINGS, batch_rows
from support.rows import execute, scalars
from support.test_client import TestClient
from support.uploads import upload

# A 4x6 postcard with its bleed is 6.25 inches wide: 75 dots an inch are 469 pixels.
SOFT, SHARP = (300, 204), (1875, 1275)


def picture(size: tuple[int, int]) -> bytes:
    file = BytesIO()
    Image.new("RGB", size, "teal").save(file, "PNG")
    return file.getvalue()


def read(owner: Account, order_id: int) -> tuple[str, list[str]]:
    order = owner.get(f"/orders/{order_id}").json()
    return order["status"], order["warnings"]


@pytest.mark.usefixtures("clean_database")
def test_a_blurred_picture_holds_its_order(
    owner: Account, operator: Account, container: Container, clock: Clock
) -> None:
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


@pytest.mark.usefixtures("clean_database")
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
        sender = make_account(container, http, "owner@example.com", mode="live")
        operator = make_operator(container, http, mode="live")
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


# Put off by its sender


@pytest.mark.usefixtures("clean_database")
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
    make_list(container, Caller(owner.id, "test"), [person(address="9 Oak Ave")], suppresses=True)
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


@pytest.mark.usefixtures("clean_database")
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
