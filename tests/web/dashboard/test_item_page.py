"""The page of one piece: its day by the reader's calendar, and followed while one looks."""

import re
from datetime import datetime

import pytest

from quillpost.app.container import Container
from quillpost.orders.items.service import MoveItemsStatement
from quillpost.orders.rules import ItemStatus
from quillpost.web.live_updates import read_versions
from quillpost.web.security import ZONE_COOKIE as ZONE
from support.account_pages import AccountPages
from support.factories import people
from support.giftcard_orders import claim_card, item_ids_of, mail_giftcard, move_items
from support.test_client import TestClient

S = ItemStatus
DELIVER_ITEM = MoveItemsStatement(
    """
    select cast(:item as bigint) as item_id, 'Delivered' as target, cast(:day as date) as day,
           cast(null as text) as reason, cast(:seen_at as timestamptz) as seen_at,
           cast(null as text) as place, cast(:seen_at as timestamptz) is null as inferred
    """
)


@pytest.fixture
def house(container: Container, http: TestClient) -> AccountPages:
    return AccountPages(container, http)


def send(house: AccountPages, n: int) -> tuple[int, list[int]]:
    sent = house.account.send(recipients=people(n))
    assert sent.status_code == 200, sent.text
    order = int(sent.json()["id"])
    return order, item_ids_of(house.parts, order)


def deliver(container: Container, item: int, day: str, seen_at: str | None, *, now: str | None = None) -> None:
    """As the carrier tells it, or without a word of it."""
    params = {"item": item, "day": day, "seen_at": seen_at}
    with container.db.system_transaction() as tx:
        DELIVER_ITEM.run(tx, params, now=datetime.fromisoformat(now) if now else container.clock())


def test_a_piece_was_delivered_on_the_day_that_its_way_tells(house: AccountPages) -> None:
    order, pieces = send(house, 4)
    in_the_evening, on_a_day, unseen, long_unseen = pieces
    move_items(house.parts, pieces, S.PRINTED)
    deliver(house.parts, in_the_evening, "2026-11-17", "2026-11-17T02:32:00Z")
    deliver(house.parts, on_a_day, "2026-11-17", "2026-11-17T00:00:00Z")
    deliver(house.parts, unseen, "2026-11-17", None, now="2026-11-17T03:00:00+00:00")
    deliver(house.parts, long_unseen, "2026-11-12", None, now="2026-11-17T03:00:00+00:00")
    house.owner.client.cookies.set(ZONE, "America/Chicago")

    def days_of(item: int) -> tuple[str, str]:
        page = house.owner.get(f"/orders/{order}/items/{item}").text
        state = re.search(r'class="stands">.*?on <time[^>]*>([^<]+)<', page, re.DOTALL)
        way = re.findall(r"<li>.*?Delivered</span> <time[^>]*>([^<]+)<", page, re.DOTALL)
        assert state
        return state[1], way[-1]

    assert days_of(in_the_evening) == ("16 Nov 2026", "16 Nov, 20:32")
    assert days_of(on_a_day) == ("17 Nov 2026", "17 Nov 2026")
    assert days_of(unseen) == ("16 Nov 2026", "16 Nov, 21:00")
    assert days_of(long_unseen) == ("12 Nov 2026", "16 Nov, 21:00")
    listed = house.owner.get(f"/orders/{order}/items").text
    assert re.findall(r'"Delivered"><time[^>]*>([^<]+)<', listed) == [
        "16 Nov 2026", "17 Nov 2026", "16 Nov 2026", "12 Nov 2026",
    ]  # fmt: skip


def test_a_piece_is_followed_by_its_own_account_and_to_its_end(house: AccountPages, container: Container) -> None:
    order, [piece, other] = send(house, 2)
    path = f"/orders/{order}/items/{piece}/live"
    assert f'sse-connect="{path}"' in house.owner.get(path.removesuffix("/live")).text
    before = house.owner.get(path).text
    assert re.findall(r"^event: (\w+)", before, re.MULTILINE) == ["state", "way", "numbers", "card"]
    was = version(container, piece)
    move_items(container, [other], S.PRINTED)
    assert version(container, piece) == was
    move_items(container, [piece], S.PRINTED, S.IN_TRANSIT)
    assert version(container, piece) != was
    state, _, way = house.owner.get(path).text.partition("event: way")
    assert "In Transit" not in before
    assert ("In Transit" in state, "Printed" in state, "Printed" in way) == (True, False, True)
    assert house.owner.get(f"/orders/{order + 1}/items/{piece}/live").status_code == 404


def test_what_becomes_of_its_gift_card_is_heard_too(house: AccountPages, container: Container) -> None:
    piece = mail_giftcard(container, house.account)
    was = version(container, piece)
    claim_card(container, piece)
    assert version(container, piece) != was


def version(container: Container, item: int) -> str:
    with container.db.system_transaction() as tx:
        return read_versions(tx, [("item", item)], now=container.clock())["item", item]
