"""From the code that somebody types to the gift card."""

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
from support.rows import execute

WIDTH = 390


def fits(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTH
    expect(page.locator("h1")).to_have_count(1)
    unnamed = "fields => fields.filter(each => each.labels.length === 0).map(each => each.name)"
    assert page.locator("input:not([type=hidden])").evaluate_all(unnamed) == []


def test_from_the_typed_code_by_way_of_the_senders_page_to_the_card(container: Container, owner: Account) -> None:
    [item_id] = issue_order_cards(container, send_giftcards(owner))
    row, claim = card_row(container, item_id), read_claim(container, item_id)
    card = issuance.decrypt_card(container.encryptor, issuance.card_context(item_id), bytes(row.card_sealed))
    left: list[Request] = []
    with real_server(create_app(container)) as port, new_page(width=WIDTH) as page:
        # Another name of this machine is another site to the browser.
        landing_page = f"http://localhost:{port}/health"
        execute(container, sa.update(orders).where(orders.c.id == row.order_id).values(landing_page_url=landing_page))
        page.context.on("request", lambda each: left.append(each) if "localhost" in each.url else None)
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.goto(f"http://127.0.0.1:{port}/gift")
        fits(page)
        page.get_by_label("The code on the card").fill(format_claim(claim).lower())
        page.keyboard.press("Enter")
        expect(page.get_by_text("First, visit localhost.")).to_be_visible()
        expect(page.get_by_role("button", name="Show my gift card")).to_have_count(0)
        fits(page)
        with page.context.expect_page() as opened:
            page.get_by_role("link", name="Visit localhost").click()
        shop = opened.value
        shop.wait_for_load_state()
        assert shop.url == landing_page
        assert shop.evaluate("[document.referrer, window.opener]") == ["", None]
        shop.close()
        page.bring_to_front()
        page.evaluate("window.dispatchEvent(new Event('focus'))")  # nobody sits before this one
        page.get_by_role("button", name="Show my gift card").click()
        expect(page.locator(".secret code").first).to_have_text(str(card.code))
        fits(page)
        page.get_by_role("button", name="Copy").first.click()
        expect(page.get_by_text("Copied.")).to_be_visible()
        assert page.evaluate("navigator.clipboard.readText()") == card.code
    assert left
    for each in left:
        assert claim not in each.url + str(each.headers)
