"""Sending gift cards: whose, and worth how much, from the call or its template, and if it is offered."""

from dataclasses import replace
from typing import Any

import pytest
from fastapi import FastAPI

from quillpost.app.container import Container
from quillpost.orders import service as order_service
from quillpost.orders.giftcards import queries as giftcard_queries
from quillpost.orders.queries import read_order
from support import factories
from support.automations import AutomationDriver, plan
from support.factories import GIFT, Account, Clock, people, person, postcard, read_warnings, without_readiness_warning
from support.giftcard_orders import load_stock, send_giftcards
from support.images import ImageServer
from support.leads import make_address, radius_search, store_addresses
from support.mailing_lists import ListOwner
from support.orders import balances, end_review
from support.rows import run
from support.traces import assert_refused

pytestmark = pytest.mark.usefixtures("changing_brands")

CENTS, VALUE = 349, 2_500
HOME = {"return_address": "1 Elm St, Austin, TX 78702"}
PAGE = "https://example.com/welcome"
CODES = "anywhere-and-back, brindlewick, inkwell-otter, pomberry,"
AMOUNTS = "Choose one of 500, 1000, 1500, 2500, 5000, in cents."
NO_CARD = {"giftcard_brand": None, "giftcard_amount": None}
OLD = {"giftcard_amount": None, "giftcard_amount_in_cents": VALUE}


def template(owner: Account, **changes: Any) -> int:
    saved = {"giftcard_brand_code": "inkwell-otter", "giftcard_amount": 10_000}
    made = owner.post("/message-templates", {"type": "giftcard", "name": "Saved", "content": "Hi"} | saved | changes)
    assert made.status_code == 201, made.text
    return int(made.json()["id"])


def gift_of(container: Container, order_id: int) -> tuple[str, str, int, str | None]:
    gift = run(container, read_order, order_id).gift
    assert gift is not None
    return gift.brand, gift.title, gift.cents, gift.landing_page_url


def held(container: Container, order_id: int) -> dict[str, int]:
    with container.db.system_transaction() as tx:
        return balances(tx, read_order(tx, order_id))


def retire(container: Container, code: str) -> None:
    run(container, giftcard_queries.retire_brand, code, now=container.clock())


def test_an_issued_card_is_shown_and_sent_while_offered(owner: Account, container: Container, clock: Clock) -> None:
    owner.send()
    sent = owner.send("giftcard", recipients=[*people(2), {"email": "e@example.com"}], landing_page_url=PAGE).json()
    order, total = sent["id"], 2 * (CENTS + VALUE)
    assert {name: sent[name] for name in sent if name.startswith("giftcard")} == {
        "giftcard_brand": "brindlewick", "giftcard_image": "http://quillpost.test/giftcards/brindlewick.png",
        "giftcard_amount": VALUE, "giftcard_brand_longname": "Brindlewick Coffee",
    }  # fmt: skip
    assert sent["authorization_total"] == total
    [found] = owner.get("/orders?type=giftcard").json()["data"]
    assert (found["id"], found["type"], found["order_total"]) == (order, "giftcard", 2 * CENTS)
    assert found["grand_total"] == found["authorization_total"] == total
    assert owner.get("/orders/stats").json()["total_cost"] == "$58.07"

    def cards() -> list[Any]:
        items = owner.get(f"/orders/{order}/items").json()["data"]
        shown = [item["giftcard"] for item in items]
        assert [owner.get(f"/order-items/{item['id']}").json()["giftcard"] for item in items] == shown
        return shown

    assert cards() == [None] * 3
    factories.run_jobs_for(container, clock, seconds=45)
    assert cards() == [{"brand": "brindlewick", "amount": VALUE}] * 2 + [None]
    again = owner.post(f"/orders/{order}/replay")
    assert (again.status_code, again.json()["authorization_total"]) == (200, total)
    assert gift_of(container, again.json()["id"]) == gift_of(container, order)
    operator = factories.make_operator(container, owner.http, mode="live")
    operator.put("/giftcard-brands/brindlewick", {"available_amounts": [500]})
    refused = owner.post(f"/orders/{order}/replay")
    assert (refused.status_code, refused.json()["message"]) == (
        400,
        "The gift card of this order is offered no more: send it anew with another."
        " There is no Brindlewick Coffee card of 2500 cents. Choose one of 500, in cents.",
    )
    retire(container, "brindlewick")
    gone = owner.post(f"/orders/{order}/replay")
    assert (gone.status_code, "no gift card brand brindlewick" in gone.json()["message"]) == (400, True)


