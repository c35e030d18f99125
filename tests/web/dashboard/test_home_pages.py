"""The first page of whoever is signed in: what happened, what needs attention, and what to do first."""

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.audit.service import list_audit_entries
from quillpost.app.container import Container
from quillpost.core.database.tables.base import accounts, items, ledger_moves, mailing_lists, orders
from quillpost.core.database.tables.notifications import automations, webhooks
from quillpost.core.database.tables.orders import giftcards, hourly_counts
from quillpost.core.database.tables.recipients import imports
from quillpost.core.errors import Message
from quillpost.web.application import create_app
from quillpost.web.live_updates import read_versions
from quillpost.web.security import ZONE_COOKIE as ZONE
from support.account_pages import AccountPages
from support.browser_sessions import Browser
from support.factories import Build, Clock, make_live, make_teammate
from support.production import LIVE_SETTINGS
from support.test_client import TestClient

HOME: dict[str, Any] = {
    "return_address": "500 Congress Ave", "return_city": "Austin", "return_state": "TX",
    "return_postal_code": "78701",
}  # fmt: skip


@pytest.fixture
def house(container: Container, http: TestClient) -> AccountPages:
    return AccountPages(container, http)


def figures(page: str) -> list[str]:
    return [re.sub(r"<small>.*", "", each).strip() for each in re.findall(r"<dd>(.*?)</dd>", page)[:4]]


def needs(page: str) -> dict[str, str]:
    """What needs attention, and where each leads."""
    listed = page.partition('class="needs"')[2].partition("</section>")[0]
    found = re.findall(r"<strong>(.*?)</strong>.*?(?:href=\"(.*?)\"|</li>)", listed, re.DOTALL)
    return {unescape(title): href for title, href in found}


def steps(page: str) -> dict[str, bool]:
    """The first steps, and which are done."""
    found = re.findall(r'<li( class="done")?>\s*<h3>([^<]+)', page)
    return {title: bool(done) for done, title in found}


def count(
    container: Container, account_id: int, what: str, n: int, *, mode: str = "test", sub_account_id: int = 0
) -> None:
    row = {"account_id": account_id, "mode": mode, "sub_account_id": sub_account_id, "what": what, "n": n}
    with container.db.system_transaction() as tx:
        tx.execute(sa.insert(hourly_counts).values(**row, hour=container.clock() - timedelta(hours=1), shard=0))


def go_live(browser: Browser) -> None:
    assert browser.post("/session/switch", mode="live").status_code == 200


def test_it_shows_what_happened_to_those_whose_it_is(house: AccountPages, container: Container) -> None:
    teammate = make_teammate(container, house.account, house.branch)
    first = house.account.send(message="Hello <b>you</b>").json()["id"]
    second = teammate.send().json()["id"]
    other = house.others.send().json()["id"]
    for what, n in (("sent", 1200), ("delivered", 1000), ("scans", 125)):
        count(container, house.account.id, what, n)
    count(container, house.account.id, "sent", 3, sub_account_id=house.branch)
    count(container, house.account.id, "sent", 7, mode="live")
    count(container, house.others.id, "sent", 9)

    page = house.owner.get("/").text
    assert figures(page) == ["1,203", "1,000", "125", "12.5%"]
    assert f'href="/orders/{first}"' in page
    assert f'href="/orders/{second}"' in page
    assert f'href="/orders/{other}"' not in page
    assert "Hello &lt;b&gt;you" in page
    assert page.count('<tr><th scope="row">') == 30
    assert house.owner.get("/?days=7").text.count('<tr><th scope="row">') == 7
    assert house.owner.get("/?days=11").text.count('<tr><th scope="row">') == 30

    limited = house.limited.get("/").text
    assert figures(limited)[0] == "3"
    assert f'href="/orders/{second}"' in limited
    assert f'href="/orders/{first}"' not in limited
    assert figures(house.stranger.get("/").text)[0] == "9"
    go_live(house.owner)
    live = house.owner.get("/").text
    assert figures(live) == ["7", "0", "0", "–"]
    assert "Nothing was sent yet" in live


def test_its_days_are_the_readers(house: AccountPages, container: Container, clock: Clock) -> None:
    count(container, house.account.id, "sent", 4)  # at 11:00 in Greenwich
    clock.advance(hours=1)
    house.owner.client.cookies.set(ZONE, "Pacific/Auckland")
    assert 'datetime="2026-05-05">5 May' in house.owner.get("/").text
    house.owner.client.cookies.set(ZONE, "Asia/Nowhere")
    page = house.owner.get("/").text
    assert 'datetime="2026-05-04">4 May</time></th><td data-n="4">' in page
    assert 'datetime="2026-05-05"' not in page


