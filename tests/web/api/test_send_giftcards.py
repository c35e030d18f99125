"""Sending gift cards: whose, and worth how much, from the call or its template, and if it is offered."""

from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.orders import service as order_service
from quillpost.orders.giftcards import queries as giftcard_queries
from quillpost.orders.queries import read_order
from quillpost.orders.service import OrderFiles
from support.automations import AutomationDriver, plan
from support.factories import GIFT, Account, Build, Clock, make_operator, people, person, postcard, run_jobs_for
from support.image_server import ImageServer
from support.mailing_lists import ListOwner
from support.orders import balances
from support.radius_addresses import make_address, radius_search, store_addresses
from support.traces import traces

CENTS = 349
VALUE = 2_500
PAGE = "https://example.com/welcome"
CODES = "anywhere-and-back, brindlewick, inkwell-otter, pomberry,"
AMOUNTS = "Choose one of 500, 1000, 1500, 2500, 5000, in cents."
NO_CARD = {"giftcard_brand": None, "giftcard_amount": None}


@pytest.fixture
def container(build: Build) -> Container:
    return build(allow_private_urls=True)


def template(owner: Account, **changes: Any) -> int:
    saved = {"giftcard_brand_code": "inkwell-otter", "giftcard_amount": 10_000}
    body = {"type": "giftcard", "name": "Saved", "content": "Read on!"} | saved | changes
    made = owner.post("/message-templates", body)
    assert made.status_code == 201, made.text
    return int(made.json()["id"])


def gift_of(container: Container, order_id: int) -> tuple[str, str, int, str | None]:
    with container.db.system_transaction() as tx:
        gift = read_order(tx, order_id).gift
    assert gift is not None
    return gift.brand, gift.title, gift.cents, gift.landing_page_url


def retire(container: Container, code: str) -> None:
    with container.db.system_transaction() as tx:
        giftcard_queries.retire_brand(tx, code, now=container.clock())


def test_a_send_says_what_each_piece_brings(owner: Account) -> None:
    sent = owner.send("giftcard", recipients=[*people(2), {"email": "e@example.com"}]).json()
    assert {name: sent[name] for name in sent if name.startswith("giftcard")} == {
        "giftcard_brand": "brindlewick",
        "giftcard_image": "http://quillpost.test/giftcards/brindlewick.png",
        "giftcard_amount": VALUE,
        "giftcard_brand_longname": "Brindlewick Coffee",
    }
    assert (sent["type"], sent["size"], sent["display_type"]) == ("giftcard", None, "Gift Card")
    assert sent["authorization_total"] == 2 * (CENTS + VALUE)


def test_a_card_is_shown_once_it_is_issued(owner: Account, container: Container, clock: Clock) -> None:
    order = owner.send("giftcard", recipients=[person(), {"email": "e@example.com"}]).json()["id"]

    def cards() -> list[Any]:
        shown = [item["giftcard"] for item in owner.get(f"/orders/{order}/items").json()["data"]]
        first = owner.get(f"/orders/{order}/items").json()["data"][0]["id"]
        assert owner.get(f"/order-items/{first}").json()["giftcard"] == shown[0]
        return shown

    assert cards() == [None, None]
    run_jobs_for(container, clock, seconds=45)
    assert cards() == [{"brand": "brindlewick", "amount": VALUE}, None]


def test_lists_and_sums_of_orders_know_gift_cards(owner: Account) -> None:
    owner.send()
    order = owner.send("giftcard").json()["id"]
    [found] = owner.get("/orders?type=giftcard").json()["data"]
    assert (found["id"], found["type"], found["order_total"]) == (order, "giftcard", CENTS)
    assert found["grand_total"] == found["authorization_total"] == CENTS + VALUE
    assert owner.get("/orders/stats").json()["total_cost"] == "$29.58"


