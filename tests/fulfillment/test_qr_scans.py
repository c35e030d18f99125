"""Scans of codes: by whom, the codes themselves, and what scans add up to on items, orders and lists."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.base import fact_queue, facts, items, mailing_lists, recipients, sub_accounts
from quillpost.fulfillment.qr_scans import rules
from quillpost.fulfillment.qr_scans import tasks as scan_tasks
from quillpost.fulfillment.qr_scans.rules import VisitorKind
from quillpost.orders.items.queries import HistoryStep, list_item_steps, read_item
from quillpost.orders.models import Order
from quillpost.orders.queries import change_status
from quillpost.orders.rules import OrderStatus
from quillpost.orders.service import NewItem, insert_items
from quillpost.recipients.lists import service as list_service
from quillpost.recipients.lists.queries import read_list
from quillpost.recipients.rules import validate_recipients
from quillpost.recipients.webhooks.service import find_key_owner
from support import qr_scans
from support.factories import Clock, people
from support.mailing_lists import make_list
from support.orders import create_order, fact_rows, item_ids, item_rows, open_account, order_row
from support.qr_scans import codes_of, count_scans, order_with_codes, record_scans, scanner_lists, visit_rows
from support.rows import execute, run, scalar, scalars
from support.tenant_rows import insert_least

pytestmark = pytest.mark.usefixtures("clean_database")

IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
CHROME = "Chrome/126.0.0.0 Mobile Safari/537.36"


def on(device: str, browser: str = CHROME) -> str:
    return f"Mozilla/5.0 ({device}) AppleWebKit/537.36 (KHTML, like Gecko) {browser}"


PHONE = on("Linux; Android 10; K")
PERSONS = {
    "iPhone, camera and Safari": f"{IPHONE}Version/17.5 Mobile/15E148 Safari/604.1",
    "Android, Chrome": PHONE,
    "Samsung Internet": on("Linux; Android 14; SAMSUNG SM-S918B", f"SamsungBrowser/25.0 {CHROME}"),
    "Google app on an iPhone": f"{IPHONE}GSA/310.0.620 Mobile/15E148 Safari/604.1",
    "Chrome on an iPhone": f"{IPHONE}CriOS/126.0.6478.54 Mobile/15E148 Safari/604.1",
    "Firefox on Android": "Mozilla/5.0 (Android 14; Mobile; rv:127.0) Gecko/127.0 Firefox/127.0",
    "Huawei": on(
        "Linux; Android 10; HarmonyOS; ELS-NX9; HMSCore 6.13.0.322",
        "Chrome/114.0.5735.196 HuaweiBrowser/14.0.5.303 Mobile Safari/537.36",
    ),
    "a phone made by CUBOT": on("Linux; Android 9; CUBOT_X19"),
    "Facebook's own browser": (
        f"{IPHONE}Mobile/15E148 [FBAN/FBIOS;FBAV/468.1.0.42.71;FBBV/609;FBDV/iPhone14,5;FBMD/iPhone;FBSN/iOS]"
    ),
    "Instagram's own browser": on(
        "Linux; Android 13; SM-A536B Build/TP1A; wv",
        "Version/4.0 Chrome/125.0 Mobile Safari/537.36 Instagram 335.0.0.39.93 Android",
    ),
    "Snapchat's own browser": f"{IPHONE}Version/17.5 Mobile/15E148 Snapchat/12.90.0.46 (like Safari/8618.2)",
    "WeChat's scanner": f"{IPHONE}Mobile/15E148 MicroMessenger/8.0.49(0x1800312b) NetType/WIFI Language/en",
    "Opera Mini": "Opera/9.80 (Android; Opera Mini/36.2/191.249; U; en) Presto/2.12.423 Version/12.16",
    "a desk, from an address that was typed": on(
        "Windows NT 10.0; Win64; x64", "Chrome/126.0.0.0 Safari/537.36 Edg/126.0.0.0"
    ),
}
PREVIEWS = {
    "WhatsApp": "WhatsApp/2.23.20.0 A",
    "iMessage": (
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_11_1) AppleWebKit/601.2.4 (KHTML, like Gecko) "
        "Version/9.0.1 Safari/601.2.4 facebookexternalhit/1.1 Facebot Twitterbot/1.0"
    ),
    "Facebook": "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
    "Telegram": "TelegramBot (like TwitterBot)",
    "Slack": "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
    "Discord": "Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)",
    "Teams and Skype": (
        "Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5 skype-url-preview@microsoft.com"
    ),
    "LinkedIn": "LinkedInBot/1.0 (compatible; Mozilla/5.0; Apache-HttpClient +http://www.linkedin.com)",
    "Kakao": "facebookexternalhit/1.1; kakaotalk-scrap/1.0; +https://devtalk.kakao.com/t/scrap/33984",
    "Snapchat": on("Windows NT 6.1; WOW64", "Chrome/77 Safari/537.36 Snap URL Preview Service; bot; snapchat"),
    "Bing": "Mozilla/5.0 (Windows NT 6.1; WOW64) AppleWebKit/534+ (KHTML, like Gecko) BingPreview/1.0b",
}
BOTS = {
    "nobody": "",
    "spaces": "   ",
    "Google": "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "Google as a phone": on("Linux; Android 6.0.1; Nexus 5X Build/MMB29P", f"{CHROME} (compatible; GoogleOther)"),
    "Apple": (
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_5) AppleWebKit/605.1.15 (KHTML, like Gecko) "
        "Version/13.1.1 Safari/605.1.15 (Applebot/0.1; +http://www.apple.com/go/applebot)"
    ),
    "Bytedance": on(
        "Linux; Android 5.0", "Mobile Safari/537.36 (compatible; Bytespider; spider-feedback@bytedance.com)"
    ),
    "headless": on("X11; Linux x86_64", "HeadlessChrome/126.0 Safari/537.36"),
    "curl": "curl/8.5.0",
    "Python": "python-requests/2.32.3",
    "httpx": "python-httpx/0.27.0",
    "Go": "Go-http-client/2.0",
    "Java": "Java/17.0.2",
    "Android's library": "Dalvik/2.1.0 (Linux; U; Android 13; Pixel 7 Build/TQ3A.230805.001)",
    "OkHttp": "okhttp/4.12.0",
    "Apple's library": "QRScanner/3 CFNetwork/1494.0.7 Darwin/23.4.0",
    "PowerShell": "Mozilla/5.0 (Windows NT; Windows NT 10.0; en-US) WindowsPowerShell/5.1.19041",
    "a watchman": "Mozilla/5.0 (compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)",
}


def test_whoever_holds_a_phone_is_a_person_unlike_previews_and_bots(subtests: pytest.Subtests) -> None:
    kinds: dict[str, dict[str, str]] = {"person": PERSONS, "preview": PREVIEWS, "bot": BOTS}
    for kind, agents in kinds.items():
        for name, agent in agents.items():
            with subtests.test(name):
                assert rules.classify_visitor(agent, {}) == kind


def test_a_browser_that_only_prepares_or_loads_a_part_of_a_page_is_a_preview() -> None:
    prefetches = (
        *({"purpose": "prefetch"}, {"purpose": "PREFETCH"}, {"sec-purpose": "prefetch"}, {"x-moz": "prefetch"}),
        *({"sec-purpose": "prefetch;prerender"}, {"x-purpose": "preview"}),
    )
    parts = (("no-cors", "image"), ("cors", "empty"), ("navigate", "iframe"))
    for hints in (*prefetches, *({"sec-fetch-mode": mode, "sec-fetch-dest": what} for mode, what in parts)):
        assert rules.classify_visitor(PHONE, hints) == "preview", hints
        assert rules.classify_visitor("curl/8.5.0", hints) == "bot", hints
    opened: list[dict[str, str]] = [
        {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}, {"purpose": ""}, {},
    ]  # fmt: skip
    for hints in opened:
        assert rules.classify_visitor(PHONE, hints) == "person", hints


def test_signs_names_of_agents_and_codes_have_their_form() -> None:
    signs = [sign for sign, _ in rules.AGENT_SIGNATURES]
    assert signs == [sign.lower() for sign in signs]
    assert len(signs) == len(set(signs)) > 50
    assert {kind for _, kind in rules.AGENT_SIGNATURES} == {"preview", "bot"}
    assert rules.printable_agent("A" * 1_000) == "A" * rules.MAX_AGENT_LENGTH
    assert rules.printable_agent("Mozilla\x00\x07/5.0\xad") == "Mozilla/5.0"
    codes = {"AbCdEf12": True, "x": False, "AbCdE-12": False, "é" * 8: False}
    assert {code: bool(rules.CODE_PATTERN.fullmatch(code)) for code in codes} == codes


@pytest.mark.parametrize("pieces", [2, 60])
def test_two_pieces_that_draw_the_same_code_draw_again(container: Container, caller: Caller, pieces: int) -> None:
    taken = codes_of(container, order_with_codes(container, caller).id)[0]
    order, everyone = create_order(container, caller, []), validate_recipients(people(pieces))
    drawn = [NewItem(one, 0, f"Fresh{number:03}") for number, one in enumerate(everyone)]
    drawn[1] = drawn[1]._replace(code=taken)
    run(container, insert_items, order, [*drawn, NewItem(everyone[0], 0)], now=container.clock())
    *found, without = item_rows(container, order)
    codes = [item.code for item in found]
    assert without.code is None
    assert len({*codes, taken}) == pieces + 1
    assert all(rules.CODE_PATTERN.fullmatch(code) for code in codes)


def list_row(container: Container, list_id: int) -> tuple[Any, ...]:
    """How often its people have scanned, how many of them, and when the last did."""
    counts = (mailing_lists.c[name] for name in ("total_scans", "unique_scans", "last_scan"))
    return tuple(execute(container, sa.select(*counts).where(mailing_lists.c.id == list_id))[0])


def order_counts(container: Container, order: Order) -> tuple[list[int], int, int]:
    """Scans of each item, of all, and how many items were scanned more than once."""
    row = order_row(container, order)
    return [item.scans for item in item_rows(container, order)], row.total_scans, row.multi_scans


def scan_facts(container: Container, order: Order) -> list[sa.Row[Any]]:
    return [fact for fact in fact_rows(container, order) if fact.kind == "item.scan"]


def count_of(container: Container, *item_ids: int) -> None:
    """They are scanned and counted."""
    record_scans(container, *item_ids)
    assert count_scans(container) == len(item_ids)


def test_every_count_follows_from_the_scans(container: Container, caller: Caller, clock: Clock) -> None:
    list_id = make_list(container, caller, people(3))
    order = order_with_codes(container, caller, 3, list_id=list_id)
    a, b, c = item_ids(container, order)
    first = container.clock()
    record_scans(container, a)
    clock.advance(minutes=1)
    record_scans(container, b, a, a)
    last = container.clock()
    clock.advance(seconds=3)
    assert (count_scans(container), count_scans(container), qr_scans.inbox_rows(container)) == (4, 0, [])
    assert order_counts(container, order) == ([3, 1, 0], 4, 1)
    assert list_row(container, list_id) == (4, 2, last)
    assert [(v.item_id, v.at, v.kind) for v in visit_rows(container)] == [
        (a, first, "person"), (b, last, "person"), (a, last, "person"), (a, last, "person"),
    ]  # fmt: skip
    count_of(container, b, c)
    assert order_counts(container, order) == ([3, 2, 1], 6, 2)
    assert list_row(container, list_id)[:2] == (6, 3)


def test_each_scan_is_a_fact_that_says_how_many_there_were(container: Container, caller: Caller, clock: Clock) -> None:
    order = order_with_codes(container, caller, 2)
    a, b = item_ids(container, order)
    record_scans(container, a, b, a)
    scanned_at = container.clock()
    clock.advance(hours=1)
    count_scans(container)
    count_of(container, a)
    events = scan_facts(container, order)
    assert [(f.item_id, f.scans, f.previous, f.current, f.order_status) for f in events] == [
        (item, scans, None, "Processing", "reviewing") for item, scans in ((a, 1), (b, 1), (a, 2), (a, 3))
    ]
    assert [fact.at for fact in events] == [scanned_at] * 3 + [scanned_at + timedelta(hours=1)]
    assert {fact.id for fact in events} <= set(scalars(container, sa.select(fact_queue.c.fact_id)))
    assert len({fact.event_id for fact in events}) == 4


@pytest.mark.parametrize("kind", ["bot", "preview"])
def test_a_scan_by_a_machine_changes_nothing(container: Container, caller: Caller, kind: VisitorKind) -> None:
    list_id = make_list(container, caller, people(1))
    order = order_with_codes(container, caller, list_id=list_id)
    [piece] = item_ids(container, order)
    known = (order_row, item_rows, fact_rows)
    before = [look(container, order) for look in known]
    record_scans(container, piece, piece, kind=kind)
    assert (count_scans(container), [look(container, order) for look in known]) == (2, before)
    assert (list_row(container, list_id), scanner_lists(container)) == ((0, 0, None), [])
    assert [visit.kind for visit in visit_rows(container)] == [kind] * 2
    # Nor do they move the numbers of those that count.
    record_scans(container, piece)
    record_scans(container, piece, kind=kind)
    record_scans(container, piece)
    assert (count_scans(container), [fact.scans for fact in scan_facts(container, order)]) == (3, [1, 2])


def test_a_crashed_count_is_repeated(container: Container, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    order = order_with_codes(container, caller)
    record_scans(container, *item_ids(container, order))

    def die(*_given: object, **_more: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("quillpost.fulfillment.qr_scans.queries.insert_scan_news", die)
        with pytest.raises(KeyboardInterrupt):
            count_scans(container)
    assert (len(qr_scans.inbox_rows(container)), visit_rows(container), scanner_lists(container)) == (1, [], [])
    assert (count_scans(container), order_row(container, order).total_scans) == (1, 1)


def test_of_two_that_count_one_does_and_much_is_counted_in_parts(container: Container, caller: Caller) -> None:
    record_scans(container, *item_ids(container, order_with_codes(container, caller)))
    with container.db.system_transaction() as tx:
        assert scan_tasks.count_scans(tx, container.encryptor, container.clock, limit=10) == 1
        assert count_scans(container) == 0
    assert len(visit_rows(container)) == 1
    order = order_with_codes(container, caller, 3)
    record_scans(container, *item_ids(container, order) * 3)
    assert [count_scans(container, most=4) for _ in range(4)] == [4, 4, 1, 0]
    assert order_counts(container, order) == ([3, 3, 3], 9, 3)


def test_scans_of_what_is_gone_are_dropped(container: Container, caller: Caller) -> None:
    gone, here = order_with_codes(container, caller), order_with_codes(container, caller, list_id=4_711)
    record_scans(container, *item_ids(container, gone), *item_ids(container, here), 4_711)
    execute(container, "delete from orders where id = :id", id=gone.id)
    assert (count_scans(container), qr_scans.inbox_rows(container)) == (3, [])
    assert [visit.order_id for visit in visit_rows(container)] == [here.id]
    assert order_row(container, here).total_scans == 1, "though its list is gone"


def test_orders_are_taken_by_their_ids_and_merges_wait_in_no_circle(container: Container, caller: Caller) -> None:
    lower, higher = order_with_codes(container, caller), order_with_codes(container, caller)
    record_scans(container, *item_ids(container, higher), *item_ids(container, lower))
    hold = sa.text("select id from orders where id = :id for no key update nowait")
    with qr_scans.count_during_transaction(container) as (tx, begin):
        tx.execute(hold, {"id": lower.id})
        begin()
        tx.execute(hold, {"id": higher.id})
    assert len(visit_rows(container)) == 2
    # Lists before orders: the merge has the list and goes on to the order while the count waits.
    list_id = make_list(container, caller, people(1))
    order = order_with_codes(container, caller, list_id=list_id)
    record_scans(container, *item_ids(container, order))
    with qr_scans.count_during_transaction(container) as (tx, begin):
        tx.execute(sa.select(mailing_lists.c.id).where(mailing_lists.c.id == list_id).with_for_update())
        begin()
        tx.execute(sa.text("select id from orders where id = :id for no key update nowait"), {"id": order.id})
    assert list_row(container, list_id)[:2] == (1, 1)


def test_a_scan_hides_neither_where_a_piece_was_nor_that_it_ended(container: Container, caller: Caller) -> None:
    order, now = order_with_codes(container, caller), container.clock()
    [piece] = item_ids(container, order)

    def steps() -> list[HistoryStep]:
        with container.db.system_transaction() as tx:
            return list(list_item_steps(tx, read_item(tx, piece)))

    before = steps()
    count_of(container, piece)
    assert steps() == before
    with container.db.system_transaction() as tx:
        change_status(tx, [order.id], expected=[OrderStatus.REVIEWING], new_status=OrderStatus.CANCELLED, now=now)
    execute(container, sa.update(items).where(items.c.id == piece).values(status="Failed", failure="Order cancelled"))
    cancelled = {"mode": "test", "kind": "order.status", "order_status": "cancelled", "previous": "reviewing"}
    whose = {"account_id": caller.account_id, "order_id": order.id, "current": "cancelled", "at": now}
    execute(container, sa.insert(facts).values(**cancelled, **whose))
    before = steps()
    assert [step.status for step in before] == ["Processing", "Failed"]
    count_of(container, piece)
    assert steps() == before


def test_whoever_scanned_is_on_the_list_that_we_keep_once(container: Container, caller: Caller, clock: Clock) -> None:
    everyone = [people(1)[0] | {"email": "one@example.com", "custom1": "blue"}, *people(3)[1:]]
    order = create_order(container, caller, everyone, qrcode_url="https://shop.example.com/")
    again = order_with_codes(container, caller, 1)
    a, b, _ = item_ids(container, order)
    count_of(container, a, b, a, *item_ids(container, again))
    assert [tuple(row) for row in scanner_lists(container)] == [(caller.account_id, None, "test", "qrscans", 2)]
    found = execute(container, sa.select(recipients).order_by(recipients.c.id))
    assert [(p.name, p.email, p.custom1) for p in found] == [
        ("Person 1", "one@example.com", "blue"), ("Person 2", None, None)
    ]  # fmt: skip

    # Whoever is taken off comes back with the next scan, and not before.
    execute(container, sa.delete(recipients).where(recipients.c.name == "Person 1"))
    count_of(container, b)
    assert scanner_lists(container)[0].total_recipients == 1
    clock.advance(days=1)
    count_of(container, a)
    assert scanner_lists(container)[0].total_recipients == 2
    back = sa.select(recipients.c.created_at).where(recipients.c.name == "Person 1")
    assert scalar(container, back) == container.clock()


def test_each_home_and_mode_has_its_own_list(container: Container, caller: Caller) -> None:
    live = Caller(caller.account_id, "live")
    other = open_account(container, "other@example.com")
    with container.db.system_transaction() as tx:
        known: dict[str, object] = {"account_id": caller.account_id}
        branch, closed = (insert_least(tx, sub_accounts, known) for _ in range(2))
    for sender, home in ((caller, None), (live, None), (other, None), (caller, branch), (caller, closed)):
        order = order_with_codes(container, sender, sub_account_id=home)
        if home == closed:
            execute(container, "update sub_accounts set deleted_at = created_at where id = :id", id=closed)
        count_of(container, *item_ids(container, order))
    assert {tuple(row)[:3] for row in scanner_lists(container)} == {
        (caller.account_id, None, "test"), (caller.account_id, None, "live"),
        (other.account_id, None, "test"), (caller.account_id, branch, "test"),
    }  # fmt: skip
    assert {row.total_recipients for row in scanner_lists(container)} == {1}


def test_every_list_that_we_keep_has_a_key_that_opens_it_alone(container: Container, caller: Caller) -> None:
    for sender in (caller, Caller(caller.account_id, "live"), open_account(container, "other@example.com")):
        count_of(container, *item_ids(container, order_with_codes(container, sender)))
    ids = scalars(container, sa.select(mailing_lists.c.id))
    assert len(ids) == 3

    def keys() -> dict[int, str]:
        with container.db.system_transaction() as tx:
            return {key: list_service.decrypt_list_key(container.encryptor, read_list(tx, key)) for key in ids}

    before = keys()
    count_of(container, *item_ids(container, order_with_codes(container, caller)))
    assert keys() == before, "a later count leaves them as they are"
    for list_id, key in before.items():
        holder = find_key_owner(container.db, key)
        assert holder is not None
        assert holder.list_id == list_id


def test_a_list_that_is_deleted_at_this_moment_is_made_again(container: Container, caller: Caller) -> None:
    order = order_with_codes(container, caller)
    count_of(container, *item_ids(container, order))
    record_scans(container, *item_ids(container, order))
    with qr_scans.count_during_transaction(container) as (tx, begin):
        tx.execute(sa.delete(mailing_lists).where(mailing_lists.c.kept_for == "test"))
        begin()
    assert [row.total_recipients for row in scanner_lists(container)] == [1]