def test_it_is_followed_in_its_own_account_alone(house: AccountPages, container: Container) -> None:
    path = f"/home/{house.account.id}/live?days=7"
    count(container, house.account.id, "scans", 17)
    response = house.owner.get(path)
    assert response.headers["Content-Type"].startswith("text/event-stream")
    named = re.findall(r"^event: (\w+)", response.text, re.MULTILINE)
    assert named == ["needs", "steps", "figures", "days", "recent"]
    assert "17" in response.text
    assert house.limited.get(path).status_code == 200
    assert "17" not in house.limited.get(path).text
    assert house.stranger.get(path).status_code == 404
    assert house.owner.get("/home/999999/live").status_code == 404
    assert f'sse-connect="{path}"' in house.owner.get("/?days=7").text


@pytest.fixture
def house_with_problems(house: AccountPages, container: Container) -> AccountPages:
    """An account with one of each."""
    now = container.clock()
    paused, failed = (house.account.send().json()["id"] for _ in range(2))
    mine: dict[str, Any] = {"account_id": house.account.id, "created_at": now, "updated_at": now}
    hook = {"url": "https://user:pass@hooks.example.com/key-1", "type": "order.status", "verb": "post"}
    with container.db.system_transaction() as tx:
        held = {"status": "paused", "hold_reasons": [Message("zip", "The address lacks its <ZIP> code.")]}
        tx.execute(sa.update(orders).where(orders.c.id == paused).values(**held))
        broken = {"status": "fulfilled", "n_failed": 1, "n_processing": 0}
        tx.execute(sa.update(orders).where(orders.c.id == failed).values(**broken))
        sealed = {"secret_sealed": b"x", "invoke_count": 0, "mode": "test"}
        for status in ("failing", "active"):
            tx.execute(sa.insert(webhooks).values(**mine | hook | sealed, status=status, last_error="It said 500."))
        made = tx.execute(
            sa.insert(mailing_lists)
            .values(
                **mine, type="mailing-list", description="Customers", is_suppression_list=False,
                processed=True, suppress_by="address", total_recipients=0, total_sends=0, total_scans=0,
                unique_scans=0,
            )
            .returning(mailing_lists.c.id)
        )  # fmt: skip
        load = {"mailing_list_id": made.scalar_one(), "file_bytes": 1, "layout": {}, "columns": {}}
        ended = {"finished_at": now, "rows_rejected": 2, "rows_imported": 5}
        tx.execute(sa.insert(imports).values(**mine | load | ended, status="done", file_name="people.csv"))
        tx.execute(sa.insert(imports).values(**mine | load | ended, status="failed", file_name="bad.csv"))
        item = tx.execute(sa.select(items.c.id).where(items.c.order_id == failed)).scalar_one()
        tx.execute(
            sa.insert(giftcards).values(
                item_id=item, account_id=house.account.id, mode="test", order_id=failed, brand="brindlewick",
                cents=100, status="issued", reference=sa.func.gen_random_uuid(), asked_at=now, issued_at=now,
                reported_at=now, report="The number is gone.", claim_digest=b"x", card_sealed=b"x",
            )
        )  # fmt: skip
        tx.execute(
            sa.insert(automations).values(
                **mine, mode="test", name="Birthdays", trigger="scan", days_offset=0, piece="postcard",
                send="{}", daily_limit=5, enabled=True, next_at=now, tries=1, failing_since=now, sent_count=0,
                last_error="send.message: It is too long.", last_error_at=now,
            )
        )  # fmt: skip
    return house


def test_what_begins_to_need_attention_is_heard_of(house_with_problems: AccountPages) -> None:
    """None of these leaves a fact; each is seen by whoever follows the page."""
    account, now = house_with_problems.account.id, house_with_problems.parts.clock()

    def heard() -> str:
        with house_with_problems.parts.db.system_transaction() as tx:
            return read_versions(tx, [("account", account)], now=now)["account", account]

    later = now + timedelta(minutes=1)
    known = [heard()]
    for table, news in (
        (webhooks, {"status": "disabled"}),
        (imports, {"finished_at": later}),
        (automations, {"enabled": False}),
        (giftcards, {"reported_at": later}),
        (accounts, {"return_city": "Austin"}),
    ):
        with house_with_problems.parts.db.system_transaction() as tx:
            tx.execute(sa.update(table).values(**news))
        known.append(heard())
    house_with_problems.account.post("/mailing-lists", {"description": "Customers"})
    known.append(heard())
    assert len(set(known)) == len(known)
    assert heard() == known[-1]
    with house_with_problems.parts.db.system_transaction() as tx:
        tx.execute(sa.update(webhooks).values(invoke_count=7))
    assert heard() == known[-1]  # a delivery that goes well is no news


