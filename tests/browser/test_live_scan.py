"""Somebody looks at two pages, and a phone scans a card meanwhile: both pages tell it by themselves."""

from playwright.sync_api import Locator, Page, expect

from quillpost.app.container import Container
from support.dashboard_visitor import open_dashboard
from support.factories import Account, Clock, people, run_jobs_for
from support.open_page import watch_page
from support.page_checks import picture
from support.page_figures import read_figure
from support.qr_scans import PAGE, PHONE, codes_of, count_scans


def test_a_scan_is_seen_on_every_open_page(container: Container, owner: Account, clock: Clock) -> None:
    order_id = arrived(container, owner, clock)
    code, *_ = codes_of(container, order_id)
    with open_dashboard(container, owner) as (home, here):
        order = opens_another_tab(home, order_id)
        expect(read_figure(home, "Scans")).to_contain_text("0")
        expect(read_figure(order, "Scans")).to_have_text("0")
        expect(latest(home)).not_to_contain_text("scan")
        with watch_page(home, order):
            a_phone_scans(home, f"{here}/q/{code}")
            assert count_scans(container) == 1
            expect(read_figure(order, "Scans")).to_have_text("1")
            expect(read_figure(home, "Scans")).to_contain_text("1")
            expect(read_figure(home, "Scan rate")).to_contain_text("50.0%")
            expect(latest(home)).to_contain_text("2 pieces, 1 scan,")
            reads_the_chart(home)
            clock.advance(seconds=1)
            a_phone_scans(home, f"{here}/q/{code}")
            assert count_scans(container) == 1
            expect(home.locator(".chart-told")).to_contain_text("Scans 2")  # on the day that is being read
            expect(read_figure(order, "Scans")).to_contain_text("1 scanned more than once")
            expect(latest(home)).to_contain_text("2 pieces, 2 scans,")
        picture(home, "live-scan-home")
        picture(order, "live-scan-order")


def arrived(container: Container, owner: Account, clock: Clock) -> int:
    """An order of two, at their doors."""
    sent = owner.send(recipients=people(2), qrcode_url=PAGE)
    assert sent.status_code == 200, sent.text
    run_jobs_for(container, clock, seconds=40)
    [found] = owner.get("/orders").json()["data"]
    assert found["status"] == "Fulfilled"
    return int(found["id"])


def opens_another_tab(page: Page, order_id: int) -> Page:
    with page.context.expect_page() as opened:
        latest(page).get_by_role("link", name=f"Order {order_id}").click(modifiers=["ControlOrMeta"])
    expect(opened.value.get_by_role("heading", level=1)).to_contain_text(f"Order {order_id}")
    return opened.value


def a_phone_scans(beside: Page, address: str) -> None:
    """Somebody else's, which knows nobody here; it is led on to the sender's page."""
    assert beside.context.browser is not None
    phone = beside.context.browser.new_context(user_agent=PHONE)
    led = phone.request.get(address, max_redirects=0)
    assert (led.status, led.headers["location"]) == (302, PAGE)
    phone.close()


def reads_the_chart(page: Page) -> None:
    page.get_by_role("group", name="Sent, delivered and scans").focus()
    page.keyboard.press("End")
    expect(page.locator(".chart-told")).to_contain_text("Scans 1")


def latest(page: Page) -> Locator:
    return page.get_by_role("region", name="Latest orders").get_by_role("listitem").first
