"""By whom a code is scanned, and the codes themselves."""

import pytest

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.fulfillment.qr_scans.rules import (
    AGENT_SIGNATURES,
    CODE_PATTERN,
    MAX_AGENT_LENGTH,
    classify_visitor,
    printable_agent,
)
from quillpost.orders.service import NewItem, insert_items
from quillpost.recipients.rules import validate_recipients
from support.factories import people
from support.orders import create_order, item_rows
from support.qr_scans import codes_of, order_with_codes

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
                assert classify_visitor(agent, {}) == kind


def test_a_browser_that_only_prepares_or_loads_a_part_of_a_page_is_a_preview() -> None:
    prefetches = (
        *({"purpose": "prefetch"}, {"purpose": "PREFETCH"}, {"sec-purpose": "prefetch"}, {"x-moz": "prefetch"}),
        *({"sec-purpose": "prefetch;prerender"}, {"x-purpose": "preview"}),
    )
    parts = (("no-cors", "image"), ("cors", "empty"), ("navigate", "iframe"))
    for hints in (*prefetches, *({"sec-fetch-mode": mode, "sec-fetch-dest": what} for mode, what in parts)):
        assert classify_visitor(PHONE, hints) == "preview", hints
        assert classify_visitor("curl/8.5.0", hints) == "bot", hints
    opened: list[dict[str, str]] = [
        {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}, {"purpose": ""}, {},
    ]  # fmt: skip
    for hints in opened:
        assert classify_visitor(PHONE, hints) == "person", hints


def test_the_signs_are_in_small_letters_and_each_is_there_once() -> None:
    signs = [sign for sign, _ in AGENT_SIGNATURES]
    assert signs == [sign.lower() for sign in signs]
    assert len(signs) == len(set(signs)) > 50
    assert {kind for _, kind in AGENT_SIGNATURES} == {"preview", "bot"}


def test_of_an_agent_s_name_is_kept_what_can_be_shown() -> None:
    assert printable_agent("A" * 1_000) == "A" * MAX_AGENT_LENGTH
    assert printable_agent("Mozilla\x00\x07/5.0\xad") == "Mozilla/5.0"


def test_malformed_codes_are_recognized_by_their_form() -> None:
    codes = {"AbCdEf12": True, "x": False, "AbCdE-12": False, "é" * 8: False}
    assert {code: bool(CODE_PATTERN.fullmatch(code)) for code in codes} == codes


@pytest.mark.parametrize("pieces", [2, 60])
def test_two_pieces_that_draw_the_same_code_draw_again(container: Container, caller: Caller, pieces: int) -> None:
    taken = codes_of(container, order_with_codes(container, caller).id)[0]
    order, everyone = create_order(container, caller, []), validate_recipients(people(pieces))
    drawn = [NewItem(one, 0, f"Fresh{number:03}") for number, one in enumerate(everyone)]
    drawn[1] = drawn[1]._replace(code=taken)
    with container.db.system_transaction() as tx:
        insert_items(tx, order, [*drawn, NewItem(everyone[0], 0)], now=container.clock())
    *found, without = item_rows(container, order)
    codes = [item.code for item in found]
    assert without.code is None
    assert len({*codes, taken}) == pieces + 1
    assert all(CODE_PATTERN.fullmatch(code) for code in codes)