def test_whatever_needs_attention_leads_to_where_it_is_mended(house_with_problems: AccountPages) -> None:
    page = house_with_problems.owner.get("/").text
    listed = needs(page)
    (paused,) = (href for title, href in listed.items() if title.endswith("is paused"))
    assert re.fullmatch(r"/orders/\d+", paused)
    assert "The address lacks its &lt;ZIP&gt; code." in page
    assert {re.sub(r"\d+", "1", title) for title in listed if " no mail" in title or "failed" in title} == {
        "1 recipient of order 1 got no mail", "The import of bad.csv failed",
    }  # fmt: skip
    kinds = ("/orders/", "/orders/", "/orders/", "/automations/", "/webhooks/", "/lists/imports/", "/lists/imports/")
    assert len(listed) == len(kinds)
    assert all(href.startswith(kind) for href, kind in zip(listed.values(), kinds, strict=True))
    assert "Deliveries to hooks.example.com fail" in listed
    assert "key-1" not in page
    assert "Automation “Birthdays” cannot send" in listed
    assert needs(house_with_problems.member.get("/").text) == listed
    assert needs(house_with_problems.limited.get("/").text) == {}
    assert needs(house_with_problems.stranger.get("/").text) == {}
    long_ago = house_with_problems.parts.clock() - timedelta(days=31)  # what is over is not told any more
    with house_with_problems.parts.db.system_transaction() as tx:
        for moment in (
            orders.c.created_at, giftcards.c.reported_at, automations.c.last_error_at, imports.c.finished_at,
        ):  # fmt: skip
            tx.execute(sa.update(moment.table).values({moment.name: long_ago}))
    assert [re.sub(r"\d+", "1", title) for title in needs(house_with_problems.owner.get("/").text)] == [
        "Order 1 is paused", "Deliveries to hooks.example.com fail",
    ]  # fmt: skip


def test_live_mail_needs_a_return_address_and_credit(build: Build) -> None:
    container = build(credit_control=True, **LIVE_SETTINGS)
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        house = AccountPages(container, http)
        assert needs(house.owner.get("/").text) == {}
        go_live(house.owner)
        assert needs(house.owner.get("/").text) == {"There is no return address": "/settings/account"}
        with container.db.system_transaction() as tx:
            tx.execute(sa.update(accounts).where(accounts.c.id == house.account.id).values(**HOME))
        assert needs(house.owner.get("/").text) == {}
        for kind, books, cents in (
            ("deposit", ("paid", "credit"), 10_000),
            ("authorise", ("credit", "held"), 9_000),
            ("capture", ("held", "earned"), 9_000),
        ):
            with container.db.system_transaction() as tx:
                tx.execute(
                    sa.insert(ledger_moves).values(
                        account_id=house.account.id, mode="live", kind=kind, source=books[0], target=books[1],
                        cents=cents, key=kind, at=container.clock(),
                    )
                )  # fmt: skip
        assert needs(house.owner.get("/").text) == {"Your credit is down to $10.00": "/money"}
        assert "less than a week" in house.owner.get("/").text
        house.owner.post("/session/switch", mode="test")
        assert needs(house.owner.get("/").text) == {}


def test_first_steps_know_what_is_done_and_go(house: AccountPages, container: Container) -> None:
    before = steps(house.owner.get("/").text)
    assert list(before.values()) == [False] * 7
    assert "/settings/account" not in house.member.get("/").text
    house.account.send()
    house.account.post("/mailing-lists", {"description": "Customers"})
    house.owner.post("/settings/account", name="Dana", **HOME)
    own_receiver = f"https://mail.example.com/receiver/{'0a' * 12}/hook"
    assert house.account.post("/webhooks", {"url": own_receiver, "type": "*"}).status_code == 201
    count(container, house.account.id, "delivered", 1)
    after = steps(house.owner.get("/").text)
    assert [title for title, done in after.items() if not done] == [
        "Protect your sign-in", "Tell your other software", "Send real mail",
    ]  # fmt: skip
    assert "4 of 7 done" in house.owner.get("/").text
    for only_tests in (True, False):
        with container.db.system_transaction() as tx:
            mine = sa.update(accounts).where(accounts.c.id == house.account.id)
            tx.execute(mine.values(test_mode=only_tests))
        assert ("Send real mail" in steps(house.owner.get("/").text)) is not only_tests
    sent = make_live(container, house.account).send()
    assert sent.status_code == 200, sent.text
    assert steps(house.owner.get("/").text) == {}
    assert steps(house.stranger.get("/").text) == before


