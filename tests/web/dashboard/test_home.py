"""The first page of whoever is signed in: what happened, what needs attention, and what to do first."""

import re
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import quillpost.web
from quillpost.core.database.tables.accounts import sessions
from quillpost.core.database.tables.base import accounts, items, ledger_moves, mailing_lists, orders
from quillpost.core.database.tables.notifications import automations, webhooks
from quillpost.core.database.tables.orders import giftcards, hourly_counts
from quillpost.core.database.tables.recipients import imports
from quillpost.core.errors import Message
from quillpost.web.application import create_app
from quillpost.web.live_updates import read_versions
from quillpost.web.security import ZONE_COOKIE
from support.factories import Build, Clock, make_live, make_teammate, run_jobs_for
from support.pages import ADDRESS, AccountPages, PrintRoomPages, assert_hides, assert_shows, page_text
from support.production import LIVE_SETTINGS, sweep_due_orders
from support.sign_in import Browser
from support.test_client import TestClient

TEMPLATES = Path(quillpost.web.__file__).parent / "templates"
SHOWN = re.compile(r"{{((?:[^}]|}(?!}))*)}}")
A_TIME = re.compile(r"\.(?:\w+_)?at\b(?!\.timestamp\(\))|%H")
NO_TIMES = ("environment.cutoff.strftime",)
"""The printer's clock, whose zone is written beside it."""


def test_no_template_writes_a_time_by_itself() -> None:
    """They are the reader's: in their zone, in a `time` element that says all of it."""
    written = [
        f"{file.relative_to(TEMPLATES)}: {shown.strip()}"
        for file in sorted(TEMPLATES.rglob("*.html"))
        for shown in SHOWN.findall(file.read_text())
        if A_TIME.search(shown) and "moment(zone" not in shown and not shown.strip().startswith(NO_TIMES)
    ]
    assert written == []


def figures(page: str) -> list[str]:
    return [re.sub(r"<small>.*", "", each).strip() for each in re.findall(r"<dd>(.*?)</dd>", page)[:4]]


def needs(browser: Browser) -> dict[str, str]:
    """What needs attention, and where each leads."""
    listed = browser.get("/").text.partition('class="needs"')[2].partition("</section>")[0]
    found = re.findall(r"<strong>(.*?)</strong>.*?(?:href=\"(.*?)\"|</li>)", listed, re.DOTALL)
    return {unescape(title): href for title, href in found}


def steps(browser: Browser) -> dict[str, bool]:
    """The first steps, and which are done."""
    found = re.findall(r'<li( class="done")?>\s*<h3>([^<]+)', browser.get("/").text)
    return {title: bool(done) for done, title in found}


def count(house: AccountPages, what: str, n: int, **changes: Any) -> None:
    row = {"account_id": house.account.id, "mode": "test", "sub_account_id": 0, "what": what, "n": n} | changes
    house.execute(sa.insert(hourly_counts).values(**row, hour=house.parts.clock() - timedelta(hours=1), shard=0))


def go_live(browser: Browser) -> None:
    assert browser.post("/session/switch", mode="live").status_code == 200


def test_it_shows_what_happened_to_those_whose_it_is(house: AccountPages) -> None:
    first = house.account.send(message="Hello <b>you</b>").json()["id"]
    second = make_teammate(house.parts, house.account, house.branch).send().json()["id"]
    other = house.others.send().json()["id"]
    for what, n in (("sent", 1200), ("delivered", 1000), ("scans", 125)):
        count(house, what, n)
    count(house, "sent", 3, sub_account_id=house.branch)
    count(house, "sent", 7, mode="live")
    count(house, "sent", 9, account_id=house.others.id)
    page = house.owner.get("/").text
    assert figures(page) == ["1,203", "1,000", "125", "12.5%"]
    assert_shows(page, f'href="/orders/{first}"', f'href="/orders/{second}"', "Hello &lt;b&gt;you")
    assert_hides(page, f'href="/orders/{other}"')
    for query, days in (("", 30), ("?days=7", 7), ("?days=11", 30)):
        assert house.owner.get(f"/{query}").text.count('<tr><th scope="row">') == days
    limited = house.limited.get("/").text
    assert figures(limited)[0] == "3"
    assert_shows(limited, f'href="/orders/{second}"', hides=[f'href="/orders/{first}"'])
    assert figures(house.stranger.get("/").text)[0] == "9"
    go_live(house.owner)
    live = house.owner.get("/").text
    assert figures(live) == ["7", "0", "0", "–"]
    assert_shows(live, "Nothing was sent yet")


