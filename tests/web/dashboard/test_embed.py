"""The composer within another product's page: who may show it, for how long, and what comes of it."""

import asyncio
import re
from html import unescape
from typing import Any
from urllib.parse import urlsplit

import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from fastapi import Response as Empty
from httpx2 import Response

from quillpost.accounts.embeds.service import normalize_origin
from quillpost.app.container import Container
from quillpost.core.database.tables.base import accounts, stored_sends, tokens
from quillpost.web.dashboard.embed import pages as embed_pages
from support.factories import Clock, make_live, make_sub_account
from support.pages import ADDRESS, AccountPages, WrongForm, assert_shows
from support.test_client import TestClient

SITE, LOCAL, SETTINGS = "https://app.example.com", "http://localhost:3000", "/settings/embed"
FORM = {
    "piece": "postcard-6x9", "message": "Hi %FIRST_NAME%!", "style": "1", "audience": "person",
    "to_name": "Jane Doe", "to_address": "12 Main St, Austin, TX 78701", "once": "k" * 22,
}  # fmt: skip
WRONG_SITES: list[WrongForm] = [
    ({"origins": wrong}, "origins", "")
    for wrong in (
        "example.com", "http://example.com", "https://example.com/path", "https://a b", "javascript:1",
        "\n".join(f"https://n{n}.example.com" for n in range(21)),
    )
]  # fmt: skip


@pytest.fixture
def house(container: Container, http: TestClient) -> AccountPages:
    made = AccountPages(container, http)
    assert made.owner.post(SETTINGS, origins=f"{SITE}/\n{LOCAL}\n{SITE.upper()}:443").status_code == 200
    return made


def embed(house: AccountPages, **body: Any) -> str:
    answer = house.account.post("/embeds", {"origin": SITE, **body})
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"url", "expires_at"}
    return str(urlsplit(answer.json()["url"]).path)


def opened(house: AccountPages, path: str, form: dict[str, Any] | None = None) -> Response:
    """By a browser that holds no cookie."""
    headers = {"Accept": "text/html", "Origin": "http://quillpost.test"}
    answer: Response = house.nobody().client.request("POST" if form else "GET", path, data=form, headers=headers)
    assert "Set-Cookie" not in answer.headers
    return answer


def status_and_frames(answer: Response) -> tuple[int, str]:
    [allowed] = re.findall(r"frame-ancestors ([^;]+)", answer.headers["Content-Security-Policy"])
    return answer.status_code, str(allowed)


def stored(house: AccountPages) -> list[Any]:
    return house.rows(sa.select(stored_sends).where(stored_sends.c.account_id == house.account.id))


def test_owners_say_which_sites_may_show_it(house: AccountPages, subtests: pytest.Subtests) -> None:
    assert_shows(house.owner.get(SETTINGS), f"{SITE}\n{LOCAL}</textarea>")  # normal, and each once
    house.refuses_forms(subtests, SETTINGS, {}, WRONG_SITES)
    assert_shows(house.owner.get("/settings/audit"), "changed which sites may show the composer")
    assert normalize_origin("https://Müller.example") == "https://xn--mller-kva.example"
    for origin in ("https://other.example.com", f"{SITE}:8443", "nonsense"):
        assert "origin" in house.account.post("/embeds", {"origin": origin}).json()["errors"]
    assert house.others.post("/embeds", {"origin": SITE}).status_code == 422
    for branch in (999_999, make_sub_account(house.parts, house.others, "Reno")):
        assert house.account.post("/embeds", {"origin": SITE, "sub_account_id": branch}).status_code == 400


