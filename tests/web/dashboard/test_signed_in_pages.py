"""The pages of somebody who is signed in: safe, complete in themselves, and leading to what is there."""

import pytest

from quillpost.app.container import Container
from quillpost.web.rendering import CONTENT_SECURITY_POLICY
from support.browser_sessions import Browser, make_user, sign_in_browser
from support.factories import Account
from support.page_parser import ParsedPage
from support.test_client import TestClient

PAGES = (
    "/",
    "/lists/import",
    "/settings",
    "/settings/second-factor",
    "/settings/people",
    "/settings/tokens",
    "/settings/clients",
    "/settings/apps",
    "/settings/audit",
    "/sign-in/confirm",
)


@pytest.fixture
def browser(container: Container, http: TestClient, owner: Account, stranger: Account) -> Browser:
    make_user(container, owner.id, "dana@example.com")
    make_user(container, stranger.id, "dana@example.com")
    browser = sign_in_browser(http)
    browser.sign_in("dana@example.com")
    return browser


def test_every_page_is_safe_and_complete_in_itself(browser: Browser) -> None:
    led: dict[str, str] = {}
    for path in PAGES:
        shown = browser.get(path, follow=False)
        assert shown.status_code == 200, path
        assert shown.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
        assert shown.headers["Cache-Control"] == "no-store"
        seen = ParsedPage.of(shown.text)
        assert seen.inline_code == []
        assert not [name for name in seen.attributes if name == "style" or name.startswith("on")]
        assert len(seen.ids) == len(set(seen.ids)), path
        for address in seen.addresses:
            assert address.startswith(("/", "#")), f"{path} points to {address}"
            assert not address.startswith("//")
            if address.startswith("#"):
                assert address[1:] in seen.ids, f"{path} points to {address}"
            else:
                led[address] = path
    for address, path in led.items():
        # Where only forms lead, looking is not allowed; /ready is 503 as no worker runs in this test.
        assert browser.get(address).status_code in (200, 405, 503), f"{path} points to {address}"


def test_every_form_of_theirs_carries_the_word(browser: Browser) -> None:
    for path in PAGES:
        text = browser.get(path).text
        assert text.count('<form method="post"') + text.count('<form class="form" method="post"') > 0, path
        assert text.count('method="post"') == text.count('name="csrf"'), path


def test_each_field_has_a_label(browser: Browser) -> None:
    for path in PAGES:
        text = browser.get(path).text
        for field in text.split("<input")[1:]:
            tag = field.partition(">")[0]
            if 'type="hidden"' in tag or " hidden" in tag:
                continue
            name = tag.partition('id="')[2].partition('"')[0]
            is_within = "<label" in text.partition(f"<input{field[:60]}")[0].rpartition("</label>")[2]
            assert f'for="{name}"' in text or is_within, f"{path}: {tag}"