def test_its_days_are_the_readers(house: AccountPages, clock: Clock) -> None:
    count(house, "sent", 4)  # at 11:00 in Greenwich
    clock.advance(hours=1)
    house.owner.client.cookies.set(ZONE_COOKIE, "Pacific/Auckland")
    assert_shows(house.owner.get("/"), 'datetime="2026-05-05">5 May')
    house.owner.client.cookies.set(ZONE_COOKIE, "Asia/Nowhere")
    page = house.owner.get("/")
    assert_shows(page, 'datetime="2026-05-04">4 May</time></th><td data-n="4">', hides=['datetime="2026-05-05"'])


def test_it_is_followed_in_its_own_account_alone(house: AccountPages) -> None:
    path = f"/home/{house.account.id}/live?days=7"
    count(house, "scans", 17)
    response = house.owner.get(path)
    assert response.headers["Content-Type"].startswith("text/event-stream")
    named = re.findall(r"^event: (\w+)", response.text, re.MULTILINE)
    assert (named, "17" in response.text) == (["needs", "steps", "figures", "days", "recent"], True)
    limited = house.limited.get(path)
    assert (limited.status_code, "17" in limited.text) == (200, False)
    assert house.stranger.get(path).status_code == house.owner.get("/home/999999/live").status_code == 404
    assert_shows(house.owner.get("/?days=7"), f'sse-connect="{path}"')


@pytest.fixture
def house_with_problems(house: AccountPages) -> AccountPages:
    """An account with one of each."""
    now = house.parts.clock()
    paused, failed = (house.account.send().json()["id"] for _ in range(2))
    mine: dict[str, Any] = {"account_id": house.account.id, "created_at": now, "updated_at": now}
    hook = {"url": "https://user:pass@hooks.example.com/key-1", "type": "order.status", "verb": "post", "mode": "test",
            "secret_sealed": b"x", "invoke_count": 0, "last_error": "It said 500."}  # fmt: skip
    held = {"status": "paused", "hold_reasons": [Message("zip", "The address lacks its <ZIP> code.")]}
    broken = {"status": "fulfilled", "n_failed": 1, "n_processing": 0}
    house.account.post("/mailing-lists", {"description": "Customers"})
    list_id = house.value(sa.select(mailing_lists.c.id).where(mailing_lists.c.account_id == house.account.id))
    load = {"mailing_list_id": list_id, "file_bytes": 1, "layout": {}, "columns": {}, "finished_at": now,
            "rows_rejected": 2, "rows_imported": 5}  # fmt: skip
    item = house.value(sa.select(items.c.id).where(items.c.order_id == failed))
    house.execute(
        sa.update(orders).where(orders.c.id == paused).values(**held),
        sa.update(orders).where(orders.c.id == failed).values(**broken),
        *(sa.insert(webhooks).values(**mine | hook, status=status) for status in ("failing", "active")),
        sa.insert(imports).values(**mine | load, status="done", file_name="people.csv"),
        sa.insert(imports).values(**mine | load, status="failed", file_name="bad.csv"),
        sa.insert(giftcards).values(
            item_id=item, account_id=house.account.id, mode="test", order_id=failed, brand="brindlewick",
            cents=100, status="issued", reference=sa.func.gen_random_uuid(), asked_at=now, issued_at=now,
            reported_at=now, report="The number is gone.", claim_digest=f"{item}".encode(), card_sealed=b"x",
        ),
        sa.insert(automations).values(
            **mine, mode="test", name="Birthdays", trigger="scan", days_offset=0, piece="postcard",
            send="{}", daily_limit=5, enabled=True, next_at=now, tries=1, failing_since=now, sent_count=0,
            last_error="send.message: It is too long.", last_error_at=now,
        ),
    )  # fmt: skip
    return house


