"""A recipient's way to their gift card in a real browser: on a phone, with a script and without."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import sqlalchemy as sa
from playwright.sync_api import Page, Request, expect

from quillpost.app.container import Container
from quillpost.core.database.tables.base import orders
from quillpost.orders.giftcards import issuance
from quillpost.orders.giftcards.rules import format_claim
from quillpost.web.application import create_app
from support.chromium import new_page
from support.factories import Account
from support.giftcard_orders import card_row, issue_order_cards, read_claim, send_giftcards
from support.raw_http import real_server

pytestmark = pytest.mark.costly
WIDTH = 390


@dataclass(frozen=True)
class Piece:
    """Whoever holds it has to look at a page of the sender's first."""

    claim: str
    code: str
    address: str
    landing_page: str


@pytest.fixture
def piece(container: Container, owner: Account) -> Iterator[Piece]:
    [item_id] = issue_order_cards(container, send_giftcards(owner))
    row = card_row(container, item_id)
    card = issuance.decrypt_card(container.encryptor, issuance.card_context(item_id), bytes(row.card_sealed))
    with real_server(create_app(container)) as port:
        # Another name of this machine is another site to the browser.
        landing_page = f"http://localhost:{port}/health"
        with container.db.system_transaction() as tx:
            order = sa.update(orders).where(orders.c.id == row.order_id)
            tx.execute(order.values(landing_page_url=landing_page))
        yield Piece(read_claim(container, item_id), str(card.code), f"http://127.0.0.1:{port}/gift", landing_page)


def fits(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTH
    expect(page.locator("h1")).to_have_count(1)
    unnamed = "fields => fields.filter(each => each.labels.length === 0).map(each => each.name)"
    assert page.locator("input:not([type=hidden])").evaluate_all(unnamed) == []


def test_from_the_typed_code_by_way_of_the_senders_page_to_the_card(piece: Piece) -> None:
    left: list[Request] = []
    with new_page(width=WIDTH) as page:
        page.context.on("request", lambda each: left.append(each) if "localhost" in each.url else None)
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.goto(piece.address)
        fits(page)
        page.get_by_label("The code on the card").fill(format_claim(piece.claim).lower())
        page.keyboard.press("Enter")
        expect(page.get_by_text("First, visit localhost.")).to_be_visible()
        expect(page.get_by_role("button", name="Show my gift card")).to_have_count(0)
        fits(page)
        with page.context.expect_page() as opened:
            page.get_by_role("link", name="Visit localhost").click()
        shop = opened.value
        shop.wait_for_load_state()
        assert shop.url == piece.landing_page
        assert shop.evaluate("[document.referrer, window.opener]") == ["", None]
        shop.close()
        page.bring_to_front()
        page.evaluate("window.dispatchEvent(new Event('focus'))")  # nobody sits before this one
        page.get_by_role("button", name="Show my gift card").click()
        expect(page.locator(".secret code").first).to_have_text(piece.code)
        fits(page)
        page.get_by_role("button", name="Copy").first.click()
        expect(page.get_by_text("Copied.")).to_be_visible()
        assert page.evaluate("navigator.clipboard.readText()") == piece.code
    assert left
    for each in left:
        assert piece.claim not in each.url + str(each.headers)


@pytest.mark.long
def test_without_a_script_a_button_leads_on_and_a_report_locks_the_card(piece: Piece) -> None:
    with new_page() as other:
        browser = other.context.browser
        assert browser is not None
        agent = str(other.evaluate("navigator.userAgent"))
        page = browser.new_context(java_script_enabled=False, user_agent=agent).new_page()
        page.goto(f"{piece.address}/{piece.claim}")
        with page.context.expect_page():
            page.get_by_role("link", name="Visit localhost").click()
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_role("button", name="Show my gift card")).to_be_visible()
        page.get_by_role("link", name="Is something wrong with this card?").click()
        page.get_by_label("It was lost or stolen").check()
        page.get_by_role("button", name="Report it").click()
        expect(page.get_by_role("heading", name="This gift card is locked.")).to_be_visible()
        expect(page.get_by_role("button")).to_have_count(0)