@pytest.mark.parametrize("name", ["giftcard_brand", "giftcard_brand_code"])
def test_the_brand_has_two_names(owner: Account, name: str) -> None:
    body = postcard(**{name: "pomberry", "giftcard_amount": "2000"})
    sent = owner.post("/send/giftcard", body)
    assert (sent.json()["giftcard_brand"], sent.json()["giftcard_amount"]) == ("pomberry", 2_000)
    assert "X-Ignored-Fields" not in sent.headers


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("inkwell-otter", "Inkwell & Otter Books", 10_000, None)),
        ({"giftcard_amount": 5_000}, ("inkwell-otter", "Inkwell & Otter Books", 5_000, None)),
        ({"giftcard_brand": "pebbleway"}, ("pebbleway", "Pebbleway Rail", 10_000, None)),
        (GIFT, ("brindlewick", "Brindlewick Coffee", VALUE, None)),
        ({"landing_page_url": PAGE}, ("inkwell-otter", "Inkwell & Otter Books", 10_000, PAGE)),
    ],
)
def test_the_call_wins_over_its_template_each_part_by_itself(
    owner: Account, container: Container, changes: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    sent = owner.send("giftcard", **NO_CARD | {"message_template": template(owner)} | changes)
    assert sent.status_code == 200, sent.text
    assert gift_of(container, sent.json()["id"]) == expected


def test_a_templates_landing_page_and_background_are_used(
    owner: Account, container: Container, art: ImageServer
) -> None:
    saved = template(owner, landing_page_url=PAGE, custom_background_url=art.picture())
    body = NO_CARD | {"message_template": saved}
    sent = owner.send("giftcard", **body, custom_background_image=art.url("/gone"))
    assert (sent.status_code, sent.headers["X-Ignored-Fields"]) == (200, "custom_background_image")
    assert sent.json()["custom_background_url"] == art.picture()
    assert gift_of(container, sent.json()["id"])[3] == PAGE
    plain = owner.send("giftcard", **body, use_custom_background=False)
    assert plain.json()["custom_background_url"] is None
    other = owner.send("giftcard", **body, landing_page_url=f"{PAGE}/2")
    assert gift_of(container, other.json()["id"])[3] == f"{PAGE}/2"


@pytest.mark.parametrize("verb", ["send", "estimate"])
@pytest.mark.parametrize(
    ("changes", "field", "sentence"),
    [
        ({"giftcard_brand": None}, "giftcard_brand", f"Say whose card it is. Choose one of {CODES}"),
        ({"giftcard_brand": " "}, "giftcard_brand", f"Say whose card it is. Choose one of {CODES}"),
        ({"giftcard_amount": None}, "giftcard_amount", f"worth, in cents. {AMOUNTS}"),
        ({"giftcard_brand": "nosuch"}, "giftcard_brand", f"no gift card brand nosuch. Choose one of {CODES}"),
        ({"giftcard_brand": "Brindlewick"}, "giftcard_brand", "no gift card brand Brindlewick."),
        ({"giftcard_amount": 2_501}, "giftcard_amount", f"Brindlewick Coffee card of 2501 cents. {AMOUNTS}"),
        ({"giftcard_amount": 0}, "giftcard_amount", f"Brindlewick Coffee card of 0 cents. {AMOUNTS}"),
        ({"giftcard_amount": -1}, "giftcard_amount", f"Brindlewick Coffee card of -1 cents. {AMOUNTS}"),
        ({"giftcard_amount": 10**30}, "giftcard_amount", f"card of {10**30} cents. {AMOUNTS}"),
        ({"giftcard_amount": 25.5}, "giftcard_amount", "integer"),
        ({"giftcard_amount": None, "giftcard_amount_in_cents": VALUE}, "giftcard_amount_in_cents", "Use gift"),
        ({"giftcard_amount_in_cents": VALUE}, "giftcard_amount_in_cents", "Use giftcard_amount"),
        ({"landing_page_url": "javascript:alert(1)"}, "landing_page_url", "http:// or https://"),
        ({"landing_page_url": "example.com"}, "landing_page_url", "http:// or https://"),
        ({"landing_page_url": f"{PAGE}?who=~EMAIL~"}, "landing_page_url", "the same for everyone"),
    ],
)
def test_a_wrong_card_is_refused_by_its_field_with_the_choices(
    owner: Account, container: Container, verb: str, changes: dict[str, Any], field: str, sentence: str
) -> None:
    before = traces(container)
    refused = owner.post(f"/{verb}/giftcard", postcard(**GIFT | changes))
    assert refused.status_code == 422, refused.text
    assert sentence in refused.json()["errors"].pop(field)[0]
    assert set(refused.json()["errors"]) - {field} <= {"giftcard_amount"}
    assert traces(container) == before


def test_errors_of_a_template_name_the_template(owner: Account, container: Container) -> None:
    saved, body = template(owner), NO_CARD
    other = owner.send("giftcard", **body | {"giftcard_brand": "brindlewick"}, message_template=saved)
    assert other.json()["errors"] == {
        "message_template": [f"There is no Brindlewick Coffee card of 10000 cents. {AMOUNTS} (its giftcard_amount)"]
    }
    retire(container, "inkwell-otter")
    [error] = owner.send("giftcard", **body, message_template=saved).json()["errors"]["message_template"]
    assert error.startswith("There is no gift card brand inkwell-otter. Choose one of anywhere-and-back,")
    assert error.endswith(" (its giftcard_brand_code)")
    assert owner.send("giftcard", message_template=saved).status_code == 200


def test_a_template_of_another_type_carries_no_card(owner: Account) -> None:
    saved = owner.post("/message-templates", {"type": "notecard", "name": "N", "content": "Hi"}).json()["id"]
    refused = owner.send("giftcard", **NO_CARD, message_template=saved).json()["errors"]
    assert set(refused) == {"message_template", "giftcard_brand", "giftcard_amount"}


def test_no_other_piece_brings_a_card(owner: Account) -> None:
    sent = owner.send("notecard", **GIFT, landing_page_url=PAGE, giftcard_amount_in_cents=1)
    ignored = "giftcard_amount, giftcard_amount_in_cents, giftcard_brand, landing_page_url"
    assert (sent.status_code, sent.headers["X-Ignored-Fields"]) == (200, ignored)
    assert sent.json()["giftcard_brand"] is None


class TestOldClients:
    @pytest.fixture
    def container(self, build: Build) -> Container:
        return build(legacy_fields=True)

    def test_the_amounts_old_name_is_taken_where_the_operator_says_so(self, owner: Account) -> None:
        old = {"giftcard_amount": None, "giftcard_amount_in_cents": VALUE}
        sent = owner.send("giftcard", **old)
        assert (sent.json()["giftcard_amount"], sent.headers.get("X-Ignored-Fields")) == (VALUE, None)
        brand = {"type": "giftcard", "name": "Old", "content": "Hi", "giftcard_brand_code": "brindlewick"}
        saved = owner.post("/message-templates", brand | {"giftcard_amount_in_cents": 500})
        assert (saved.json()["giftcard_amount"], saved.headers.get("X-Ignored-Fields")) == (500, None)
        path = f"/message-templates/{saved.json()['id']}"
        assert owner.put(path, {"giftcard_amount_in_cents": 1_000}).json()["giftcard_amount"] == 1_000
        assert owner.put(path, {"giftcard_amount_in_cents": 7}).status_code == 422

    def test_the_specified_name_wins_when_both_are_given(self, owner: Account) -> None:
        sent = owner.send("giftcard", giftcard_amount_in_cents=500)
        assert (sent.status_code, sent.json()["giftcard_amount"]) == (200, VALUE)
        assert sent.headers["X-Ignored-Fields"] == "giftcard_amount_in_cents"
        both = {"giftcard_amount": 1_000, "giftcard_amount_in_cents": 500}
        brand = {"type": "giftcard", "name": "Both", "content": "Hi", "giftcard_brand_code": "brindlewick"}
        saved = owner.post("/message-templates", brand | both)
        assert (saved.status_code, saved.json()["giftcard_amount"]) == (201, 1_000)
        changed = owner.put(f"/message-templates/{saved.json()['id']}", {**both, "giftcard_amount": 1_500})
        assert (changed.status_code, changed.json()["giftcard_amount"]) == (200, 1_500)
        assert changed.headers["X-Ignored-Fields"] == "giftcard_amount_in_cents"

    def test_estimates_previews_stored_sends_and_automations_take_it_too(
        self, container: Container, owner: Account
    ) -> None:
        old = postcard(**GIFT) | {"giftcard_amount": None, "giftcard_amount_in_cents": VALUE}
        estimate = owner.post("/estimate/giftcard", old)
        assert estimate.json()["data"]["giftcard_total"] == VALUE
        assert owner.post("/send/giftcard", old | {"preview": True}).json()["data"]["sides"] == ["front", "back"]
        stored = owner.post("/stored_send/giftcard", old).json()["stored_send_url"]
        assert owner.post(stored.partition("/api/v2")[2], {}).json()["giftcard_amount"] == VALUE
        automation = plan(piece="giftcard", **GIFT) | {"enabled": False}
        automation["send"] |= {"giftcard_amount": None, "giftcard_amount_in_cents": VALUE}
        automation["mailing_list_id"] = ListOwner(owner).make()
        made = owner.post("/automations", automation)
        assert made.status_code == 201, made.text


def test_only_an_operator_reads_the_setting_for_the_old_field_name(
    container: Container, http: Any, owner: Account
) -> None:
    old = {"giftcard_amount": None, "giftcard_amount_in_cents": VALUE}
    operator = make_operator(container, http)
    for asker, reads_setting in ((owner, False), (operator, True)):
        for refused in (
            asker.send("giftcard", **old),
            asker.post("/stored_send/giftcard", postcard(**GIFT) | old),
            asker.post("/message-templates", {"type": "giftcard", "name": "a", "content": "b", **GIFT, **old}),
        ):
            [error] = refused.json()["errors"]["giftcard_amount_in_cents"]
            assert error.startswith("Use giftcard_amount")
            assert ("QUILLPOST_LEGACY_FIELDS=true" in error) is reads_setting


def test_a_preview_has_two_sides_and_makes_nothing(owner: Account) -> None:
    shown = owner.send("giftcard", preview=True)
    assert shown.status_code == 200, shown.text
    data = shown.json()["data"]
    assert (data["sides"], len(data["previews"]), "envelope" in data) == (["front", "back"], 2, True)
    assert owner.get("/orders").json()["meta"]["total"] == 0


def test_a_radius_preview_counts_the_cards(owner: Account, container: Container) -> None:
    store_addresses(container, [make_address(number) for number in range(100, 104)])
    search = {"recipients": None, "radius_search": radius_search(3, preview=True)}
    data = owner.send("giftcard", **search).json()["data"]
    assert (data["count"], data["leads_fee"], data["unit_price"]) == (3, 15, CENTS)
    assert data["estimated_total"] == 3 * (CENTS + VALUE) + 15
    sent = owner.send("giftcard", **search | {"radius_search": radius_search(3)}).json()
    assert sent["authorization_total"] == data["estimated_total"]


def test_the_value_is_held_and_comes_back_when_the_order_is_cancelled(owner: Account, container: Container) -> None:
    order = owner.send("giftcard", recipients=people(3)).json()["id"]
    total = 3 * (CENTS + VALUE)
    with container.db.system_transaction() as tx:
        assert balances(tx, read_order(tx, order)) == {"credit": -total, "held": total, "earned": 0}
    cancelled = owner.put(f"/orders/{order}/cancel")
    assert cancelled.status_code == 200, cancelled.text
    with container.db.system_transaction() as tx:
        assert balances(tx, read_order(tx, order)) == {"credit": 0, "held": 0, "earned": 0}
    assert owner.get(f"/orders/{order}").json()["grand_total"] == 0
    assert owner.get("/orders/stats").json()["total_cost"] == "$0.00"


def test_a_change_keeps_the_card(owner: Account, container: Container) -> None:
    order = owner.send("giftcard", recipients=people(2), landing_page_url=PAGE).json()["id"]
    before = gift_of(container, order)
    retire(container, "brindlewick")
    changed = owner.put(f"/orders/{order}", {"message": "Other words for %FIRST_NAME%"})
    assert (changed.status_code, changed.json()["grand_total"]) == (200, 2 * (CENTS + VALUE))
    assert gift_of(container, order) == before
    with container.db.system_transaction() as tx:
        assert balances(tx, read_order(tx, order))["held"] == 2 * (CENTS + VALUE)


def test_a_replay_brings_the_same_card_while_it_is_offered(owner: Account, container: Container, clock: Clock) -> None:
    order = owner.send("giftcard", landing_page_url=PAGE).json()["id"]
    run_jobs_for(container, clock, seconds=45)
    again = owner.post(f"/orders/{order}/replay")
    assert (again.status_code, again.json()["authorization_total"]) == (200, CENTS + VALUE)
    assert gift_of(container, again.json()["id"]) == gift_of(container, order)
    operator = make_operator(container, owner.http, mode="live")
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


def test_a_brand_that_goes_while_its_send_is_prepared_is_refused(
    owner: Account, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the catalogue and the order lies all that is fetched and drawn."""
    keep = order_service.store_files

    def keep_while_an_operator_works(*what: Any, **how: Any) -> OrderFiles:
        retire(container, "brindlewick")
        return keep(*what, **how)

    monkeypatch.setattr(order_service, "store_files", keep_while_an_operator_works)
    refused = owner.send("giftcard")
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["giftcard_brand"])
    assert owner.get("/orders").json()["meta"]["total"] == 0


def test_an_automation_sends_gift_cards(owner: Account, container: Container, clock: Clock) -> None:
    flow, lists = AutomationDriver(owner, container, clock), ListOwner(owner)
    visitors = lists.make()
    send = {"piece": "giftcard", "message": "Hi %FIRST_NAME%, welcome!", **GIFT, "landing_page_url": PAGE}
    refused = owner.post("/automations", plan(visitors, send=send | {"giftcard_amount": 1}))
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["send.giftcard_amount"])
    welcome = flow.make(plan(visitors, send=send))
    shown = owner.post(f"/automations/{welcome}/preview")
    assert (shown.status_code, shown.json()["data"]["sides"]) == (200, ["front", "back"])
    owner.post("/recipients", person(mailing_list_id=visitors))
    flow.work()
    [order] = flow.orders()
    assert (order["type"], order["authorization_total"]) == ("giftcard", CENTS + VALUE)
    assert gift_of(container, order["id"])[2:] == (VALUE, PAGE)
    retire(container, "brindlewick")
    owner.post("/recipients", person(address="14 Main St", mailing_list_id=visitors))
    flow.work()
    assert len(flow.orders()) == 1
    assert flow.read(welcome)["last_error"].startswith("send.giftcard_brand: There is no gift card brand")


def test_a_stored_send_is_held_against_the_catalogue_when_it_is_opened(owner: Account, container: Container) -> None:
    body = postcard(**GIFT)
    assert owner.post("/stored_send/giftcard", body | {"giftcard_amount_in_cents": 1}).status_code == 422
    path = owner.post("/stored_send/giftcard", body).json()["stored_send_url"].partition("/api/v2")[2]
    retire(container, "brindlewick")
    assert list(owner.post(path).json()["errors"]) == ["giftcard_brand"]
    with container.db.system_transaction() as tx:
        brand = giftcard_queries.find_brands(tx, ["brindlewick"])["brindlewick"]
    assert not brand.is_offered
    make_operator(container, owner.http, mode="live").put("/giftcard-brands/brindlewick", {})
    assert owner.post(path).json()["giftcard_brand"] == "brindlewick"


def test_another_may_follow_within_the_day(owner: Account) -> None:
    """The same piece twice is a mistake; a second gift is none. In one order it is one, though."""
    for _ in range(2):
        assert owner.send("giftcard", allow_duplicates=False).json()["total_estimated_recipients"] == 1
    twice = owner.send("giftcard", recipients=[person(), person(name="Jan")], allow_duplicates=False).json()
    assert twice["total_estimated_recipients"] == 1
    assert twice["authorization_total"] == CENTS + VALUE