def test_a_change_keeps_the_card_and_a_cancellation_releases_its_value(owner: Account, container: Container) -> None:
    order, total = send_giftcards(owner, recipients=people(3), landing_page_url=PAGE), 3 * (CENTS + VALUE)
    before = gift_of(container, order)
    assert held(container, order) == {"credit": -total, "held": total, "earned": 0}
    retire(container, "brindlewick")
    changed = owner.put(f"/orders/{order}", {"message": "Other words for %FIRST_NAME%"})
    assert (changed.status_code, changed.json()["grand_total"]) == (200, total)
    assert (gift_of(container, order), held(container, order)["held"]) == (before, total)
    cancelled = owner.put(f"/orders/{order}/cancel")
    assert cancelled.status_code == 200, cancelled.text
    assert held(container, order) == {"credit": 0, "held": 0, "earned": 0}
    assert owner.get(f"/orders/{order}").json()["grand_total"] == 0
    assert owner.get("/orders/stats").json()["total_cost"] == "$0.00"


def test_the_card_of_an_order_may_be_named_but_not_changed(owner: Account) -> None:
    order = send_giftcards(owner)
    message = "The gift card that was chosen stays: cancel the order, and send another."
    for field, value in {
        "giftcard_brand": "pomberry", "giftcard_brand_code": "pomberry", "giftcard_amount": 5_000,
        "landing_page_url": "https://example.com/other",
    }.items():  # fmt: skip
        refused = owner.put(f"/orders/{order}", {"message": "Other words", field: value})
        assert (refused.status_code, refused.json().get("errors")) == (422, {field: [message]})
    assert owner.get(f"/orders/{order}").json()["message"] != "Other words"
    # Clients that send back what they were answered change nothing of it.
    changed = owner.put(f"/orders/{order}", GIFT | {"landing_page_url": None, "message": "Other words"})
    assert (changed.status_code, changed.json()["message"]) == (200, "Other words")
    assert changed.headers["X-Ignored-Fields"] == "giftcard_amount, giftcard_brand, landing_page_url"
    plain = owner.send().json()["id"]
    assert owner.put(f"/orders/{plain}", {"giftcard_brand": "pomberry"}).status_code == 200


def test_the_brand_has_two_names_no_other_piece_brings_a_card_and_another_may_follow(owner: Account) -> None:
    for name in ("giftcard_brand", "giftcard_brand_code"):
        sent = owner.post("/send/giftcard", postcard(**{name: "pomberry", "giftcard_amount": "2000"}))
        assert (sent.json()["giftcard_brand"], sent.json()["giftcard_amount"]) == ("pomberry", 2_000)
        assert "X-Ignored-Fields" not in sent.headers
    both = owner.send("giftcard", giftcard_brand_code="pomberry")
    assert (both.json()["giftcard_brand"], both.headers["X-Ignored-Fields"]) == ("brindlewick", "giftcard_brand_code")
    other = owner.send("notecard", **GIFT, landing_page_url=PAGE, giftcard_amount_in_cents=1)
    ignored = "giftcard_amount, giftcard_amount_in_cents, giftcard_brand, landing_page_url"
    assert (other.status_code, other.headers["X-Ignored-Fields"]) == (200, ignored)
    assert other.json()["giftcard_brand"] is None
    # The same piece twice in a day is a mistake; a second gift is none. In one order it is one, though.
    for recipients in ([person()], [person()], [person(), person(name="Jan")]):
        sent = owner.send("giftcard", recipients=recipients, allow_duplicates=False)
        assert (sent.json()["total_estimated_recipients"], sent.json()["authorization_total"]) == (1, CENTS + VALUE)