def test_what_begins_to_need_attention_is_heard_of(house_with_problems: AccountPages) -> None:
    """None of these leaves a fact; each is seen by whoever follows the page."""
    house = house_with_problems
    account, now = house.account.id, house.parts.clock()

    def heard() -> str:
        with house.parts.db.system_transaction() as tx:
            return read_versions(tx, [("account", account)], now=now)["account", account]

    def change(table: sa.Table, **columns: Any) -> str:
        whose = table.c.id if table is accounts else table.c.account_id
        house.execute(sa.update(table).where(whose == account).values(**columns))
        return heard()

    later = now + timedelta(minutes=1)
    known = [
        heard(), change(webhooks, status="disabled"), change(imports, finished_at=later),
        change(automations, enabled=False), change(giftcards, reported_at=later), change(accounts, return_city="Waco"),
    ]  # fmt: skip
    house.account.post("/mailing-lists", {"description": "Customers"})
    known.append(heard())
    assert len(set(known)) == len(known)
    assert heard() == change(webhooks, invoke_count=7) == known[-1], "a delivery that goes well is no news"


def test_whatever_needs_attention_leads_to_where_it_is_mended(house_with_problems: AccountPages) -> None:
    house = house_with_problems
    listed = needs(house.owner)
    (paused,) = (href for title, href in listed.items() if title.endswith("is paused"))
    assert re.fullmatch(r"/orders/\d+", paused)
    assert_shows(house.owner.get("/"), "The address lacks its &lt;ZIP&gt; code.", hides=["key-1"])
    assert {re.sub(r"\d+", "1", title) for title in listed if " no mail" in title or "failed" in title} == {
        "1 recipient of order 1 got no mail", "The import of bad.csv failed",
    }  # fmt: skip
    kinds = ("/orders/", "/orders/", "/orders/", "/automations/", "/webhooks/", "/lists/imports/", "/lists/imports/")
    assert [href.startswith(kind) for href, kind in zip(listed.values(), kinds, strict=True)] == [True] * 7
    assert {"Deliveries to hooks.example.com fail", "Automation “Birthdays” cannot send"} < set(listed)
    assert (needs(house.member), needs(house.limited), needs(house.stranger)) == (listed, {}, {})
    long_ago = house.parts.clock() - timedelta(days=31)  # what is over is not told any more
    house.execute(
        *(
            sa.update(moment.table).values({moment.name: long_ago})
            for moment in (
                orders.c.created_at, giftcards.c.reported_at, automations.c.last_error_at, imports.c.finished_at,
            )
        )
    )  # fmt: skip
    assert [re.sub(r"\d+", "1", title) for title in needs(house.owner)] == [
        "Order 1 is paused", "Deliveries to hooks.example.com fail",
    ]  # fmt: skip


def test_live_mail_needs_a_return_address_and_credit(build: Build) -> None:
    container = build(credit_control=True, **LIVE_SETTINGS)
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        house = AccountPages(container, http)
        assert needs(house.owner) == {}
        go_live(house.owner)
        assert needs(house.owner) == {"There is no return address": "/settings/account"}
        house.execute(sa.update(accounts).where(accounts.c.id == house.account.id).values(**ADDRESS))
        assert needs(house.owner) == {}
        move = {"account_id": house.account.id, "mode": "live", "at": container.clock()}
        house.execute(
            *(
                sa.insert(ledger_moves).values(**move, kind=kind, source=source, target=target, cents=cents, key=kind)
                for kind, source, target, cents in (
                    ("deposit", "paid", "credit", 10_000), ("authorise", "credit", "held", 9_000),
                    ("capture", "held", "earned", 9_000),
                )
            )
        )  # fmt: skip
        assert needs(house.owner) == {"Your credit is down to $10.00": "/money"}
        assert_shows(house.owner.get("/"), "less than a week")
        house.owner.post("/session/switch", mode="test")
        assert needs(house.owner) == {}


