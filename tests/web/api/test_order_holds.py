"""Orders that are held when their review ends, from the call that made them to the operator's word."""

from dataclasses import replace
from io import BytesIO

import pytest
import sqlalchemy as sa
from PIL import Image

from quillpost.app.container import Container
from quillpost.core.database.tables.base import orders
from quillpost.web.application import create_app
from support.factories import Account, Build, Clock, make_account, make_operator, people, person, run_jobs_for
from support.mailing_lists import ListOwner
from support.production import LIVE_SETTINGS
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


def lowest_dpi(container: Container, order_id: int) -> int | None:
    with container.db.system_transaction() as tx:
        found: int | None = tx.execute(sa.select(orders.c.lowest_dpi).where(orders.c.id == order_id)).scalar_one()
    return found


@pytest.mark.parametrize(("size", "dpi", "is_held"), [(SOFT, 48, True), (SHARP, None, False), (None, None, False)])
def test_a_blurred_picture_holds_its_order(
    owner: Account, container: Container, clock: Clock, size: tuple[int, int] | None, dpi: int | None, is_held: bool
) -> None:
    template = upload(owner, image=picture(size)).json()["id"] if size else None
    order_id = owner.send(image_template=template).json()["id"]
    assert lowest_dpi(container, order_id) == dpi
    run_jobs_for(container, clock, seconds=11)
    status, warnings = read(owner, order_id)
    assert (status == "Paused") is is_held
    assert not is_held or "would print at 48 dpi" in warnings[-1]


def test_a_change_of_words_keeps_the_softness_of_the_picture(
    owner: Account, container: Container, clock: Clock
) -> None:
    template = upload(owner, image=picture(SOFT)).json()["id"]
    order_id = owner.send(image_template=template).json()["id"]
    owner.put(f"/orders/{order_id}", {"message": "Other words"})
    assert lowest_dpi(container, order_id) == 48
    run_jobs_for(container, clock, seconds=11)
    assert read(owner, order_id)[0] == "Paused"


def test_a_replay_is_looked_at_like_the_first(
    owner: Account, container: Container, clock: Clock, http: TestClient
) -> None:
    template = upload(owner, image=picture(SOFT)).json()["id"]
    first = owner.send(image_template=template).json()["id"]
    run_jobs_for(container, clock, seconds=11)
    make_operator(container, http).post(f"/orders/{first}/release")
    run_jobs_for(container, clock, seconds=40)
    again = owner.post(f"/orders/{first}/replay").json()["id"]
    assert lowest_dpi(container, again) == 48
    run_jobs_for(container, clock, seconds=11)
    assert read(owner, again)[0] == "Paused"


def test_a_list_that_grew_longer_words_holds_its_order_and_released_only_they_fail(
    owner: Account, container: Container, clock: Clock, http: TestClient
) -> None:
    lister = ListOwner(owner)
    friends = lister.make()
    lister.add(friends, custom1="You won!")
    large = {"message": "%CUSTOM1|Hello!%", "font_size": "large"}
    order_id = owner.send(recipients=None, mailing_list_ids=[friends], **large).json()["id"]
    lister.add(friends, address="9 Oak Ave", custom1="A very long story. " * 15)
    lister.add(friends, address="8 Oak Ave")
    run_jobs_for(container, clock, seconds=11)
    status, warnings = read(owner, order_id)
    assert status == "Paused"
    assert "too long for a 4x6 postcard" in warnings[-1]
    assert make_operator(container, http).post(f"/orders/{order_id}/release").status_code == 200
    run_jobs_for(container, clock, seconds=40)
    pieces = owner.get(f"/orders/{order_id}/items").json()["data"]
    assert [piece["status"] for piece in pieces] == ["Delivered", "Failed", "Delivered"]
    assert "too long" in pieces[1]["failure"]


def test_a_list_of_people_without_addresses_holds_its_order(owner: Account, container: Container, clock: Clock) -> None:
    lister = ListOwner(owner)
    friends = lister.make()
    lister.add(friends)
    for n in range(3):
        lister.add_email(friends, f"{n}@example.com")
    order_id = owner.send(recipients=None, mailing_list_ids=[friends], message="Hello!").json()["id"]
    run_jobs_for(container, clock, seconds=11)
    status, warnings = read(owner, order_id)
    assert status == "Paused"
    assert "3 of 4 recipients cannot be delivered to, more than 50 %" in warnings[-1]
    # What was told when it was sent is told still, and first.
    assert warnings[0].startswith("On the lists 3 recipients are not mailed to:")


def test_a_held_order_can_be_cancelled(owner: Account, container: Container, clock: Clock) -> None:
    order_id = owner.send(message="Hello %COMPANY%!", recipients=people(2)).json()["id"]
    run_jobs_for(container, clock, seconds=11)
    assert read(owner, order_id)[0] == "Paused"
    cancelled = owner.put(f"/orders/{order_id}/cancel").json()["order"]
    assert (cancelled["status"], cancelled["order_total"]) == ("Cancelled", 0)
    assert read(owner, order_id) == ("Cancelled", [])


def test_nobody_is_held_where_the_operator_asks_for_little(build: Build, clock: Clock) -> None:
    container = build(review_unfilled_percent=100)
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        sender = make_operator(container, http)
        order_id = sender.send(message="Hello %COMPANY%!", recipients=[person()]).json()["id"]
        run_jobs_for(container, clock, seconds=11)
        assert read(sender, order_id)[0] in ("Processing", "Printing")


SENDER = {
    "return_name": "Dana",
    "return_address": "1 Elm St",
    "return_city": "Austin",
    "return_state": "TX",
    "return_postal_code": "78702",
}


def test_a_postage_mark_that_does_not_fit_must_be_fixed_by_the_operator(build: Build, clock: Clock) -> None:
    too_long = LIVE_SETTINGS | {"permit_first": "U.S. POSTAGE PAID " * 20}
    container = build(**too_long, review_seconds=1)
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        sender = make_account(container, http, "owner@example.com", mode="live")
        operator = make_operator(container, http, mode="live")
        sent = sender.send(**SENDER)
        assert sent.status_code == 200, sent.text
        order_id = sent.json()["id"]
        assert sender.send(preview=True, **SENDER).status_code == 200
        run_jobs_for(container, clock, seconds=2)
        sender_warnings = ["There is no postage permit for first-class mail."]
        assert read(sender, order_id) == ("Paused", sender_warnings)
        [gap] = operator.get("/print/batches").json()["meta"]["gaps"]
        assert gap.startswith("QUILLPOST_PERMIT_FIRST is too long for its place on 4x6 postcard,")
        refused = operator.post(f"/orders/{order_id}/release", {"reason": "It may go."})
        assert refused.status_code == 409
        assert gap in refused.json()["message"]

    mended = build(**LIVE_SETTINGS, review_seconds=1)
    with TestClient(create_app(mended), base_url="http://quillpost.test") as http:
        operator, sender = replace(operator, http=http), replace(sender, http=http)
        released = operator.post(f"/orders/{order_id}/release", {"reason": "It may go."})
        assert (released.status_code, released.json()["status"]) == (200, "Processing")
        run_jobs_for(mended, clock, seconds=2)
        assert read(sender, order_id) == ("Printing", [])
