"""Orders on pages: seen, searched, canceled, changed and sent again; and each of their pieces."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import items, orders
from quillpost.core.errors import Message
from quillpost.orders.items.service import MoveItemsStatement
from quillpost.orders.models import ContentSource
from quillpost.orders.rules import ItemStatus
from quillpost.web.dashboard.orders import actions, maps
from quillpost.web.live_updates import read_versions
from quillpost.web.security import ZONE_COOKIE
from support.factories import make_live, make_teammate, people, person
from support.giftcard_orders import claim_card, mail_giftcard, move_items
from support.orders import HOME, item_ids
from support.pages import OWNER, AccountPages, assert_hides, assert_shows, form_errors

S = ItemStatus
PART = {"HX-Request": "true"}


def send(house: AccountPages, piece: str = "postcard", **changes: object) -> int:
    sent = house.account.send(piece, **changes)
    assert sent.status_code == 200, sent.text
    return int(sent.json()["id"])


def move(house: AccountPages, pieces: Sequence[int], *way: ItemStatus) -> None:
    move_items(house.parts, pieces, *way)


def listed(house: AccountPages, query: str = "") -> list[int]:
    """The orders that the page shows, in its order."""
    shown = house.owner.get(f"/orders{query}")
    assert shown.status_code == 200, shown.text
    return [int(n) for n in re.findall(r'<th scope="row"><a href="/orders/(\d+)">', shown.text)]


def status_of(house: AccountPages, order_id: int) -> str:
    return str(house.account.get(f"/orders/{order_id}").json()["status"])


def test_all_orders_are_listed_newest_first_and_found_by_what_is_known_of_them(house: AccountPages) -> None:
    empty = house.owner.get("/orders")
    assert_shows(empty, "Nothing is sent yet in test mode", 'href="/compose">Write your first piece')
    assert_hides(empty, 'role="search"')
    first = send(house, recipients=people(3), metadata={"campaign": "spring", "crm": {"id": 7}})
    second = send(house, "notecard", recipients=[person(name="Zoë Quill", email="zoe@example.com")])
    third = int(make_teammate(house.parts, house.account, house.branch).send().json()["id"])
    make_live(house.parts, house.account).send()
    house.others.send()
    of_first = item_ids(house.parts, first)[1]
    for query, found in {
        "": [third, second, first], "?page=what&status=odd&type=odd&from=odd&sub_account=odd": [third, second, first],
        "?type=notecard": [second], "?status=Reviewing": [third, second, first], "?status=fulfilled": [],
        f"?sub_account={house.branch}": [third], "?from=2026-05-04&to=2026-05-04": [third, second, first],
        "?to=2026-05-03": [], f"?q={second}": [second], "?q=zo%C3%AB": [second], "?q=ZOE@example.com": [second],
        "?q=2 main st": [first], "?q=campaign = spring": [first], "?q=crm.id=7": [first], "?q=campaign=autumn": [],
        "?q=Person&type=notecard": [],
    }.items():  # fmt: skip
        assert listed(house, query) == found, query
    assert listed(house, f"?q=%23{of_first}") == ([of_first] if of_first in (first, second, third) else [first])
    assert_shows(house.owner.get("/orders?q=nobody"), "No order is like that")
    backward = "/orders?from=2026-05-05&to=2026-05-04"
    for headers, beside in (({}, ""), (PART, ' hx-swap-oob="true"')):
        page = house.owner.get(backward, headers=headers)
        assert_shows(page, f'id="to-fault" role="status"{beside}>“To” is before “From”')
    assert_shows(house.owner.get("/orders?type=notecard", headers=PART), f'href="/orders/{second}"', hides=["<html"])
    # It is noon in UTC: in Auckland that day is over.
    house.owner.client.cookies.set(ZONE_COOKIE, "Pacific/Auckland")
    assert (listed(house, "?from=2026-05-05"), listed(house, "?to=2026-05-04")) == ([third, second, first], [])


def test_an_order_shows_what_was_agreed_and_reached(house: AccountPages, monkeypatch: pytest.MonkeyPatch) -> None:
    order = send(
        house, recipients=people(6), metadata={"campaign": "<spring>", "crm": {"id": 1.50}},
        schedule_for="2026-05-20T15:00:00Z", qrcode_url="https://example.com/hi",
        handwriting_color="green", font_size="large", **HOME,
    )  # fmt: skip
    pieces = item_ids(house.parts, order)
    move(house, pieces[:3], S.PRINTED, S.IN_TRANSIT, S.DELIVERED)
    shown = house.owner.get(f"/orders/{order}").text
    assert_shows(
        shown, "Postcard 4 × 6", "see you soon!", "1 Elm St", "https://example.com/hi", "&lt;spring&gt;",
        "20 May, 15:00", "$6.54", f'sse-connect="/orders/{order}/live"', "100% of those mailed",
        f'href="/orders/{order}/cancel"', "Size</dt><dd>Large<",
    )  # fmt: skip
    for pattern in (
        r"{.*&#34;id&#34;: ?1\.5", r"Delivered</span> <strong>3<",
        r'Ink</dt><dd><svg[^>]*><circle[^>]*fill="#0e5a3a"/></svg> Green<',
    ):  # fmt: skip
        assert re.search(pattern, shown), pattern
    drawn = house.owner.get(f"/orders/{order}/map", headers=PART)
    assert_shows(drawn, "Austin, TX: 3 delivered", "3 pieces: not mailed yet", hides=["Drawn from"])
    monkeypatch.setattr(maps, "MAX_ITEMS_SAMPLED", 4)
    monkeypatch.setattr(maps, "SAMPLE_RUNS", 2)
    move(house, pieces[3:], S.PRINTED)
    assert_shows(house.owner.get(f"/orders/{order}/map"), "Drawn from 4 of 6 pieces")


def test_what_is_lost_in_the_mail_was_mailed_and_what_is_spoiled_was_not(house: AccountPages) -> None:
    order = send(house, recipients=people(4))
    delivered, lost, spoiled, stopped = item_ids(house.parts, order)
    for piece, way in (
        (delivered, (S.PRINTED, S.DELIVERED)), (lost, (S.PRINTED, S.IN_TRANSIT, S.FAILED)),
        (spoiled, (S.PRINTED, S.FAILED)), (stopped, (S.FAILED,)),
    ):  # fmt: skip
        move(house, [piece], *way)
    assert_shows(house.owner.get(f"/orders/{order}"), "50% of those mailed")
    assert_shows(house.owner.get(f"/orders/{order}/map"), "1 piece: lost in the mail", "2 pieces: not mailed")


def test_why_an_order_waits_and_where_its_pieces_are_is_shown_as_it_changes(house: AccountPages) -> None:
    order = send(house)
    soft = Message(
        "picture_soft", "front_image_url is soft.", file=ContentSource("front_image_url").label, note="is soft."
    )
    held = {"status": "paused", "hold_reasons": [Message("large", "Too <large>.")], "warnings": [soft]}
    house.execute(sa.update(orders).where(orders.c.id == order).values(**held))
    state = house.owner.get(f"/orders/{order}/live").text.partition("event: state")[2].partition("event: ")[0]
    assert_shows(state, "Too &lt;large&gt;.", "The picture on the front is soft.")
    shown = house.owner.get(f"/orders/{order}").text
    assert shown.count("Too &lt;large&gt;.") == 1
    # While numbers come a delay begins anew with each, so by itself it would end when they do.
    triggers = re.findall(rf'hx-get="/orders/{order}/map" hx-trigger="([^"]+)"', shown)
    assert triggers == ["load delay:50ms, sse:numbers throttle:3s", "sse:numbers delay:3s"]


def test_pictures_of_a_piece_are_drawn_and_known_again(house: AccountPages) -> None:
    order = send(house, "notecard", recipients=people(2))
    first, second = item_ids(house.parts, order)
    part = house.owner.get(f"/orders/{order}/looks").text
    pictures = re.findall(r'src="(/orders/[^"]+\.png\?v=\w+)"', part)
    assert_shows(part, f"looks?item={second}", "Envelope")
    assert part.count("<figcaption>") == len(pictures) >= 2
    picture = house.owner.get(pictures[0])
    assert (picture.headers["Content-Type"], picture.content[:4]) == ("image/png", b"\x89PNG")
    assert picture.headers["Cache-Control"] == "private, no-cache"
    assert house.owner.get(pictures[0], headers={"If-None-Match": picture.headers["ETag"]}).status_code == 304
    other = house.owner.get(pictures[0].replace(f"looks/{first}", f"looks/{second}"))
    assert other.headers["ETag"] != picture.headers["ETag"]
    proof = house.owner.get(f"/orders/{order}/proof.pdf")
    assert (proof.headers["Content-Type"], proof.content[:4]) == ("application/pdf", b"%PDF")


def test_an_order_is_canceled_after_a_question_while_that_can_be(house: AccountPages) -> None:
    order, late = send(house, recipients=people(2)), send(house)
    confirmation = house.member.get(f"/orders/{order}/cancel")
    assert_shows(confirmation, f"Cancel order {order}?", "None of its 2 pieces is printed")
    assert status_of(house, order) == "Reviewing"
    assert_shows(house.member.post(f"/orders/{order}/cancel"), "The order is cancelled.")
    assert status_of(house, order) == "Cancelled"
    house.execute(sa.update(orders).where(orders.c.id == late).values(status="processing"))
    refused = house.owner.post(f"/orders/{late}/cancel")
    assert refused.status_code == 400
    for page, act in ((refused, "cancelled"), (house.owner.get(f"/orders/{late}/cancel"), "cancelled"),
                      (house.owner.get(f"/orders/{late}/change"), "changed")):  # fmt: skip
        assert_shows(page, f"can no longer be {act}")


def test_what_canceling_costs_is_the_same_everywhere_and_what_is_called_off_has_not_failed(house: AccountPages) -> None:
    """Addresses stay bought; a test costs nothing either way."""
    test = send(house, recipients=people(2))
    sender = make_live(house.parts, house.account)
    live, plain = (sender.send(**HOME).json()["id"] for _ in range(2))
    house.execute(sa.update(orders).where(orders.c.id.in_([test, live])).values(leads_fee=100))
    shown = house.owner.get(f"/orders/{test}")
    assert_shows(shown, "Total in live mode</dt>\n<dd>$3.18<small>a test: nothing is billed<", hides=["held until"])
    assert_shows(
        house.owner.get(f"/orders/{test}/cancel"), "printed. It is a test: nothing is billed.",
        "In live mode their $1.00 would stay billed.",
    )  # fmt: skip
    ended = house.owner.post(f"/orders/{test}/cancel")
    assert_shows(ended, "Nothing is billed.", "$1.00<small>a test: nothing is billed<")
    piece = f"/orders/{test}/items/{item_ids(house.parts, test)[0]}"
    for path in (f"/orders/{test}", f"/orders/{test}/items", piece, "/orders", "/"):
        assert_shows(house.owner.get(path), 'data-status="cancelled"', hides=['data-status="failed"'])
    assert_shows(house.owner.get("/"), "Cancelled</span> <strong>2<")
    house.owner.post("/session/switch", mode="live")
    assert_shows(house.owner.get(f"/orders/{live}"), "held until it is printed, $1.00 of it paid for addresses<")
    assert_shows(
        house.owner.get(f"/orders/{live}/cancel"), "Its addresses stay billed, $1.00.",
        "It is not printed or billed: what was held for that is credit again.",
    )  # fmt: skip
    confirmation = house.owner.get(f"/orders/{plain}/cancel")
    assert_shows(confirmation, "It is not printed, and nothing is billed: what was held for it is credit again.")
    ended = house.owner.post(f"/orders/{live}/cancel")
    assert_shows(
        ended, "Its addresses alone are billed, $1.00: they are on their list.",
        "Total</dt>\n<dd>$1.00<small>for its addresses<",
    )  # fmt: skip
    assert_hides(ended, "Nothing is billed.")


def test_a_waiting_order_is_changed_and_errors_are_shown(house: AccountPages, subtests: pytest.Subtests) -> None:
    order = send(house)
    path = f"/orders/{order}/change"
    house.owner.client.cookies.set(ZONE_COOKIE, "America/Chicago")
    assert_shows(house.owner.get(path), "Hi %FIRST_NAME%, see you soon!")
    good: dict[str, Any] = {"message": "Hi %FIRST_NAME%, see you soon!", "when": "later", "send_on": "2026-05-20T10:00"}
    house.refuses_forms(
        subtests, path, good,
        [
            ({"send_on": ""}, "send_on", "Choose a day and a time."),
            ({"send_on": "2020-01-01T10:00"}, "send_on", "This must lie in the future"),
            ({"message": "Hi %NOBODY%"}, "message", "NOBODY"),
            ({"message": ""}, "message", "A message cannot be taken away"),
        ],
    )  # fmt: skip
    assert_shows(house.owner.post(path, message=good["message"], when="soon"), "Nothing was different")
    assert_shows(house.owner.post(path, **good), "The order is changed.")
    house.owner.post(path, **good | {"message": "Hello there"})
    [row] = house.rows(sa.select(orders).where(orders.c.id == order))
    assert (row.message, row.schedule_for.isoformat()) == ("Hello there", "2026-05-20T15:00:00+00:00")


def test_an_order_is_sent_again_at_the_price_shown(house: AccountPages, monkeypatch: pytest.MonkeyPatch) -> None:
    order = send(house, recipients=people(3), metadata={"a": 1})
    path = f"/orders/{order}/again"
    assert_shows(house.owner.get(path), "has mailed nothing", status=422)
    move(house, item_ids(house.parts, order), S.PRINTED)
    shown = house.owner.get(path).text
    assert_shows(shown, "3 pieces at $1.09")
    [[agreed], [once]] = (re.findall(rf'name="{name}" value="([^"]+)"', shown) for name in ("agreed", "once"))
    fields: dict[str, Any] = {"when": "soon", "repeats": "on", "agreed": agreed, "once": once}
    assert_shows(house.owner.post(path, **fields | {"agreed": "2:1"}), "Meanwhile it has another price", status=422)
    assert_shows(house.owner.post(path, **fields | {"repeats": None}), "There is nobody left to mail to.")
    # The price of a large order is calculated on request.
    monkeypatch.setattr(actions, "MAX_RECIPIENTS_PRICED_ON_OPEN", 2)
    assert_shows(house.owner.get(path), "This order went to 3 people", hides=["Send it again"])
    assert_shows(house.owner.post(path, repeats="on", price="anew"), "3 pieces at $1.09")
    assert_shows(house.owner.post(path, repeats="on", agreed=""), "3 pieces at $1.09", status=422)
    assert listed(house) == [order]
    assert_shows(house.owner.post(path, **fields), "Sent again: this is the new order.")
    assert house.owner.post(path, **fields).status_code == 409
    assert len(listed(house)) == 2


def test_pieces_are_listed_filtered_and_shown_one_by_one(house: AccountPages) -> None:
    order = send(house, recipients=[*people(3), person(name="Zoë Quill", custom1="gold")])
    pieces = item_ids(house.parts, order)
    move(house, pieces[:1], S.PRINTED, S.IN_TRANSIT, S.RETURNED_TO_SENDER)
    standard = ["12 MAIN ST", None, "AUSTIN", "TX", "78701-1234"]
    house.execute(sa.update(items).where(items.c.id == pieces[3]).values(standard=standard))
    path = f"/orders/{order}/items"
    for query, found in {
        "": pieces, "?page=9": [], "?status=returned to sender": pieces[:1], "?status=odd": pieces,
        "?q=zo": pieces[3:], "?q=person&status=Processing": [pieces[2], pieces[1]],
    }.items():  # fmt: skip
        shown = house.owner.get(f"{path}{query}").text
        assert [int(n) for n in re.findall(rf'href="{path}/(\d+)"', shown)] == found, query
    assert_shows(house.owner.get(f"{path}?q=nobody"), "No recipients match")
    back = house.owner.get(f"{path}/{pieces[0]}").text
    way = back[back.index("<ol class") :]
    seen = [way.index(word) for word in ("Printed", "In Transit", "Returned to Sender")]
    assert seen == sorted(seen)
    assert_shows(way, "so it went")
    assert_shows(
        house.owner.get(f"{path}/{pieces[3]}"), "Zoë Quill", "12 Main St", "12 MAIN ST", "78701-1234", "gold", "$1.09"
    )


DELIVER_ITEM = MoveItemsStatement(
    """
    select cast(:item as bigint) as item_id, 'Delivered' as target, cast(:day as date) as day,
           cast(null as text) as reason, cast(:seen_at as timestamptz) as seen_at,
           cast(null as text) as place, cast(:seen_at as timestamptz) is null as inferred
    """
)
DELIVERIES = (
    ("2026-11-17", "2026-11-17T02:32:00Z", None, "16 Nov 2026", "16 Nov, 20:32"),
    ("2026-11-17", "2026-11-17T00:00:00Z", None, "17 Nov 2026", "17 Nov 2026"),
    ("2026-11-17", None, "2026-11-17T03:00:00+00:00", "16 Nov 2026", "16 Nov, 21:00"),
    ("2026-11-12", None, "2026-11-17T03:00:00+00:00", "12 Nov 2026", "16 Nov, 21:00"),
)
"""The day that is told, when it was seen or inferred, and the day and the time that are read in Chicago."""


def test_a_piece_was_delivered_on_the_day_that_its_way_tells(house: AccountPages) -> None:
    order = send(house, recipients=people(4))
    pieces = item_ids(house.parts, order)
    move(house, pieces, S.PRINTED)
    house.owner.client.cookies.set(ZONE_COOKIE, "America/Chicago")
    for piece, (day, seen_at, now, state, way) in zip(pieces, DELIVERIES, strict=True):
        with house.parts.db.system_transaction() as tx:
            at = datetime.fromisoformat(now) if now else house.parts.clock()
            DELIVER_ITEM.run(tx, {"item": piece, "day": day, "seen_at": seen_at}, now=at)
        page = house.owner.get(f"/orders/{order}/items/{piece}").text
        assert re.findall(r'class="stands">.*?on <time[^>]*>([^<]+)<', page, re.DOTALL)[0] == state
        assert re.findall(r"<li>.*?Delivered</span> <time[^>]*>([^<]+)<", page, re.DOTALL)[-1] == way
    shown = house.owner.get(f"/orders/{order}/items").text
    assert re.findall(r'"Delivered"><time[^>]*>([^<]+)<', shown) == [state for *_, state, _ in DELIVERIES]


def version(container: Container, item: int) -> str:
    with container.db.system_transaction() as tx:
        return read_versions(tx, [("item", item)], now=container.clock())["item", item]


def test_a_piece_is_followed_to_its_end(house: AccountPages, container: Container) -> None:
    order = send(house, recipients=people(2))
    piece, other = item_ids(container, order)
    path = f"/orders/{order}/items/{piece}/live"
    assert_shows(house.owner.get(path.removesuffix("/live")), f'sse-connect="{path}"')
    before = house.owner.get(path).text
    assert re.findall(r"^event: (\w+)", before, re.MULTILINE) == ["state", "way", "numbers", "card"]
    was = version(container, piece)
    move(house, [other], S.PRINTED)
    assert version(container, piece) == was
    move(house, [piece], S.PRINTED, S.IN_TRANSIT)
    assert version(container, piece) != was
    state, _, way = house.owner.get(path).text.partition("event: way")
    assert "In Transit" not in before
    assert ("In Transit" in state, "Printed" in state, "Printed" in way) == (True, False, True)
    card = mail_giftcard(container, house.account)  # what becomes of a gift card is heard too
    was = version(container, card)
    claim_card(container, card)
    assert version(container, card) != was


def test_a_gift_card_is_taken_back_and_reissued_and_both_are_logged(house: AccountPages) -> None:
    first, second = mail_giftcard(house.parts, house.account), mail_giftcard(house.parts, house.account)
    own = sa.select(items.c.id, items.c.order_id).where(items.c.id.in_([first, second]))
    of = {row.id: row.order_id for row in house.rows(own)}
    page = f"/orders/{of[first]}/items/{first}"
    assert_shows(house.owner.get(page), f'href="{page}/take-back"')
    assert_shows(house.owner.get(f"{page}/take-back"), "$25.00 are credit of yours again")
    too_long = house.owner.post(f"{page}/take-back", reason="x" * 501)
    assert (too_long.status_code, set(form_errors(too_long))) == (422, {"reason"})
    done = house.owner.post(f"{page}/take-back", reason="Lost")
    assert_shows(done, "The gift card is taken back.", "Lost", hides=["take-back"])
    reissued = house.owner.post(f"/orders/{of[second]}/items/{second}/take-back", reissue="on")
    assert_shows(reissued, "this order brings another")
    assert len(listed(house)) == 3
    assert [(entry.act, entry.actor) for entry in house.log()] == [("giftcard.invalidated", OWNER)] * 2