class TestAccount:
    def test_an_owner_fills_in_the_account_details(self, house: AccountPages, container: Container) -> None:
        whole: dict[str, Any] = {"return_address": "500 Congress Ave, Austin, TX 78701"}
        saved = house.owner.post("/settings/account", name="Whitfield & Co", company="", **whole)
        assert "Saved." in saved.text
        for field, value in {"name": "Whitfield &amp; Co", **HOME}.items():
            assert re.search(rf'name="{field}"[^>]* value="{value}"', saved.text), field
        assert house.account.get("/account").json()["name"] == "Whitfield & Co"
        assert house.account.send().json()["return_city"] == "Austin"
        with container.db.system_transaction() as tx:
            noted = list_audit_entries(tx, house.account.id)[0]
            assert (noted.act, noted.actor) == ("account.changed", "dana@example.com")
            assert noted.about == {"changed": ["the name", "the return address"]}
            how_many = len(list_audit_entries(tx, house.account.id))
        house.owner.post("/settings/account", name="Whitfield & Co", **HOME)
        with container.db.system_transaction() as tx:
            assert len(list_audit_entries(tx, house.account.id)) == how_many  # nothing was another

    def test_errors_are_shown_beside_their_fields_and_nothing_is_stored(self, house: AccountPages) -> None:
        before = house.everything()
        half = house.owner.post("/settings/account", name="", return_city="Austin", return_state="TX")
        assert half.status_code == 422
        assert re.search(r'id="return_address-fault" role="alert">Give the street', half.text)
        assert re.search(r'id="return_postal_code-fault" role="alert">Give the ZIP', half.text)
        assert 'name="return_city" type="text"' in half.text
        assert 'value="Austin"' in half.text
        nameless = house.owner.post("/settings/account", name=" ", **HOME)
        assert re.search(r'id="name-fault" role="alert">Give the account a name', nameless.text)
        assert house.everything() == before
        assert house.account.send().json()["return_city"] is None

    def test_it_is_an_owners_alone(self, house: AccountPages) -> None:
        house.refuses_others("GET /settings/account", "POST /settings/account")


class TestDocs:
    def test_an_owner_has_a_token_of_their_own_filled_in(
        self, house: AccountPages, container: Container, clock: Clock
    ) -> None:
        plain = house.owner.get("/docs").text
        examples = plain.count("Bearer $TOKEN")
        assert examples > 50
        assert "Fill in a test token" in plain
        once = re.findall(r'name="once" value="([^"]+)"', plain)[-1]
        filled = house.owner.post("/docs", once=once)
        assert filled.headers["Cache-Control"] == "no-store"
        (token,) = set(re.findall(r"Bearer (qp_test_\w+)", filled.text))
        assert filled.text.count(f"Bearer {token}") == examples
        assert "Bearer $TOKEN" not in filled.text
        assert house.ping(token) == 200
        assert house.owner.post("/docs", once=once).status_code == 409
        assert token not in house.owner.get("/docs").text
        assert house.http.get("/docs").text.count("Bearer $TOKEN") == examples
        with container.db.system_transaction() as tx:
            made = [entry.about for entry in list_audit_entries(tx, house.account.id) if entry.act == "token.created"]
        assert [(each["name"], each["mode"]) for each in made] == [("docs", "test")]
        clock.advance(hours=25)
        assert house.ping(token) == 401

    def test_nobody_else_does(self, house: AccountPages) -> None:
        teammates = house.member, house.limited
        before = house.everything()
        for browser in teammates:
            assert "Fill in a test token" not in browser.get("/docs").text
            assert browser.post("/docs").status_code == 403
        assert "Fill in a test token" not in house.nobody().get("/docs").text
        assert house.owner.post("/docs", csrf=None).status_code == 403
        assert house.everything() == before
