"""What senders of gift cards are told: of cards that are not there, and of what they cannot have."""

from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.orders.giftcards import service as giftcard_service
from support.factories import (
    GIFT,
    Account,
    make_live,
    people,
    person,
    postcard,
    read_warnings,
    without_readiness_warning,
)
from support.giftcard_orders import BRAND, VALUE, end_review_of, item_ids_of, send_giftcards
from support.giftcard_production import load_stock

HOME = {"return_address": "1 Elm St, Austin, TX 78702"}
NEEDS_3 = (
    "It needs 3 gift cards of Brindlewick Coffee over $25.00, and 2 are free: it will be held until there are more."
)


def estimated(sender: Account, how_many: int) -> list[str]:
    body = postcard(**GIFT, **HOME, recipients=people(how_many))
    warnings: list[str] = sender.post("/estimate/giftcard", body).json()["data"]["warnings"]
    return without_readiness_warning(warnings)


# Cards that are not there


def test_senders_are_warned_before_sending_more_cards_than_there_are(owner: Account, container: Container) -> None:
    live = make_live(container, owner)
    load_stock(container, 2, "live")
    assert (estimated(live, 2), estimated(live, 3), estimated(owner, 3)) == ([], [NEEDS_3], [])
    sent = live.send("giftcard", recipients=people(3), **HOME)
    assert (sent.status_code, without_readiness_warning(read_warnings(sent))) == (200, [NEEDS_3])
    # Cards may come before the review ends: the order itself does not say what may be untrue by then.
    assert live.get(f"/orders/{sent.json()['id']}").json()["warnings"] == []
    stored = live.post("/stored_send/giftcard", postcard(**GIFT, **HOME, recipients=people(3)))
    opened = live.post(stored.json()["stored_send_url"].partition("/api/v2")[2])
    assert without_readiness_warning(read_warnings(opened)) == [NEEDS_3]


@pytest.mark.usefixtures("clean_database")
def test_cards_that_others_wait_for_are_not_free(owner: Account, container: Container) -> None:
    live = make_live(container, owner)
    load_stock(container, 2, "live")
    end_review_of(container, send_giftcards(live, recipients=people(2), **HOME))
    [message] = estimated(live, 1)
    assert message.startswith("It needs 1 gift card of Brindlewick Coffee over $25.00, and 0 are free:")


# Another card for an order that is there


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("giftcard_brand", "pomberry"),
        ("giftcard_brand_code", "pomberry"),
        ("giftcard_amount", 5_000),
        ("landing_page_url", "https://example.com/other"),
    ],
)
def test_an_order_s_card_cannot_be_changed(owner: Account, field: str, value: Any) -> None:
    order = send_giftcards(owner)
    refused = owner.put(f"/orders/{order}", {"message": "Other words", field: value})
    message = "The gift card that was chosen stays: cancel the order, and send another."
    assert (refused.status_code, refused.json().get("errors")) == (422, {field: [message]})
    assert owner.get(f"/orders/{order}").json()["message"] != "Other words"


def test_the_card_that_it_has_may_be_named(owner: Account) -> None:
    """Clients that send back what they were answered change nothing of it."""
    same = {"giftcard_brand": BRAND, "giftcard_amount": VALUE, "landing_page_url": None}
    changed = owner.put(f"/orders/{send_giftcards(owner)}", same | {"message": "Other words"})
    assert (changed.status_code, changed.json()["message"]) == (200, "Other words")
    assert changed.headers["X-Ignored-Fields"] == "giftcard_amount, giftcard_brand, landing_page_url"
    plain = owner.send().json()["id"]
    assert owner.put(f"/orders/{plain}", {"giftcard_brand": "pomberry"}).status_code == 200


def test_of_two_names_of_the_brand_the_second_is_named_as_ignored(owner: Account) -> None:
    """As with every field that has two."""
    sent = owner.send("giftcard", giftcard_brand_code="pomberry")
    assert (sent.json()["giftcard_brand"], sent.headers["X-Ignored-Fields"]) == (BRAND, "giftcard_brand_code")


# Taking back what there never was


def test_a_piece_that_was_never_paid_for_has_no_card_to_be_taken_back(owner: Account, container: Container) -> None:
    cancelled = send_giftcards(owner, recipients=[person(), person(name="Jan")], allow_duplicates=False)
    mailed, twice = item_ids_of(container, cancelled)

    def take_back(piece: int) -> tuple[int, str]:
        response = owner.put(f"/order-items/{piece}/invalidate-giftcard")
        return response.status_code, response.json()["message"]

    assert (take_back(mailed), take_back(twice)) == (
        (400, giftcard_service.NOT_ISSUED),
        (400, "This piece has no gift card: it was not mailed, and nothing is charged for it."),
    )
    assert owner.put(f"/orders/{cancelled}/cancel").status_code == 200
    assert take_back(mailed) == (400, giftcard_service.NEVER_ISSUED)