@pytest.mark.usefixtures("loopback_urls")
def test_each_part_of_a_call_wins_over_its_template(owner: Account, container: Container, art: ImageServer) -> None:
    saved = template(owner)
    inkwell = "inkwell-otter", "Inkwell & Otter Books"
    cases: list[tuple[dict[str, Any], tuple[Any, ...]]] = [
        ({}, (*inkwell, 10_000, None)),
        ({"giftcard_amount": 5_000}, (*inkwell, 5_000, None)),
        ({"giftcard_brand": "pebbleway"}, ("pebbleway", "Pebbleway Rail", 10_000, None)),
        (GIFT, ("brindlewick", "Brindlewick Coffee", VALUE, None)),
        ({"landing_page_url": PAGE}, (*inkwell, 10_000, PAGE)),
    ]
    for changes, expected in cases:
        sent = owner.send("giftcard", **NO_CARD | {"message_template": saved} | changes)
        assert sent.status_code == 200, sent.text
        assert gift_of(container, sent.json()["id"]) == expected
    whole = NO_CARD | {"message_template": template(owner, landing_page_url=PAGE, custom_background_url=art.picture())}
    sent = owner.send("giftcard", **whole, custom_background_image=art.url("/gone"))
    assert (sent.status_code, sent.headers["X-Ignored-Fields"]) == (200, "custom_background_image")
    assert sent.json()["custom_background_url"] == art.picture()
    assert gift_of(container, sent.json()["id"])[3] == PAGE
    plain = owner.send("giftcard", **whole, use_custom_background=False, landing_page_url=f"{PAGE}/2").json()
    assert (plain["custom_background_url"], gift_of(container, plain["id"])[3]) == (None, f"{PAGE}/2")


def test_errors_of_a_template_name_the_template(owner: Account, container: Container) -> None:
    saved = template(owner)
    other = owner.send("giftcard", **NO_CARD | {"giftcard_brand": "brindlewick"}, message_template=saved)
    assert other.json()["errors"] == {
        "message_template": [f"There is no Brindlewick Coffee card of 10000 cents. {AMOUNTS} (its giftcard_amount)"]
    }
    retire(container, "inkwell-otter")
    [error] = owner.send("giftcard", **NO_CARD, message_template=saved).json()["errors"]["message_template"]
    assert error.startswith("There is no gift card brand inkwell-otter. Choose one of anywhere-and-back,")
    assert error.endswith(" (its giftcard_brand_code)")
    assert owner.send("giftcard", message_template=saved).status_code == 200
    folded = owner.post("/message-templates", {"type": "notecard", "name": "N", "content": "Hi"}).json()["id"]
    refused = owner.send("giftcard", **NO_CARD, message_template=folded).json()["errors"]
    assert set(refused) == {"message_template", "giftcard_brand", "giftcard_amount"}


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"giftcard_brand": "nosuch"}, "giftcard_brand", f"no gift card brand nosuch. Choose one of {CODES}"),
    ({"giftcard_brand": "Brindlewick"}, "giftcard_brand", "no gift card brand Brindlewick."),
    ({"giftcard_brand": None}, "giftcard_brand", f"Say whose card it is. Choose one of {CODES}"),
    ({"giftcard_brand": " "}, "giftcard_brand", f"Say whose card it is. Choose one of {CODES}"),
    ({"giftcard_amount": None}, "giftcard_amount", f"worth, in cents. {AMOUNTS}"),
    ({"giftcard_amount": 2_501}, "giftcard_amount", f"Brindlewick Coffee card of 2501 cents. {AMOUNTS}"),
    ({"giftcard_amount": 0}, "giftcard_amount", f"Brindlewick Coffee card of 0 cents. {AMOUNTS}"),
    ({"giftcard_amount": -1}, "giftcard_amount", f"Brindlewick Coffee card of -1 cents. {AMOUNTS}"),
    ({"giftcard_amount": 10**30}, "giftcard_amount", f"card of {10**30} cents. {AMOUNTS}"),
    ({"giftcard_amount": 25.5}, "giftcard_amount", "integer"),
    ({"giftcard_amount_in_cents": VALUE}, "giftcard_amount_in_cents", "Use giftcard_amount"),
    (OLD, "giftcard_amount_in_cents", "Use giftcard_amount"),
    ({"landing_page_url": "javascript:alert(1)"}, "landing_page_url", "http:// or https://"),
    ({"landing_page_url": "example.com"}, "landing_page_url", "http:// or https://"),
    ({"landing_page_url": f"{PAGE}?who=~EMAIL~"}, "landing_page_url", "the same for everyone"),
]


