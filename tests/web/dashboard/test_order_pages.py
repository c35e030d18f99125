"""Orders on pages: seen, searched, cancelled, changed and sent again, by whoever may and by nobody else."""

import re
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.accounts.audit.service import list_audit_entries
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.base import items, orders
from quillpost.core.errors import Message
from quillpost.orders.models import ContentSource
from quillpost.orders.rules import ItemStatus
from quillpost.web.dashboard.orders import actions, maps
from support.account_pages import AccountPages
from support.factories import make_live, make_teammate, people, person
from support.giftcard_orders import item_ids_of, mail_giftcard, move_items
from support.test_client import TestClient

S = ItemStatus
HOME = {
    "return_name": "Dana", "return_address": "1 Elm St", "return_city": "Austin", "return_state": "TX",
    "return_postal_code": "78702",
}  # fmt: skip


@pytest.fixture
def house(container: Container, http: TestClient) -> AccountPages:
    return AccountPages(container, http)


def send(house: AccountPages, piece: str = "postcard", **changes: object) -> int:
    sent = house.account.send(piece, **changes)
    assert sent.status_code == 200, sent.text
    return int(sent.json()["id"])


def listed(house: AccountPages, query: str = "") -> list[int]:
    """The orders that the page shows, in its order."""
    shown = house.owner.get(f"/orders{query}")
    assert shown.status_code == 200, shown.text
    return [int(n) for n in re.findall(r'<th scope="row"><a href="/orders/(\d+)">', shown.text)]


def part_of(house: AccountPages, path: str) -> Response:
    return house.owner.get(path, headers={"HX-Request": "true"})


def status_of(house: AccountPages, order_id: int) -> str:
    return str(house.account.get(f"/orders/{order_id}").json()["status"])


def test_whoever_has_sent_nothing_is_taught_how_to_begin(house: AccountPages) -> None:
    shown = house.owner.get("/orders").text
    assert "Nothing is sent yet in test mode" in shown
    assert 'href="/compose">Write your first piece' in shown
    assert 'role="search"' not in shown


def test_all_orders_are_listed_newest_first_and_found_by_what_is_known_of_them(house: AccountPages) -> None:
    first = send(house, recipients=people(3), metadata={"campaign": "spring", "crm": {"id": 7}})
    second = send(house, "notecard", recipients=[person(name="Zoë Quill", email="zoe@example.com")])
    third = int(make_teammate(house.parts, house.account, house.branch).send().json()["id"])
    live = int(make_live(house.parts, house.account).send().json().get("id", 0))
    house.others.send()
    assert live not in listed(house)
    assert listed(house) == [third, second, first]
    assert listed(house, "?page=what&status=odd&type=odd&from=odd&sub_account=odd") == [third, second, first]
    assert listed(house, "?type=notecard") == [second]
    assert listed(house, "?status=Reviewing") == [third, second, first]
    assert listed(house, "?status=fulfilled") == []
    assert listed(house, f"?sub_account={house.branch}") == [third]
    assert listed(house, "?from=2026-05-04&to=2026-05-04") == [third, second, first]
    assert listed(house, "?to=2026-05-03") == []
    assert listed(house, f"?q={second}") == [second]
    assert listed(house, f"?q=%23{item_ids_of(house.parts, first)[1]}") in ([first], [second], [third])
    assert listed(house, "?q=zo%C3%AB") == [second]
    assert listed(house, "?q=ZOE@example.com") == [second]
    assert listed(house, "?q=2 main st") == [first]
    assert listed(house, "?q=campaign = spring") == [first]
    assert listed(house, "?q=crm.id=7") == [first]
    assert listed(house, "?q=campaign=autumn") == []
    assert listed(house, "?q=Person&type=notecard") == []
    assert "No order is like that" in house.owner.get("/orders?q=nobody").text
    backward = "/orders?from=2026-05-05&to=2026-05-04"
    for page, beside in ((house.owner.get(backward), ""), (part_of(house, backward), ' hx-swap-oob="true"')):
        assert f'id="to-fault" role="status"{beside}>“To” is before “From”' in page.text
    part = part_of(house, "/orders?type=notecard")
    assert "<html" not in part.text
    assert f'href="/orders/{second}"' in part.text
    shown = house.limited.get("/orders").text
    assert (f'href="/orders/{third}"' in shown, f'href="/orders/{first}"' in shown) == (True, False)