def test_first_steps_know_what_is_done_and_go(house: AccountPages) -> None:
    before = steps(house.owner)
    assert list(before.values()) == [False] * 7
    assert_hides(house.member.get("/"), "/settings/account")
    house.account.send()
    house.account.post("/mailing-lists", {"description": "Customers"})
    house.owner.post("/settings/account", name="Dana", **ADDRESS)
    own_receiver = f"https://mail.example.com/receiver/{'0a' * 12}/hook"
    assert house.account.post("/webhooks", {"url": own_receiver, "type": "*"}).status_code == 201
    count(house, "delivered", 1)
    assert [title for title, done in steps(house.owner).items() if not done] == [
        "Protect your sign-in", "Tell your other software", "Send real mail",
    ]  # fmt: skip
    assert_shows(house.owner.get("/"), "4 of 7 done")
    for only_tests in (True, False):
        house.execute(sa.update(accounts).where(accounts.c.id == house.account.id).values(test_mode=only_tests))
        assert ("Send real mail" in steps(house.owner)) is not only_tests
    assert make_live(house.parts, house.account).send().status_code == 200
    assert (steps(house.owner), steps(house.stranger)) == ({}, before)


def test_an_owner_s_docs_have_a_token_of_their_own_filled_in(house: AccountPages, clock: Clock) -> None:
    plain = house.owner.get("/docs").text
    examples = plain.count("Bearer $TOKEN")
    assert examples > 50
    assert_shows(plain, "Fill in a test token")
    once = re.findall(r'name="once" value="([^"]+)"', plain)[-1]
    filled = house.owner.post("/docs", once=once)
    assert filled.headers["Cache-Control"] == "no-store"
    (token,) = set(re.findall(r"Bearer (qp_test_\w+)", filled.text))
    assert filled.text.count(f"Bearer {token}") == examples
    assert_hides(filled, "Bearer $TOKEN")
    assert house.ping(token) == 200
    assert house.owner.post("/docs", once=once).status_code == 409
    assert_hides(house.owner.get("/docs"), token)
    made = [entry.about for entry in house.log() if entry.act == "token.created"]
    assert [(each["name"], each["mode"]) for each in made] == [("docs", "test")]
    clock.advance(hours=25)
    assert house.ping(token) == 401
    for browser in (house.member, house.limited, house.nobody()):
        assert_hides(browser.get("/docs"), "Fill in a test token")


LOOK: dict[str, Any] = {
    "piece": "postcard-4x6", "message": "Hello there!", "style": "1", "manner": "natural", "audience": "people",
    "people": "Jane Doe, 12 Main St, Austin, TX 78701",
}  # fmt: skip
PAUSES = "Live mail isn't ready yet, so this order will be paused when its review ends."
NO_PARTNER = "No print partner is connected."


@pytest.mark.usefixtures("clean_database")
def test_pages_show_that_live_mail_is_not_ready_until_it_is(print_room: PrintRoomPages, clock: Clock) -> None:
    house = print_room
    house.execute(sa.update(sessions).values(mode="live"), sa.update(accounts).values(**ADDRESS))
    house.owner._csrf = house.ops._csrf = None
    shown = page_text(house.owner.get("/"))
    assert_shows(shown, "Live mail isn't ready yet You can send orders. They're paused after their review", NO_PARTNER)
    assert_hides(shown, "QUILLPOST_")
    assert_shows(page_text(house.ops.get("/")), "QUILLPOST_PRINT_PARTNER is not set")
    response = house.owner.post("/compose/send", **LOOK)
    assert_shows(page_text(response), "Send this for real?", f"{PAUSES} There is no public web address")
    assert_shows(page_text(house.owner.post("/compose/price", **LOOK)), PAUSES, NO_PARTNER)
    [agreed] = re.findall(r'name="agreed" value="([^"]+)"', response.text)
    sent = house.owner.post("/compose/send", **LOOK, agreed=agreed)
    assert sent.url.path.startswith("/orders/"), page_text(sent)
    assert_shows(page_text(sent), f"{PAUSES} There is no public web address")
    house.execute(sa.update(orders).values(due_at=clock.now()))
    sweep_due_orders(house.parts, clock)
    assert_shows(page_text(house.owner.get(sent.url.path)), "Paused", NO_PARTNER, hides=[PAUSES, "QUILLPOST_"])
    assert_hides(page_text(house.owner.get("/")), "QUILLPOST_")
    house.owner.post("/session/switch", mode="test")
    assert_hides(page_text(house.owner.get("/")), "Live mail isn't ready yet")
    order = house.account.send().json()["id"]
    assert_hides(house.owner.get(f"/orders/{order}"), "Live mail isn't ready")
    run_jobs_for(house.parts, clock, seconds=60)
    assert_shows(house.owner.get(f"/orders/{order}"), "Mailed")
