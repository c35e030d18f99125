"""Scans: by whom, how many from one network, and when they are counted."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa
import structlog

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database import Database
from quillpost.core.database.tables.base import items
from quillpost.core.errors import Unavailable
from quillpost.fulfillment.qr_scans import service as qr_scan_service
from quillpost.fulfillment.qr_scans import tasks as counting_tasks
from quillpost.fulfillment.qr_scans.queries import NewScan
from quillpost.fulfillment.qr_scans.rules import (
    AGENT_SIGNATURES,
    CODE_PATTERN,
    MAX_AGENT_LENGTH,
    VisitorKind,
    classify_visitor,
    printable_agent,
)
from quillpost.fulfillment.qr_scans.service import (
    MAX_PER_MINUTE,
    WINDOW_SECONDS,
    CodeLookup,
    ScanRateLimit,
    ScanRecorder,
    ScanTarget,
)
from quillpost.fulfillment.qr_scans.tasks import ScanCounter
from quillpost.orders.service import NewItem, insert_items
from quillpost.recipients.rules import validate_recipients
from support.factories import Build, people
from support.orders import create_order, item_ids, open_account, order_row
from support.qr_scans import (
    PAGE,
    ManualTimer,
    codes_of,
    ids_of,
    inbox_rows,
    order_with_codes,
    record_scans,
    rows,
    visit_rows,
)
from support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("clean_database")

PERSONS = {
    "iPhone, camera and Safari": (
        "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
        "Version/17.5 Mobile/15E148 Safari/604.1"
    ),
    "Android, Chrome": (
        "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 "
        "Mobile Safari/537.36"
    ),
    "Samsung Internet": (
        "Mozilla/5.0 (Linux; Android 14; SAMSUNG SM-S918B) AppleWebKit/537.36 (KHTML, like Gecko) "
        "SamsungBrowser/25.0 Chrome/121.0.0.0 Mobile Safari/537.36"
    ),
    "Google app on an iPhone": (
        "Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
        "GSA/310.0.620 Mobile/15E148 Safari/604.1"
    ),
    "Chrome on an iPhone": (
        "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
        "CriOS/126.0.6478.54 Mobile/15E148 Safari/604.1"
    ),
    "Firefox on Android": "Mozilla/5.0 (Android 14; Mobile; rv:127.0) Gecko/127.0 Firefox/127.0",
    "Huawei": (
        "Mozilla/5.0 (Linux; Android 10; HarmonyOS; ELS-NX9; HMSCore 6.13.0.322) AppleWebKit/537.36 "
        "(KHTML, like Gecko) Chrome/114.0.5735.196 HuaweiBrowser/14.0.5.303 Mobile Safari/537.36"
    ),
    "a phone made by CUBOT": (
        "Mozilla/5.0 (Linux; Android 9; CUBOT_X19) AppleWebKit/537.36 (KHTML, like Gecko) "
        "Chrome/120.0.0.0 Mobile Safari/537.36"
    ),
    "Facebook's own browser": (
        "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
        "Mobile/15E148 [FBAN/FBIOS;FBAV/468.1.0.42.71;FBBV/609;FBDV/iPhone14,5;FBMD/iPhone;FBSN/iOS]"
    ),
    "Instagram's own browser": (
        "Mozilla/5.0 (Linux; Android 13; SM-A536B Build/TP1A; wv) AppleWebKit/537.36 (KHTML, like Gecko) "
        "Version/4.0 Chrome/125.0 Mobile Safari/537.36 Instagram 335.0.0.39.93 Android"
    ),
    "Snapchat's own browser": (
        "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
        "Version/17.5 Mobile/15E148 Snapchat/12.90.0.46 (like Safari/8618.2)"
    ),
    "WeChat's scanner": (
        "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
        "Mobile/15E148 MicroMessenger/8.0.49(0x1800312b) NetType/WIFI Language/en"
    ),
    "Opera Mini": "Opera/9.80 (Android; Opera Mini/36.2/191.249; U; en) Presto/2.12.423 Version/12.16",
    "a desk, from an address that was typed": (
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
        "Chrome/126.0.0.0 Safari/537.36 Edg/126.0.0.0"
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
    "Snapchat": (
        "Mozilla/5.0 (Windows NT 6.1; WOW64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/77 "
        "Safari/537.36 Snap URL Preview Service; bot; snapchat"
    ),
    "Bing": "Mozilla/5.0 (Windows NT 6.1; WOW64) AppleWebKit/534+ (KHTML, like Gecko) BingPreview/1.0b",
}
BOTS = {
    "nobody": "",
    "spaces": "   ",
    "Google": "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "Google as a phone": (
        "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like "
        "Gecko) Chrome/126.0.0.0 Mobile Safari/537.36 (compatible; GoogleOther)"
    ),
    "Apple": (
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_5) AppleWebKit/605.1.15 (KHTML, like Gecko) "
        "Version/13.1.1 Safari/605.1.15 (Applebot/0.1; +http://www.apple.com/go/applebot)"
    ),
    "Bytedance": (
        "Mozilla/5.0 (Linux; Android 5.0) AppleWebKit/537.36 (KHTML, like Gecko) Mobile Safari/537.36 "
        "(compatible; Bytespider; spider-feedback@bytedance.com)"
    ),
    "headless": (
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/126.0 Safari/537.36"
    ),
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
PHONE = PERSONS["Android, Chrome"]


@pytest.mark.parametrize("agent", PERSONS.values(), ids=PERSONS)
def test_whoever_holds_a_phone_is_a_person(agent: str) -> None:
    assert classify_visitor(agent, {}) == "person"


@pytest.mark.parametrize("agent", PREVIEWS.values(), ids=PREVIEWS)
def test_what_shows_a_link_to_others_is_a_preview(agent: str) -> None:
    assert classify_visitor(agent, {}) == "preview"


@pytest.mark.parametrize("agent", BOTS.values(), ids=BOTS)
def test_a_program_is_a_bot(agent: str) -> None:
    assert classify_visitor(agent, {}) == "bot"


@pytest.mark.parametrize(
    "hints",
    [
        {"purpose": "prefetch"},
        {"sec-purpose": "prefetch"},
        {"sec-purpose": "prefetch;prerender"},
        {"x-purpose": "preview"},
        {"x-moz": "prefetch"},
        {"purpose": "PREFETCH"},
        {"sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"},
        {"sec-fetch-mode": "cors", "sec-fetch-dest": "empty"},
        {"sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
    ],
)
def test_a_browser_that_only_prepares_or_loads_a_part_of_a_page_is_a_preview(hints: dict[str, str]) -> None:
    assert classify_visitor(PHONE, hints) == "preview"
    assert classify_visitor("curl/8.5.0", hints) == "bot"


@pytest.mark.parametrize("hints", [{"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}, {"purpose": ""}, {}])
def test_a_visitor_that_opens_the_page_is_a_person(hints: dict[str, str]) -> None:
    assert classify_visitor(PHONE, hints) == "person"


def test_the_signs_are_in_small_letters_and_each_is_there_once() -> None:
    signs = [sign for sign, _ in AGENT_SIGNATURES]
    assert signs == [sign.lower() for sign in signs]
    assert len(signs) == len(set(signs)) > 50
    assert {kind for _, kind in AGENT_SIGNATURES} == {"preview", "bot"}


def test_of_an_agent_s_name_is_kept_what_can_be_shown() -> None:
    assert printable_agent("A" * 1_000) == "A" * MAX_AGENT_LENGTH
    assert printable_agent("Mozilla\x00\x07/5.0\xad") == "Mozilla/5.0"


@pytest.mark.parametrize(("code", "can_be"), [("AbCdEf12", True), ("x", False), ("AbCdE-12", False), ("é" * 8, False)])
def test_malformed_codes_are_recognized_by_their_form(code: str, can_be: bool) -> None:
    assert bool(CODE_PATTERN.fullmatch(code)) is can_be


MOST = 3


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


@pytest.fixture
def ticks() -> ManualTimer:
    return ManualTimer()


@pytest.fixture
def recorder(container: Container, ticks: ManualTimer) -> Iterator[ScanRecorder]:
    recorder = ScanRecorder(container.db, container.clock, max_per_minute=MOST, monotonic=ticks)
    yield recorder
    recorder.close()


def follow(recorder: ScanRecorder, *codes: str, kind: VisitorKind = "person") -> list[CodeLookup]:
    async def all_at_once() -> list[CodeLookup]:
        return await asyncio.gather(
            *(recorder.record_scan(code, recorder.find_cached(code), kind, "test", is_counted=True) for code in codes)
        )

    return asyncio.run(all_at_once())


def test_everyone_is_led_on_and_so_many_are_kept(
    container: Container, owner: Caller, recorder: ScanRecorder, ticks: ManualTimer
) -> None:
    order = order_with_codes(container, owner, 2)
    [one, other] = codes_of(container, order.id)
    with container.db.system_transaction() as tx:
        [first, second] = item_ids(tx, order)
    lead = PAGE.encode()
    with structlog.testing.capture_logs() as lines:
        assert follow(recorder, *[one] * 10) == [ScanTarget(first, lead)] * 10
        for _ in range(10):
            assert follow(recorder, one) == [ScanTarget(first, lead)]
    assert [row.item_id for row in inbox_rows(container)] == [first] * MOST
    warnings = [line for line in lines if line["event"] == "qr_scans.rate_limited"]
    assert [(line["item"], line["kind"]) for line in warnings] == [(first, "person")], "said once a minute"

    follow(recorder, other, one)
    assert [row.item_id for row in inbox_rows(container)] == [first] * MOST + [second]
    ticks.now += WINDOW_SECONDS
    follow(recorder, *[one] * 10)
    assert [row.item_id for row in inbox_rows(container)] == [first] * MOST + [second] + [first] * MOST


def test_machines_keep_no_person_from_counting(container: Container, owner: Caller, recorder: ScanRecorder) -> None:
    [code] = codes_of(container, order_with_codes(container, owner).id)
    follow(recorder, *[code] * 10, kind="bot")
    follow(recorder, *[code] * 10, kind="preview")
    follow(recorder, code)
    assert [row.kind for row in inbox_rows(container)] == ["bot"] * MOST + ["preview"] * MOST + ["person"]


def test_scans_that_could_not_be_kept_are_not_held_against_anyone(
    container: Container, owner: Caller, recorder: ScanRecorder, conninfo: str
) -> None:
    [code] = codes_of(container, order_with_codes(container, owner).id)
    with psycopg.connect(conninfo, autocommit=True) as admin:
        admin.execute("alter table visit_inbox rename to elsewhere")
        for _ in range(MOST):
            with pytest.raises(Unavailable):
                follow(recorder, code)
        admin.execute("alter table elsewhere rename to visit_inbox")
    follow(recorder, *[code] * MOST)
    assert len(inbox_rows(container)) == MOST


def test_no_more_pieces_are_remembered_than_there_is_room_for(
    container: Container, ticks: ManualTimer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qr_scan_service, "MAX_COUNTERS", 5)
    crowd = ScanRateLimit(MOST, monotonic=ticks)
    for item in range(100):
        assert len(crowd.admit([NewScan(item, container.clock(), "person", "test")])) == 1
    assert len(crowd._counts) == 5


def test_the_operator_says_how_many(build: Build) -> None:
    assert build().scan_recorder._rate_limit._max_per_minute == MAX_PER_MINUTE == 30
    assert build(scans_a_minute=7).scan_recorder._rate_limit._max_per_minute == 7


def test_the_counter_counts_incoming_scans_until_it_is_stopped(container: Container, owner: Caller) -> None:
    order = order_with_codes(container, owner)
    [code] = codes_of(container, order.id)
    record_scans(container, *ids_of(container, order))  # taken in by another process

    async def live() -> None:
        stop = asyncio.Event()
        counter = asyncio.create_task(
            ScanCounter(container.db, container.encryptor, container.scan_recorder, container.clock).run(stop)
        )
        await asyncio.to_thread(wait_until, lambda: len(visit_rows(container)) == 1)
        await container.scan_recorder.record_scan(code, None, "person", "phone", is_counted=True)
        await asyncio.to_thread(wait_until, lambda: len(visit_rows(container)) == 2)
        stop.set()
        await counter

    asyncio.run(live())
    container.scan_recorder.close()
    with container.db.system_transaction() as tx:
        assert order_row(tx, order).total_scans == 2


def test_the_counter_survives_a_lost_database(
    container: Container, owner: Caller, conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting_tasks, "ERROR_PAUSE_SECONDS", 0.01)
    record_scans(container, *ids_of(container, order_with_codes(container, owner)))
    nowhere = Database(psycopg.conninfo.make_conninfo(conninfo, dbname="nowhere"))

    async def live() -> None:
        stop, counter = (
            asyncio.Event(),
            ScanCounter(nowhere, container.encryptor, container.scan_recorder, container.clock),
        )
        with structlog.testing.capture_logs() as logs:
            running = asyncio.create_task(counter.run(stop))
            await asyncio.to_thread(
                wait_until, lambda: "qr_scans.database_unavailable" in {line["event"] for line in logs}
            )
        counter._db = container.db
        await asyncio.to_thread(wait_until, lambda: len(visit_rows(container)) == 1)
        stop.set()
        await running

    asyncio.run(live())
    nowhere.close()


@pytest.mark.parametrize("pieces", [2, 60])
def test_two_pieces_that_draw_the_same_code_draw_again(container: Container, owner: Caller, pieces: int) -> None:
    taken = codes_of(container, order_with_codes(container, owner).id)[0]
    order = create_order(container, owner, [])
    everyone = validate_recipients(people(pieces))
    drawn = [NewItem(one, 0, f"Fresh{number:03}") for number, one in enumerate(everyone)]
    drawn[1] = drawn[1]._replace(code=taken)
    with container.db.system_transaction() as tx:
        insert_items(tx, order, [*drawn, NewItem(everyone[0], 0)], now=container.clock())
    query = sa.select(items.c.code).where(items.c.order_id == order.id).order_by(items.c.id)
    *found, without = (row.code for row in rows(container, query))
    assert without is None
    assert len({*found, taken}) == pieces + 1
    assert all(CODE_PATTERN.fullmatch(code) for code in found)