def test_days_begin_when_they_do_where_the_reader_lives(house: AccountPages) -> None:
    """It is noon in UTC: in Auckland that day is over."""
    order = send(house)
    house.owner.client.cookies.set("quillpost_zone", "Pacific/Auckland")
    made = datetime.fromisoformat(house.account.get(f"/orders/{order}").json()["created_at"])
    there = made.astimezone(ZoneInfo("Pacific/Auckland"))
    assert there.day == 5
    assert listed(house, "?from=2026-05-05") == [order]
    assert listed(house, "?to=2026-05-04") == []


def test_an_order_shows_what_was_agreed_and_where_its_pieces_stand(
    house: AccountPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = send(
        house, recipients=people(6), metadata={"campaign": "<spring>", "crm": {"id": 1.50}},
        schedule_for="2026-05-20T15:00:00Z", qrcode_url="https://example.com/hi",
        handwriting_color="green", font_size="large", **HOME,
    )  # fmt: skip
    pieces = item_ids_of(house.parts, order)
    move_items(house.parts, pieces[:3], S.PRINTED, S.IN_TRANSIT, S.DELIVERED)
    shown = house.owner.get(f"/orders/{order}").text
    for words in (
        "Postcard 4 × 6", "see you soon!", "1 Elm St", "https://example.com/hi", "&lt;spring&gt;",
        "20 May, 15:00", "$6.54", f'sse-connect="/orders/{order}/live"', "100% of those mailed",
    ):  # fmt: skip
        assert words in shown, words
    assert re.search(r"{.*&#34;id&#34;: ?1\.5", shown)
    assert re.search(r"Delivered</span> <strong>3<", shown)
    assert f'href="/orders/{order}/cancel"' in shown
    assert re.search(r'Ink</dt><dd><svg[^>]*><circle[^>]*fill="#0e5a3a"/></svg> Green<', shown)
    assert "Size</dt><dd>Large<" in shown
    drawn = house.owner.get(f"/orders/{order}/map", headers={"HX-Request": "true"}).text
    assert "Austin, TX: 3 delivered" in drawn
    assert "3 pieces: not mailed yet" in drawn
    assert "Drawn from" not in drawn
    monkeypatch.setattr(maps, "MAX_ITEMS_SAMPLED", 4)
    monkeypatch.setattr(maps, "SAMPLE_RUNS", 2)
    move_items(house.parts, pieces[3:], S.PRINTED)
    assert "Drawn from 4 of 6 pieces" in house.owner.get(f"/orders/{order}/map").text


def test_what_is_lost_in_the_mail_was_mailed_and_what_is_spoiled_was_not(house: AccountPages) -> None:
    order = send(house, recipients=people(4))
    delivered, lost, spoiled, stopped = item_ids_of(house.parts, order)
    move_items(house.parts, [delivered], S.PRINTED, S.DELIVERED)
    move_items(house.parts, [lost], S.PRINTED, S.IN_TRANSIT, S.FAILED)
    move_items(house.parts, [spoiled], S.PRINTED, S.FAILED)
    move_items(house.parts, [stopped], S.FAILED)
    assert "50% of those mailed" in house.owner.get(f"/orders/{order}").text
    drawn = house.owner.get(f"/orders/{order}/map").text
    assert "1 piece: lost in the mail" in drawn
    assert "2 pieces: not mailed" in drawn


def test_why_an_order_waits_and_where_its_pieces_are_is_shown_as_it_changes(house: AccountPages) -> None:
    order = send(house)
    with house.parts.db.system_transaction() as tx:
        soft = Message(
            "picture_soft", "front_image_url is soft.", file=ContentSource("front_image_url").label, note="is soft."
        )
        held = {"status": "paused", "hold_reasons": [Message("large", "Too <large>.")], "warnings": [soft]}
        tx.execute(sa.update(orders).where(orders.c.id == order).values(**held))
    text = house.owner.get(f"/orders/{order}/live").text
    state = text.partition("event: state")[2].partition("event: ")[0]
    assert "Too &lt;large&gt;." in state
    assert "The picture on the front is soft." in state
    shown = house.owner.get(f"/orders/{order}").text
    assert shown.count("Too &lt;large&gt;.") == 1
    # While numbers come a delay begins anew with each, so by itself it would end when they do.
    triggers = re.findall(rf'hx-get="/orders/{order}/map" hx-trigger="([^"]+)"', shown)
    assert triggers == ["load delay:50ms, sse:numbers throttle:3s", "sse:numbers delay:3s"]


def test_pictures_of_a_piece_are_drawn_and_known_again(house: AccountPages) -> None:
    order = send(house, "notecard", recipients=people(2))
    first, second = item_ids_of(house.parts, order)
    part = house.owner.get(f"/orders/{order}/looks").text
    pictures = re.findall(r'src="(/orders/[^"]+\.png\?v=\w+)"', part)
    assert f"looks?item={second}" in part
    assert len(pictures) >= 2
    assert part.count("<figcaption>") == len(pictures)
    assert "Envelope" in part
    picture = house.owner.get(pictures[0])
    assert (picture.headers["Content-Type"], picture.content[:4]) == ("image/png", b"\x89PNG")
    assert picture.headers["Cache-Control"] == "private, no-cache"
    unchanged = house.owner.get(pictures[0], headers={"If-None-Match": picture.headers["ETag"]})
    assert unchanged.status_code == 304
    other = house.owner.get(pictures[0].replace(f"looks/{first}", f"looks/{second}"))
    assert other.headers["ETag"] != picture.headers["ETag"]
    assert house.owner.get(f"/orders/{order}/looks/{first}/99.png").status_code == 404
    elsewhere = send(house)
    assert house.owner.get(f"/orders/{elsewhere}/looks/{first}/1.png").status_code == 404
    proof = house.owner.get(f"/orders/{order}/proof.pdf")
    assert (proof.headers["Content-Type"], proof.content[:4]) == ("application/pdf", b"%PDF")


def test_an_order_is_cancelled_after_a_question_while_that_can_be(house: AccountPages) -> None:
    order, late = send(house, recipients=people(2)), send(house)
    confirmation = house.member.get(f"/orders/{order}/cancel").text
    assert f"Cancel order {order}?" in confirmation
    assert "None of its 2 pieces is printed" in confirmation
    assert status_of(house, order) == "Reviewing"
    done = house.member.post(f"/orders/{order}/cancel")
    assert "The order is cancelled." in done.text
    assert status_of(house, order) == "Cancelled"
    with house.parts.db.system_transaction() as tx:
        tx.execute(sa.update(orders).where(orders.c.id == late).values(status="processing"))
    refused = house.owner.post(f"/orders/{late}/cancel")
    assert (refused.status_code, "can no longer be cancelled" in refused.text) == (400, True)
    assert "can no longer be cancelled" in house.owner.get(f"/orders/{late}/cancel").text
    assert "can no longer be changed" in house.owner.get(f"/orders/{late}/change").text


def test_what_cancelling_costs_is_the_same_everywhere_and_what_is_called_off_has_not_failed(
    house: AccountPages,
) -> None:
    """Addresses stay bought; a test costs nothing either way."""
    test = send(house, recipients=people(2))
    live = make_live(house.parts, house.account).send(**HOME).json()["id"]
    with house.parts.db.system_transaction() as tx:
        tx.execute(sa.update(orders).where(orders.c.id.in_([test, live])).values(leads_fee=100))
    shown = house.owner.get(f"/orders/{test}").text
    assert "Total in live mode</dt>\n<dd>$3.18<small>a test: nothing is billed<" in shown
    assert "held until" not in shown
    confirmation = house.owner.get(f"/orders/{test}/cancel").text
    assert "printed. It is a test: nothing is billed." in confirmation
    assert "In live mode their $1.00 would stay billed." in confirmation
    ended = house.owner.post(f"/orders/{test}/cancel").text
    assert "Nothing is billed." in ended
    assert "$1.00<small>a test: nothing is billed<" in ended
    piece = f"/orders/{test}/items/{item_ids_of(house.parts, test)[0]}"
    for path in (f"/orders/{test}", f"/orders/{test}/items", piece, "/orders", "/"):
        page = house.owner.get(path).text
        assert ('data-status="cancelled"' in page, 'data-status="failed"' in page) == (True, False), path
    assert "Cancelled</span> <strong>2<" in house.owner.get("/").text

    house.owner.post("/session/switch", mode="live")
    assert "held until it is printed, $1.00 of it paid for addresses<" in house.owner.get(f"/orders/{live}").text
    confirmation = house.owner.get(f"/orders/{live}/cancel").text
    assert "It is not printed or billed: what was held for that is credit again." in confirmation
    assert "Its addresses stay billed, $1.00." in confirmation
    ended = house.owner.post(f"/orders/{live}/cancel").text
    assert "Its addresses alone are billed, $1.00: they are on their list." in ended
    assert "Total</dt>\n<dd>$1.00<small>for its addresses<" in ended
    assert "Nothing is billed." not in ended


def test_a_waiting_order_can_be_changed_and_errors_are_shown_beside_their_fields(house: AccountPages) -> None:
    order = send(house)
    house.owner.client.cookies.set("quillpost_zone", "America/Chicago")
    shown = house.owner.get(f"/orders/{order}/change").text
    assert "Hi %FIRST_NAME%, see you soon!" in shown
    before = house.everything()
    words: dict[str, Any] = {"message": "Hi %FIRST_NAME%, see you soon!", "when": "later"}
    for fields, text in {
        (("send_on", ""),): "Choose a day and a time.",
        (("send_on", "2020-01-01T10:00"),): "This must lie in the future",
        (("send_on", "2026-05-20T10:00"), ("message", "Hi %NOBODY%")): "NOBODY",
        (("send_on", "2026-05-20T10:00"), ("message", "")): "A message cannot be taken away",
    }.items():
        wrong = house.owner.post(f"/orders/{order}/change", **words | dict(fields))
        assert wrong.status_code == 422
        place = "send_on" if len(fields) == 1 else "message"
        assert re.search(rf'id="{place}-fault" role="alert">[^<]*{re.escape(text)}', wrong.text), text
    assert house.everything() == before
    same = house.owner.post(f"/orders/{order}/change", message=words["message"], when="soon")
    assert "Nothing was different" in same.text
    done = house.owner.post(f"/orders/{order}/change", **words | {"send_on": "2026-05-20T10:00"})
    assert "The order is changed." in done.text
    house.owner.post(f"/orders/{order}/change", message="Hello there", when="later", send_on="2026-05-20T10:00")
    with house.parts.db.system_transaction() as tx:
        row = tx.execute(sa.select(orders).where(orders.c.id == order)).one()
    assert (row.message, row.schedule_for.isoformat()) == ("Hello there", "2026-05-20T15:00:00+00:00")


def test_an_order_is_sent_again_at_the_price_that_was_shown_and_once(house: AccountPages) -> None:
    order = send(house, recipients=people(3), metadata={"a": 1})
    unmailed = house.owner.get(f"/orders/{order}/again")
    assert (unmailed.status_code, "has mailed nothing" in unmailed.text) == (422, True)
    move_items(house.parts, item_ids_of(house.parts, order), S.PRINTED)
    shown = house.owner.get(f"/orders/{order}/again").text
    assert "3 pieces at $1.09" in shown
    agreed = re.search(r'name="agreed" value="([^"]+)"', shown)
    once = re.search(r'name="once" value="([^"]+)"', shown)
    assert agreed
    assert once
    fields: dict[str, Any] = {"when": "soon", "repeats": "on", "agreed": agreed[1], "once": once[1]}
    other = house.owner.post(f"/orders/{order}/again", **fields | {"agreed": "2:1"})
    assert (other.status_code, "Meanwhile it has another price" in other.text) == (422, True)
    assert listed(house) == [order]
    nobody = house.owner.post(f"/orders/{order}/again", **fields | {"repeats": None})
    assert "There is nobody left to mail to." in nobody.text
    done = house.owner.post(f"/orders/{order}/again", **fields)
    assert "Sent again: this is the new order." in done.text
    twice = house.owner.post(f"/orders/{order}/again", **fields)
    assert twice.status_code == 409
    assert len(listed(house)) == 2


def test_the_price_of_repeating_a_large_order_is_calculated_on_request(
    house: AccountPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "MAX_RECIPIENTS_PRICED_ON_OPEN", 2)
    order = send(house, recipients=people(3))
    move_items(house.parts, item_ids_of(house.parts, order), S.PRINTED)
    shown = house.owner.get(f"/orders/{order}/again").text
    assert "This order went to 3 people" in shown
    assert "Send it again" not in shown
    assert "3 pieces at $1.09" in house.owner.post(f"/orders/{order}/again", repeats="on", price="anew").text
    unseen = house.owner.post(f"/orders/{order}/again", repeats="on", agreed="")
    assert (unseen.status_code, "3 pieces at $1.09" in unseen.text) == (422, True)
    assert listed(house) == [order]


def test_pieces_are_listed_filtered_and_shown_one_by_one(house: AccountPages) -> None:
    order = send(house, recipients=[*people(3), person(name="Zoë Quill", custom1="gold")])
    pieces = item_ids_of(house.parts, order)
    move_items(house.parts, pieces[:1], S.PRINTED, S.IN_TRANSIT, S.RETURNED_TO_SENDER)
    with house.parts.db.system_transaction() as tx:
        tx.execute(
            sa.update(items)
            .where(items.c.id == pieces[3])
            .values(standard=["12 MAIN ST", None, "AUSTIN", "TX", "78701-1234"])
        )

    def found(query: str = "") -> list[int]:
        shown = house.owner.get(f"/orders/{order}/items{query}").text
        return [int(n) for n in re.findall(rf'href="/orders/{order}/items/(\d+)"', shown)]

    assert found() == pieces
    assert found("?page=9") == []
    assert found("?status=returned to sender") == pieces[:1]
    assert found("?status=odd") == pieces
    assert found("?q=zo") == pieces[3:]
    assert found("?q=person&status=Processing") == [pieces[2], pieces[1]]
    assert "No recipients match" in house.owner.get(f"/orders/{order}/items?q=nobody").text
    back = house.owner.get(f"/orders/{order}/items/{pieces[0]}").text
    way = back[back.index("<ol class") :]
    seen = [way.index(word) for word in ("Printed", "In Transit", "Returned to Sender")]
    assert seen == sorted(seen)
    assert "so it went" in way
    shown = house.owner.get(f"/orders/{order}/items/{pieces[3]}").text
    for words in ("Zoë Quill", "12 Main St", "12 MAIN ST", "78701-1234", "gold", "$1.09"):
        assert words in shown


def test_a_gift_card_is_taken_back_and_reissued_and_both_are_logged(house: AccountPages, container: Container) -> None:
    first, second = mail_giftcard(container, house.account), mail_giftcard(container, house.account)
    with container.db.system_transaction() as tx:
        of = {row.id: row.order_id for row in tx.execute(sa.select(items.c.id, items.c.order_id))}
    page = f"/orders/{of[first]}/items/{first}"
    assert f'href="{page}/take-back"' in house.owner.get(page).text
    assert "$25.00 are credit of yours again" in house.owner.get(f"{page}/take-back").text
    too_long = house.owner.post(f"{page}/take-back", reason="x" * 501)
    assert (too_long.status_code, 'id="reason-fault"' in too_long.text) == (422, True)
    done = house.owner.post(f"{page}/take-back", reason="Lost")
    assert "The gift card is taken back." in done.text
    assert "Lost" in done.text
    assert "take-back" not in done.text
    reissued = house.owner.post(f"/orders/{of[second]}/items/{second}/take-back", reissue="on")
    assert "this order brings another" in reissued.text
    assert len(listed(house)) == 3
    with container.db.transaction(Tenant(house.account.id, None)) as tx:
        noted = [(entry.act, entry.actor) for entry in list_audit_entries(tx, house.account.id, limit=9)]
    assert noted == [("giftcard.invalidated", "dana@example.com")] * 2


def test_nobody_sees_or_does_anything_about_the_orders_of_others(house: AccountPages) -> None:
    order = send(house)
    [piece] = item_ids_of(house.parts, order)
    others = (house.stranger, house.limited)
    paths = [
        f"/orders/{order}{page}"
        for page in ("", "/live", "/looks", "/map", "/cancel", "/change", "/again", "/items", "/proof.pdf")
    ] + [f"/orders/{order}/items/{piece}{page}" for page in ("", "/live", "/take-back")]
    before = house.everything()
    for browser in others:
        for path in paths:
            assert house.is_as_if_unknown(browser, path, order), path
        assert browser.get(f"/orders/{order}/looks/{piece}/1.png").status_code == 404
        for act in ("cancel", "change", "again", f"items/{piece}/take-back"):
            assert browser.post(f"/orders/{order}/{act}", when="soon").status_code == 404, act
    house.owner.post("/session/switch", mode="live")
    assert "This order is in test mode" in house.owner.get(f"/orders/{order}").text
    assert house.owner.post(f"/orders/{order}/cancel").status_code == 404
    assert house.everything() == before
    assert status_of(house, order) == "Reviewing"
