"""What the sender of a gift card reads of its life, among what is told of its piece."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from quillpost.app.container import Container
from quillpost.core.text import format_iso
from quillpost.orders.giftcards import service as giftcard_service
from quillpost.orders.rules import ItemStatus
from support.factories import Account, Clock
from support.giftcard_orders import end_review_of, issue_cards, item_ids_of, move_items, read_claim, send_giftcards

S = ItemStatus


def test_an_item_tells_its_card_s_life_among_its_own(owner: Account, container: Container, clock: Clock) -> None:
    begun = clock.now()
    order_id = send_giftcards(owner, landing_page_url="https://shop.example.com/hello")
    end_review_of(container, order_id)
    pieces = item_ids_of(container, order_id)

    def later(deed: Callable[[], object]) -> None:
        clock.advance(minutes=1)
        deed()

    def with_claim(deed: Callable[..., object], *args: Any) -> Callable[[], None]:
        def do() -> None:
            with container.db.system_transaction() as tx:
                deed(tx, *args, now=container.clock())

        return do

    later(lambda: issue_cards(container, pieces))
    later(lambda: move_items(container, pieces, S.PRINTED))
    code = read_claim(container, pieces[0])
    later(with_claim(lambda tx, now: giftcard_service.open_claim_page(tx, code, records_opening=True, now=now)))
    later(lambda: move_items(container, pieces, S.IN_TRANSIT))
    later(with_claim(giftcard_service.visit_landing_page, code))
    later(with_claim(giftcard_service.claim_card, container.encryptor, code))
    later(with_claim(giftcard_service.report_card, code, "broken"))
    events = owner.get(f"/order-items/{pieces[0]}").json()["events"]
    assert [(one["status"], one["previous_status"], one["reason"]) for one in events] == [
        ("Processing", None, None),
        ("Gift card issued", None, None),
        ("Printed", "Processing", "so it went"),
        ("Gift card opened", None, None),
        ("In Transit", "Printed", "so it went"),
        ("Gift card landing page visited", None, None),
        ("Gift card claimed", None, None),
        ("Gift card reported", None, "The code does not work"),
    ]
    assert [one["at"] for one in events] == [format_iso(begun + timedelta(minutes=n)) for n in range(8)]
    assert all(set(one) == set(events[0]) for one in events)