def test_it_is_framed_by_its_site_alone(house: AccountPages) -> None:
    path = embed(house, piece="letter", message="Hello <there>")
    page = opened(house, path)
    assert status_and_frames(page) == (200, SITE)
    assert "X-Frame-Options" not in page.headers
    assert (page.headers["Referrer-Policy"], page.headers["Cache-Control"]) == ("no-referrer", "no-store")
    assert_shows(page, "Hello &lt;there&gt;", hides=["csrf"])
    for pattern in (r'value="letter"[^>]* checked', r'<form id="composer"[^>]* novalidate'):
        assert re.search(pattern, page.text)
    assert house.owner.get(SETTINGS).headers["X-Frame-Options"] == "DENY"
    formless = house.nobody().client.post(path, json={}, headers={"Accept": "text/html"})
    assert status_and_frames(formless) == (415, SITE)


def test_what_is_written_is_stored_once_and_sent_once(house: AccountPages) -> None:
    path = embed(house, sub_account_id=house.branch)
    assert_shows(opened(house, f"{path}/preview", FORM), "data:image/png", status=200)
    assert_shows(opened(house, f"{path}/price", FORM), "1 piece at")
    ready = opened(house, f"{path}/send", FORM)
    assert status_and_frames(ready) == (200, SITE)
    [url] = re.findall(r'data-url="([^"]+)"', ready.text)
    assert_shows(ready, f'data-origin="{SITE}"')
    assert_shows(opened(house, f"{path}/send", FORM), f'data-url="{url}"')  # a double click
    assert len(stored(house)) == 1
    place = urlsplit(url).path.removeprefix("/api/v2")
    assert house.others.post(place).status_code == 404
    sent = house.account.post(place)
    assert (sent.status_code, sent.json()["sub_account_id"]) == (200, house.branch)
    assert house.account.post(place).json() == sent.json()
    assert house.account.get("/orders").json()["meta"]["total"] == 1


def test_a_guest_may_choose_no_more_than_the_host_allows(house: AccountPages) -> None:
    mine, other = (
        house.account.post("/mailing-lists", {"description": name}).json()["id"]
        for name in ("For frames", "Not for frames")
    )
    path = embed(house, mailing_list_ids=[mine])
    assert_shows(opened(house, path), "For frames", hides=["Not for frames"])
    with house.unchanged():
        for form in (
            {"audience": "lists", "mailing_list_ids": str(other)},
            {"audience": "radius", "radius_address": "1100 Congress Ave, Austin, TX 78701", "radius_count": "10"},
            {"to_address": "12 Main St"},
        ):
            assert status_and_frames(opened(house, f"{path}/send", FORM | form)) == (422, SITE), form
    ready = opened(house, f"{path}/send", FORM | {"sub_account_id": str(house.branch), "allow_duplicates": "on"})
    [kept] = stored(house)
    assert (ready.status_code, kept.sub_account_id, "allow_duplicates" in kept.body) == (200, None, False)


def test_a_pass_opens_nothing_once_it_is_over(house: AccountPages, clock: Clock) -> None:
    path = embed(house, expires_in=600)
    forged = opened(house, path[:-6] + ("aaaaaa" if not path.endswith("aaaaaa") else "bbbbbb"))
    assert status_and_frames(forged) == (403, "'none'")
    clock.advance(seconds=601)
    over = opened(house, f"{path}/send", FORM)
    assert status_and_frames(over) == (403, SITE)
    assert_shows(over, "Reload the page")
    path = embed(house)
    house.owner.post(SETTINGS, origins=LOCAL)
    assert status_and_frames(opened(house, path)) == (403, "'none'")
    house.owner.post(SETTINGS, origins=SITE)
    assert opened(house, path).status_code == 200
    own = sa.update(tokens).where(tokens.c.account_id == house.account.id)
    house.execute(own.values(scopes=["orders:read"]))
    assert opened(house, path).status_code == 403
    house.execute(own.values(scopes=None, revoked_at=house.parts.clock()))
    assert_shows(opened(house, f"{path}/send", FORM), "not good any more", status=403)
    assert stored(house) == []


