"""A recipient's way to their gift card in a real browser: on a phone, with a script and without."""

import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from playwright.sync_api import Page, Request, expect

from quillpost.app.container import Container
from quillpost.core.database.tables.base import orders
from quillpost.orders.giftcards import issuance
from quillpost.orders.giftcards.rules import format_claim
from support.chromium import new_page
from support.factories import Account
from support.giftcard_orders import card_row, issue_order_cards, read_claim, send_giftcards
from support.raw_http import real_server

pytestmark = pytest.mark.costly


@pytest.fixture
def piece(container: Container, owner: Account) -> int:
    [piece] = issue_order_cards(container, send_giftcards(owner))
    return piece


def code_of(container: Container, piece: int) -> str:
    sealed = bytes(card_row(container, piece).card_sealed)
    return str(issuance.decrypt_card(container.encryptor, issuance.card_context(piece), sealed).code)


def put_landing_page(container: Container, piece: int, url: str) -> None:
    with container.db.system_transaction() as tx:
        order = sa.update(orders).where(orders.c.id == card_row(container, piece).order_id)
        tx.execute(order.values(landing_page_url=url))


def fits(page: Page, width: int) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    expect(page.locator("h1")).to_have_count(1)
    unnamed = "fields => fields.filter(each => each.labels.length === 0).map(each => each.name)"
    assert page.locator("input:not([type=hidden])").evaluate_all(unnamed) == []


def test_from_the_typed_code_by_way_of_the_senders_page_to_the_card(
    container: Container, app: FastAPI, piece: int
) -> None:
    claim, width = read_claim(container, piece), 390
    left: list[Request] = []
    with real_server(app) as port, new_page(width=width) as page:
        # Another name of this machine is another site to the browser.
        put_landing_page(container, piece, f"http://localhost:{port}/health")
        page.context.on("request", lambda each: left.append(each) if "localhost" in each.url else None)
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.goto(f"http://127.0.0.1:{port}/gift")
        fits(page, width)
        page.get_by_label("The code on the card").fill(format_claim(claim).lower())
        page.keyboard.press("Enter")
        expect(page.get_by_text("First, visit localhost.")).to_be_visible()
        expect(page.get_by_role("button", name="Show my gift card")).to_have_count(0)
        fits(page, width)
        with page.context.expect_page() as opened:
            page.get_by_role("link", name="Visit localhost").click()
        shop = opened.value
        shop.wait_for_load_state()
        assert shop.url == f"http://localhost:{port}/health"
        assert shop.evaluate("[document.referrer, window.opener]") == ["", None]
        shop.close()
        page.bring_to_front()
        page.evaluate("window.dispatchEvent(new Event('focus'))")  # nobody sits before this one
        page.get_by_role("button", name="Show my gift card").click()
        expect(page.locator(".secret code").first).to_have_text(code_of(container, piece))
        fits(page, width)
        page.get_by_role("button", name="Copy").first.click()
        expect(page.get_by_text("Copied.")).to_be_visible()
        assert page.evaluate("navigator.clipboard.readText()") == code_of(container, piece)
    assert left
    for each in left:
        assert claim not in each.url + str(each.headers)


@pytest.mark.long
def test_without_a_script_a_button_leads_on_and_a_report_locks_the_card(
    container: Container, app: FastAPI, piece: int
) -> None:
    claim = read_claim(container, piece)
    with real_server(app) as port, new_page() as other:
        put_landing_page(container, piece, f"http://localhost:{port}/health")
        browser = other.context.browser
        assert browser is not None
        agent = str(other.evaluate("navigator.userAgent"))
        page = browser.new_context(java_script_enabled=False, user_agent=agent).new_page()
        page.goto(f"http://127.0.0.1:{port}/gift/{claim}")
        with page.context.expect_page():
            page.get_by_role("link", name="Visit localhost").click()
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_role("button", name="Show my gift card")).to_be_visible()
        page.get_by_role("link", name="Is something wrong with this card?").click()
        page.get_by_label("It was lost or stolen").check()
        page.get_by_role("button", name="Report it").click()
        expect(page.get_by_role("heading", name="This gift card is locked.")).to_be_visible()
        expect(page.get_by_role("button")).to_have_count(0)
