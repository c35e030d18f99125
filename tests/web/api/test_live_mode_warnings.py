"""While live mail cannot be printed, everyone is told: whoever sends, whoever asks, and whoever runs it."""

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import accounts, prices
from quillpost.web.application import create_app
from support.factories import (
    Account,
    Build,
    Clock,
    make_account,
    make_live,
    make_operator,
    person,
    postcard,
    run_due_jobs,
)
from support.mailing_lists import ListOwner
from support.production import LIVE_SETTINGS
from support.test_client import TestClient

HOME = {
    "return_name": "Dana", "return_address": "1 Elm St", "return_city": "Austin", "return_state": "TX",
    "return_postal_code": "78702",
}  # fmt: skip
PAUSES = "Live mail isn't ready yet, so this order will be paused when its review ends."
NO_PARTNER = "No print partner is connected."


@pytest.fixture
def live(container: Container, owner: Account) -> Account:
    return make_live(container, owner)


@pytest.fixture
def ready(build: Build) -> Iterator[tuple[Container, TestClient]]:
    container = build(**LIVE_SETTINGS)
    with TestClient(create_app(container)) as http:
        yield container, http


def settle(container: Container, account: Account) -> None:
    """The account gets a return address."""
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(accounts).where(accounts.c.id == account.id).values(**HOME))


def test_a_live_send_is_accepted_and_says_that_it_will_be_paused(live: Account) -> None:
    sent = live.send(**HOME)
    assert sent.status_code == 200
    assert PAUSES in sent.headers["X-Warnings"]
    assert NO_PARTNER in sent.headers["X-Warnings"]
    assert "QUILLPOST_" not in sent.headers["X-Warnings"]
    # What may be mended before the review ends is not kept: the review looks again.
    assert live.get(f"/orders/{sent.json()['id']}").json()["warnings"] == []


def test_a_paused_order_tells_its_sender_why_without_naming_settings(
    container: Container, live: Account, clock: Clock
) -> None:
    order = live.send(**HOME).json()["id"]
    clock.advance(days=2)
    run_due_jobs(container)
    read = live.get(f"/orders/{order}").json()
    assert read["status"] == "Paused"
    assert NO_PARTNER in read["warnings"]
    assert "QUILLPOST_" not in str(read["warnings"])


@pytest.mark.parametrize("more", [{"preview": True}, {}])
def test_estimates_and_previews_say_it_too(live: Account, more: dict[str, Any]) -> None:
    path = "/send/postcard" if more else "/estimate/postcard"
    response = live.post(path, postcard(**HOME, **more))
    assert response.status_code == 200
    warning = response.headers["X-Warnings"] if more else response.json()["data"]["warnings"][0]
    assert PAUSES in warning
    assert NO_PARTNER in warning


def test_a_test_send_has_nothing_to_say_of_it(owner: Account) -> None:
    assert "X-Warnings" not in owner.send(**HOME).headers
    assert owner.post("/estimate/postcard", postcard(**HOME)).json()["data"]["warnings"] == []


def test_a_live_send_of_a_service_that_can_mail_has_none_either(ready: tuple[Container, TestClient]) -> None:
    parts, http = ready
    live = make_live(parts, make_account(parts, http, "ready@example.com"))
    assert "X-Warnings" not in live.send(**HOME).headers


def test_a_live_send_without_any_return_address_is_still_refused(live: Account) -> None:
    refused = live.send()
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["return_address"])


def test_the_account_says_what_is_missing_and_then_nothing(ready: tuple[Container, TestClient]) -> None:
    parts, http = ready
    account = make_account(parts, http, "ready@example.com")
    response = account.get("/account").json()
    assert (response["live_ready"], response["live_readiness"]) == (
        False,
        ["Your account has no return address. Add one, or give one with each order."],
    )
    settle(parts, account)
    response = account.get("/account").json()
    assert (response["live_ready"], response["live_readiness"]) == (True, [])


def test_whoever_runs_the_service_reads_which_setting(container: Container, http: TestClient) -> None:
    response = make_operator(container, http).get("/account").json()["live_readiness"]
    assert "QUILLPOST_PRINT_PARTNER is not set: nobody prints." in response


def test_without_prices_nothing_is_ready(ready: tuple[Container, TestClient]) -> None:
    parts, http = ready
    account = make_account(parts, http, "ready@example.com")
    settle(parts, account)
    with parts.db.system_transaction() as tx:
        tx.execute(sa.delete(prices))
    assert account.get("/account").json()["live_readiness"] == ["No prices are in force."]
    assert http.get("/ready/live").status_code == 503


def test_ready_live_is_open_and_tells_operators_alone_what_is_missing(
    container: Container, http: TestClient, owner: Account
) -> None:
    response = http.get("/ready/live")
    assert (response.status_code, response.json()) == (503, {"status": "not ready", "live_ready": False})
    for token in (owner.token, "nonsense"):
        again = http.get("/ready/live", headers={"Authorization": f"Bearer {token}"})
        assert again.json() == response.json()
    runs = make_operator(container, http)
    missing = http.get("/ready/live", headers={"Authorization": f"Bearer {runs.token}"}).json()["missing"]
    assert [gap["name"] for gap in missing] == [
        "public_url", "permit_first", "permit_standard", "mailer_id", "print_partner",
    ]  # fmt: skip
    assert missing[-1]["message"] == "QUILLPOST_PRINT_PARTNER is not set: nobody prints."


def test_a_service_that_can_mail_is_ready(ready: tuple[Container, TestClient]) -> None:
    _, http = ready
    response = http.get("/ready/live")
    assert (response.status_code, response.json()) == (200, {"status": "ready", "live_ready": True})


def test_without_any_price_a_send_is_refused_whoever_it_goes_to(container: Container, owner: Account) -> None:
    lister = ListOwner(owner)
    lister.fill(list_id := lister.make(), "1 Main St")
    with container.db.system_transaction() as tx:
        tx.execute(sa.delete(prices))
    for audience in ({"mailing_list_ids": [list_id]}, {"recipients": [person()]}):
        refused = owner.send(**audience)
        assert refused.status_code == 422, refused.text
        assert "There is no price for this piece" in refused.text
    assert owner.get("/orders").json()["meta"]["total"] == 0
