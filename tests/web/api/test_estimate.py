"""Estimates: the send's own checks and prices, and nothing left behind."""

import pytest

from quillpost.app.container import Container
from support.factories import GIFT, Account, make_account, people, person, postcard
from support.test_client import TestClient
from support.traces import traces

PATHS = ["postcard", "windowed-letter", "windowedletter", "letter", "windowless-letter", "windowlessletter",
         "notecard", "giftcard", "magnacard"]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_an_estimate_is_what_the_send_then_costs(owner: Account, path: str) -> None:
    gift = GIFT if path == "giftcard" else {}
    body = postcard(recipients=[*people(2), person(address="1 main st."), {"email": "e@example.com"}], **gift)
    answer = owner.post(f"/estimate/{path}", body)
    data = answer.json()["data"]
    sent = owner.post(f"/send/{path}", body).json()
    value = 2 * int(gift.get("giftcard_amount", 0))
    assert (answer.status_code, answer.json()["message"]) == (200, "OK")
    assert data == {
        "type": sent["type"],
        "total_recipients": 2,
        "suppressed": 0,
        "duplicates": 1,
        "undeliverable": 1,
        "unit_price": (sent["authorization_total"] - value) // 2,
        "leads_fee": 0,
        "giftcard_total": value,
        "authorization_total": sent["authorization_total"],
        "test_mode": True,
        "warnings": data["warnings"],
    }
    assert data["warnings"] == owner.get(f"/orders/{sent['id']}").json()["warnings"]


def test_an_estimate_leaves_nothing_behind(owner: Account, container: Container) -> None:
    before = traces(container)
    assert owner.post("/estimate/postcard", postcard()).status_code == 200
    assert owner.post("/estimate/postcard", postcard(preview=True)).json()["message"] == "OK"
    assert traces(container) == before


def test_an_estimate_is_refused_as_the_send_is(owner: Account) -> None:
    for wrong in (postcard(message="A long story. " * 200), postcard(size="5x7"), {}):
        refused, sent = owner.post("/estimate/postcard", wrong), owner.post("/send/postcard", wrong)
        assert (refused.status_code, refused.json()) == (sent.status_code, sent.json())


def test_prices_abroad_count_into_the_average(owner: Account) -> None:
    abroad = person(country="CA", province="ON", postal_code="K1A 0B1")
    data = owner.post("/estimate/postcard", postcard(recipients=[person(), abroad])).json()["data"]
    assert (data["authorization_total"], data["unit_price"]) == (109 + 219, 164)
    nobody = owner.post("/estimate/postcard", postcard(recipients=[{"email": "e@example.com"}])).json()["data"]
    assert (nobody["authorization_total"], nobody["unit_price"]) == (0, 109)


def test_an_estimate_with_a_live_token_says_that_it_is_live(container: Container, http: TestClient) -> None:
    live = make_account(container, http, "live@example.com", mode="live")
    data = live.post("/estimate/postcard", postcard(return_address="1 Elm St, Waco, TX 76701")).json()["data"]
    assert data["test_mode"] is False