def test_nothing_is_read_of_strangers(app: FastAPI, house: AccountPages, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []

    async def receive() -> Any:
        reads.append("body")
        return {"type": "http.request", "body": b"people=%41"}

    async def post(to: str) -> int:
        answered: list[Any] = []

        async def send(message: Any) -> None:
            answered.append(message.get("status"))

        headers = [(b"content-type", b"application/x-www-form-urlencoded"), (b"accept", b"text/html")]
        scope = {
            "type": "http", "http_version": "1.1", "method": "POST", "scheme": "http", "path": to,
            "raw_path": to.encode(), "query_string": b"", "root_path": "", "server": ("quillpost.test", 80),
            "client": ("192.0.2.1", 1), "asgi": {"version": "3.0", "spec_version": "2.3"}, "headers": headers,
        }  # fmt: skip
        await app(scope, receive, send)
        return int(answered[0])

    path = embed(house)
    assert (asyncio.run(post("/embed/compose/x")), reads) == (403, [])
    monkeypatch.setattr(embed_pages, "MAX_FRAME_CALLS_PER_MINUTE", 0)
    assert (asyncio.run(post(path)), reads) == (429, [])


def test_a_guest_is_limited_and_shuts_no_other_s_frame(house: AccountPages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed_pages, "MAX_STORED_SENDS_PER_FRAME", 1)
    path = embed(house)
    sends = [opened(house, f"{path}/send", FORM | {"once": letter * 22}).status_code for letter in "abc"]
    assert (sends, len(stored(house))) == ([200, 429, 429], 1)
    assert opened(house, f"{embed(house)}/send", FORM).status_code == 200
    greedy, other = embed(house), embed(house)
    assert greedy != other
    monkeypatch.setattr(embed_pages, "MAX_FRAME_CALLS_PER_MINUTE", 2)
    monkeypatch.setattr(embed_pages, "MAX_CALLS_PER_MINUTE", 4 + 4)  # besides those above
    responses = [opened(house, greedy) for _ in range(6)]
    assert [each.status_code for each in responses] == [200] * 2 + [429] * 4
    assert (status_and_frames(responses[-1])[1], "Retry-After" in responses[-1].headers) == (SITE, True)
    assert opened(house, other).status_code == 200


def test_a_guest_learns_nothing_of_the_accounts_credit_or_whom_it_bars(house: AccountPages) -> None:
    live = make_live(house.parts, house.account)
    suppression_list = live.post("/mailing-lists", {"description": "Never again", "is_suppression_list": True}).json()
    recipient = {"mailing_list_id": suppression_list["id"], "name": "Lou Doe", "address": "9 Elm St, Austin TX 78701"}
    assert live.post("/recipients", recipient).status_code == 201
    house.execute(sa.update(accounts).where(accounts.c.id == house.account.id).values(**ADDRESS))
    path = str(urlsplit(live.post("/embeds", {"origin": SITE}).json()["url"]).path)
    pasted = "Jane Doe, 12 Main St, Austin, TX 78701\nLou Doe, 9 Elm St, Austin, TX 78701"
    form = FORM | {"audience": "people", "people": pasted}
    for part in ("", "/price", "/people"):
        text = unescape(opened(house, path + part, form).text)
        assert ("1 piece at" in text, "Not mailed to: 1 person." in text) == (part != "/people",) * 2, part
        assert re.findall(r"(?i)suppress\w*|credit|not mailed to: this[^.<]*", text) == [], part


def test_each_guest_has_previews_by_turns_of_their_own(house: AccountPages, monkeypatch: pytest.MonkeyPatch) -> None:
    guests: list[Any] = []

    def noted(guest: Any, draw: Any) -> Any:
        guests.append(guest)
        return Empty(status_code=204)

    monkeypatch.setattr(embed_pages, "draw_latest", noted)
    for path in (embed(house), embed(house)):
        assert opened(house, path, FORM).status_code == opened(house, f"{path}/preview", FORM).status_code
    assert (len(guests), len(set(guests))) == (4, 2)