def test_a_wrong_card_names_its_choices(subtests: pytest.Subtests, owner: Account, container: Container) -> None:
    for path in ("/send/giftcard", "/estimate/giftcard"):
        assert_refused(subtests, container, lambda changes: owner.post(path, postcard(**GIFT | changes)), WRONG)  # noqa: B023


def test_a_brand_that_goes_is_refused(owner: Account, container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at the catalogue and the order lies all that is fetched and drawn."""
    store_files = order_service.store_files

    def store_while_an_operator_works(*what: Any, **how: Any) -> Any:
        retire(container, "brindlewick")
        return store_files(*what, **how)

    monkeypatch.setattr(order_service, "store_files", store_while_an_operator_works)
    refused = owner.send("giftcard")
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["giftcard_brand"])
    assert owner.get("/orders").json()["meta"]["total"] == 0


def test_an_operator_may_allow_the_amounts_old_name(app: FastAPI, container: Container, owner: Account) -> None:
    app.state.container = replace(container, limits=replace(container.limits, legacy_fields=True))
    sent = owner.send("giftcard", **OLD)
    assert (sent.json()["giftcard_amount"], sent.headers.get("X-Ignored-Fields")) == (VALUE, None)
    body = postcard(**GIFT) | OLD
    assert owner.post("/estimate/giftcard", body).json()["data"]["giftcard_total"] == VALUE
    assert owner.post("/send/giftcard", body | {"preview": True}).json()["data"]["sides"] == ["front", "back"]
    stored = owner.post("/stored_send/giftcard", body).json()["stored_send_url"]
    assert owner.post(stored.partition("/api/v2")[2], {}).json()["giftcard_amount"] == VALUE
    send = {"piece": "giftcard", "message": "Hi", **GIFT, **OLD}
    made = owner.post("/automations", plan(ListOwner(owner).make(), enabled=False, send=send))
    assert made.status_code == 201, made.text
    # Of both names the specified one wins.
    both = {"giftcard_amount": 1_000, "giftcard_amount_in_cents": 500}
    sent = owner.send("giftcard", giftcard_amount_in_cents=500)
    assert (sent.status_code, sent.json()["giftcard_amount"]) == (200, VALUE)
    assert sent.headers["X-Ignored-Fields"] == "giftcard_amount_in_cents"
    brand = {"type": "giftcard", "name": "Old", "content": "Hi", "giftcard_brand_code": "brindlewick"}
    saved = owner.post("/message-templates", brand | {"giftcard_amount_in_cents": 500})
    assert (saved.json()["giftcard_amount"], saved.headers.get("X-Ignored-Fields")) == (500, None)
    assert owner.post("/message-templates", brand | both).json()["giftcard_amount"] == 1_000
    path = f"/message-templates/{saved.json()['id']}"
    assert owner.put(path, {"giftcard_amount_in_cents": 1_000}).json()["giftcard_amount"] == 1_000
    assert owner.put(path, {"giftcard_amount_in_cents": 7}).status_code == 422
    changed = owner.put(path, {**both, "giftcard_amount": 1_500})
    assert (changed.status_code, changed.json()["giftcard_amount"]) == (200, 1_500)
    assert changed.headers["X-Ignored-Fields"] == "giftcard_amount_in_cents"


def test_only_an_operator_reads_the_setting_for_the_old_field_name(owner: Account, operator: Account) -> None:
    words = {"type": "giftcard", "name": "a", "content": "b", **GIFT, **OLD}
    for caller, reads_setting in ((owner, False), (operator, True)):
        stored = caller.post("/stored_send/giftcard", postcard(**GIFT) | OLD)
        for refused in (caller.send("giftcard", **OLD), stored, caller.post("/message-templates", words)):
            [error] = refused.json()["errors"]["giftcard_amount_in_cents"]
            assert error.startswith("Use giftcard_amount")
            assert ("QUILLPOST_LEGACY_FIELDS=true" in error) is reads_setting


def test_a_radius_preview_counts_the_cards(owner: Account, container: Container) -> None:
    store_addresses(container, [make_address(number) for number in range(100, 104)])
    data = owner.send("giftcard", recipients=None, radius_search=radius_search(3, preview=True)).json()["data"]
    assert (data["count"], data["leads_fee"], data["unit_price"]) == (3, 15, CENTS)
    assert data["estimated_total"] == 3 * (CENTS + VALUE) + 15
    sent = owner.send("giftcard", recipients=None, radius_search=radius_search(3)).json()
    assert sent["authorization_total"] == data["estimated_total"]


def test_automations_and_stored_sends_need_offered_cards(owner: Account, container: Container, clock: Clock) -> None:
    flow, lists = AutomationDriver(owner, container, clock), ListOwner(owner)
    visitors = lists.make()
    send = {"piece": "giftcard", "message": "Hi %FIRST_NAME%, welcome!", **GIFT, "landing_page_url": PAGE}
    refused = owner.post("/automations", plan(visitors, send=send | {"giftcard_amount": 1}))
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["send.giftcard_amount"])
    welcome = flow.make(plan(visitors, send=send))
    shown = owner.post(f"/automations/{welcome}/preview")
    assert (shown.status_code, shown.json()["data"]["sides"]) == (200, ["front", "back"])
    lists.add(visitors)
    flow.work()
    [order] = flow.orders()
    assert (order["type"], order["authorization_total"]) == ("giftcard", CENTS + VALUE)
    assert gift_of(container, order["id"])[2:] == (VALUE, PAGE)
    body = postcard(**GIFT)
    assert owner.post("/stored_send/giftcard", body | {"giftcard_amount_in_cents": 1}).status_code == 422
    stored = owner.post("/stored_send/giftcard", body).json()["stored_send_url"].partition("/api/v2")[2]
    retire(container, "brindlewick")
    lists.add(visitors, address="14 Main St")
    flow.work()
    assert len(flow.orders()) == 1
    assert flow.read(welcome)["last_error"].startswith("send.giftcard_brand: There is no gift card brand")
    assert list(owner.post(stored).json()["errors"]) == ["giftcard_brand"]
    factories.make_operator(container, owner.http, mode="live").put("/giftcard-brands/brindlewick", {})
    assert owner.post(stored).json()["giftcard_brand"] == "brindlewick"


def test_senders_are_warned_before_sending_more_cards_than_are_free(owner: Account, container: Container) -> None:
    live = factories.make_live(container, owner)
    load_stock(container, 2, "live")

    def estimated(sender: Account, how_many: int) -> list[str]:
        body = postcard(**GIFT, **HOME, recipients=people(how_many))
        warnings: list[str] = sender.post("/estimate/giftcard", body).json()["data"]["warnings"]
        return without_readiness_warning(warnings)

    needs_3 = (
        "It needs 3 gift cards of Brindlewick Coffee over $25.00, and 2 are free: it will be held until there are more."
    )
    assert (estimated(live, 2), estimated(live, 3), estimated(owner, 3)) == ([], [needs_3], [])
    sent = live.send("giftcard", recipients=people(3), **HOME)
    assert (sent.status_code, without_readiness_warning(read_warnings(sent))) == (200, [needs_3])
    # Cards may come before the review ends: the order itself does not say what may be untrue by then.
    assert live.get(f"/orders/{sent.json()['id']}").json()["warnings"] == []
    stored = live.post("/stored_send/giftcard", postcard(**GIFT, **HOME, recipients=people(3)))
    opened = live.post(stored.json()["stored_send_url"].partition("/api/v2")[2])
    assert without_readiness_warning(read_warnings(opened)) == [needs_3]
    # Cards that others wait for are not free.
    end_review(container, send_giftcards(live, recipients=people(2), **HOME))
    [message] = estimated(live, 1)
    assert message.startswith("It needs 1 gift card of Brindlewick Coffee over $25.00, and 0 are free:")
