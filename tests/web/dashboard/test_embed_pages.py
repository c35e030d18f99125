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
from support.account_pages import AccountPages
from support.factories import Clock, make_live, make_sub_account
from support.test_client import TestClient

pytestmark = pytest.mark.usefixtures("clean_database")

SITE = "https://app.example.com"
FORM = {
    "piece": "postcard-6x9", "message": "Hi %FIRST_NAME%!", "style": "1", "audience": "person",
    "to_name": "Jane Doe", "to_address": "12 Main St, Austin, TX 78701", "once": "k" * 22,
}  # fmt: skip


@pytest.fixture
def house(container: Container, http: TestClient) -> AccountPages:
    made = AccountPages(container, http)
    saved = made.owner.post("/settings/embed", origins=f"{SITE}/\nhttp://localhost:3000\n{SITE.upper()}:443")
    assert saved.status_code == 200
    return made


def embed(house: AccountPages, **body: Any) -> str:
    answer = house.account.post("/embeds", {"origin": SITE, **body})
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"url", "expires_at"}
    return str(urlsplit(answer.json()["url"]).path)


def opened(house: AccountPages, path: str, form: dict[str, Any] | None = None) -> Response:
    """By a browser that holds no cookie."""
    nobody = house.nobody().client
    headers = {"Accept": "text/html", "Origin": "http://quillpost.test"}
    method = "POST" if form else "GET"
    answer: Response = nobody.request(method, path, data=form, headers=headers)
    assert "Set-Cookie" not in answer.headers
    return answer


def frames(answer: Response) -> str:
    [allowed] = re.findall(r"frame-ancestors ([^;]+)", answer.headers["Content-Security-Policy"])
    return str(allowed)


def test_owners_say_which_sites_may_show_it(house: AccountPages) -> None:
    page = house.owner.get("/settings/embed").text
    assert f"{SITE}\nhttp://localhost:3000</textarea>" in page  # normal, and each once
    before = house.everything()
    for wrong in ("example.com", "http://example.com", "https://example.com/path", "https://a b", "javascript:1"):
        refused = house.owner.post("/settings/embed", origins=wrong)
        assert (refused.status_code, 'id="origins-fault"' in refused.text) == (422, True), wrong
    many = "\n".join(f"https://n{n}.example.com" for n in range(21))
    assert house.owner.post("/settings/embed", origins=many).status_code == 422
    assert house.everything() == before
    assert "changed which sites may show the composer" in house.owner.get("/settings/audit").text
    assert normalize_origin("https://Müller.example") == "https://xn--mller-kva.example"


def test_it_is_framed_by_its_site_alone(house: AccountPages) -> None:
    page = opened(house, embed(house, piece="letter", message="Hello <there>"))
    assert (page.status_code, frames(page)) == (200, SITE)
    assert "X-Frame-Options" not in page.headers
    assert page.headers["Referrer-Policy"] == "no-referrer"
    assert page.headers["Cache-Control"] == "no-store"
    assert "Hello &lt;there&gt;" in page.text
    assert re.search(r'value="letter"[^>]* checked', page.text)
    assert "csrf" not in page.text
    assert re.search(r'<form id="composer"[^>]* novalidate', page.text)
    assert house.owner.get("/settings/embed").headers["X-Frame-Options"] == "DENY"
    for origin in ("https://other.example.com", f"{SITE}:8443", "nonsense"):
        assert "origin" in house.account.post("/embeds", {"origin": origin}).json()["errors"]
    assert house.others.post("/embeds", {"origin": SITE}).status_code == 422


def test_what_is_written_is_stored_once_and_sent_once(house: AccountPages) -> None:
    path = embed(house, sub_account_id=house.branch)
    shown = opened(house, f"{path}/preview", FORM)
    assert (shown.status_code, "data:image/png" in shown.text) == (200, True)
    assert "1 piece at" in opened(house, f"{path}/price", FORM).text
    ready = opened(house, f"{path}/send", FORM)
    assert (ready.status_code, frames(ready)) == (200, SITE)
    [url] = re.findall(r'data-url="([^"]+)"', ready.text)
    assert f'data-origin="{SITE}"' in ready.text
    assert f'data-url="{url}"' in opened(house, f"{path}/send", FORM).text  # a double click
    with house.parts.db.system_transaction() as tx:
        assert tx.execute(sa.select(sa.func.count()).select_from(stored_sends)).scalar_one() == 1
    place = urlsplit(url).path.removeprefix("/api/v2")
    assert house.others.post(place).status_code == 404
    sent = house.account.post(place)
    assert (sent.status_code, sent.json()["sub_account_id"]) == (200, house.branch)
    assert house.account.post(place).json() == sent.json()
    assert house.account.get("/orders").json()["meta"]["total"] == 1


def test_a_guest_says_no_more_than_a_guest_may(house: AccountPages) -> None:
    mine = house.account.post("/mailing-lists", {"description": "For frames"}).json()["id"]
    other = house.account.post("/mailing-lists", {"description": "Not for frames"}).json()["id"]
    path = embed(house, mailing_list_ids=[mine])
    page = opened(house, path).text
    assert ("For frames" in page, "Not for frames" in page) == (True, False)
    before = house.everything()
    for form in (
        {"audience": "lists", "mailing_list_ids": str(other)},
        {"audience": "radius", "radius_address": "1100 Congress Ave, Austin, TX 78701", "radius_count": "10"},
        {"to_address": "12 Main St"},
    ):
        refused = opened(house, f"{path}/send", FORM | form)
        assert (refused.status_code, frames(refused)) == (422, SITE), form
    assert house.everything() == before
    ready = opened(house, f"{path}/send", FORM | {"sub_account_id": str(house.branch), "allow_duplicates": "on"})
    with house.parts.db.system_transaction() as tx:
        [kept] = tx.execute(sa.select(stored_sends))
    assert ready.status_code == 200
    assert kept.sub_account_id is None
    assert "allow_duplicates" not in kept.body


def test_a_pass_opens_nothing_once_it_is_over(house: AccountPages, clock: Clock) -> None:
    path = embed(house, expires_in=600)
    forged = opened(house, path[:-6] + ("aaaaaa" if not path.endswith("aaaaaa") else "bbbbbb"))
    assert (forged.status_code, frames(forged)) == (403, "'none'")
    clock.advance(seconds=601)
    over = opened(house, f"{path}/send", FORM)
    assert (over.status_code, frames(over)) == (403, SITE)
    assert "Reload the page" in over.text
    path = embed(house)
    house.owner.post("/settings/embed", origins="http://localhost:3000")
    delisted = opened(house, path)
    assert (delisted.status_code, frames(delisted)) == (403, "'none'")
    house.owner.post("/settings/embed", origins=SITE)
    assert opened(house, path).status_code == 200
    with house.parts.db.system_transaction() as tx:
        mine = tokens.c.account_id == house.account.id
        tx.execute(sa.update(tokens).where(mine).values(scopes=["orders:read"]))
    assert opened(house, path).status_code == 403
    with house.parts.db.system_transaction() as tx:
        tx.execute(sa.update(tokens).where(mine).values(scopes=None, revoked_at=house.parts.clock()))
    revoked = opened(house, f"{path}/send", FORM)
    assert (revoked.status_code, "not good any more" in revoked.text) == (403, True)
    with house.parts.db.system_transaction() as tx:
        assert tx.execute(sa.select(stored_sends)).all() == []


def test_a_request_without_a_form_is_refused_within_the_frame(house: AccountPages) -> None:
    path = embed(house)
    odd = house.nobody().client.post(path, json={}, headers={"Accept": "text/html"})
    assert (odd.status_code, frames(odd)) == (415, SITE)
    elsewhere = house.account.post("/embeds", {"origin": SITE, "sub_account_id": 999_999})
    assert elsewhere.status_code == 400
    theirs = make_sub_account(house.parts, house.others, "Reno")
    assert house.account.post("/embeds", {"origin": SITE, "sub_account_id": theirs}).status_code == 400


def test_nothing_is_read_of_whoever_is_not_let_in(
    app: FastAPI, house: AccountPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = embed(house)
    reads: list[str] = []
    answered: list[Any] = []

    async def receive() -> Any:
        reads.append("body")
        return {"type": "http.request", "body": b"people=%41"}

    async def send(message: Any) -> None:
        answered.append(message.get("status"))

    async def post(to: str) -> int:
        headers = [(b"content-type", b"application/x-www-form-urlencoded"), (b"accept", b"text/html")]
        scope = {
            "type": "http", "http_version": "1.1", "method": "POST", "scheme": "http", "path": to,
            "raw_path": to.encode(), "query_string": b"", "root_path": "", "server": ("quillpost.test", 80),
            "client": ("192.0.2.1", 1), "asgi": {"version": "3.0", "spec_version": "2.3"}, "headers": headers,
        }  # fmt: skip
        await app(scope, receive, send)
        return int(answered[0])

    assert (asyncio.run(post("/embed/compose/x")), reads) == (403, [])
    monkeypatch.setattr(embed_pages, "MAX_FRAME_CALLS_PER_MINUTE", 0)
    answered.clear()
    assert (asyncio.run(post(path)), reads) == (429, [])


def test_one_guest_does_not_shut_the_frames_of_the_others(house: AccountPages, monkeypatch: pytest.MonkeyPatch) -> None:
    greedy, other = embed(house), embed(house)
    assert greedy != other
    monkeypatch.setattr(embed_pages, "MAX_FRAME_CALLS_PER_MINUTE", 2)
    monkeypatch.setattr(embed_pages, "MAX_CALLS_PER_MINUTE", 4)
    responses = [opened(house, greedy) for _ in range(6)]
    assert [each.status_code for each in responses] == [200] * 2 + [429] * 4
    assert (frames(responses[-1]), "Retry-After" in responses[-1].headers) == (SITE, True)
    assert opened(house, other).status_code == 200


def test_a_guest_learns_nothing_of_the_accounts_credit_or_whom_it_bars(house: AccountPages) -> None:
    live = make_live(house.parts, house.account)
    suppression_list = live.post("/mailing-lists", {"description": "Never again", "is_suppression_list": True}).json()
    recipient = {"mailing_list_id": suppression_list["id"], "name": "Lou Doe", "address": "9 Elm St, Austin TX 78701"}
    assert live.post("/recipients", recipient).status_code in (200, 201)
    with house.parts.db.system_transaction() as tx:
        home = {"return_address": "PO Box 1180", "return_city": "Austin", "return_state": "TX"}
        tx.execute(sa.update(accounts).values(**home, return_postal_code="78701"))
    path = str(urlsplit(live.post("/embeds", {"origin": SITE}).json()["url"]).path)
    pasted = "Jane Doe, 12 Main St, Austin, TX 78701\nLou Doe, 9 Elm St, Austin, TX 78701"
    form = FORM | {"audience": "people", "people": pasted}
    for part in ("", "/price", "/people"):
        text = unescape(opened(house, path + part, form).text)
        assert ("1 piece at" in text, "Not mailed to: 1 person." in text) == (part != "/people",) * 2, part
        assert re.findall(r"(?i)suppress\w*|credit|not mailed to: this[^.<]*", text) == [], part


def test_each_guest_has_previews_by_turns_of_their_own(house: AccountPages, monkeypatch: pytest.MonkeyPatch) -> None:
    guests: list[Any] = []

    def noted(whose: Any, draw: Any) -> Any:
        guests.append(whose)
        return Empty(status_code=204)

    monkeypatch.setattr(embed_pages, "draw_latest", noted)
    for path in (embed(house), embed(house)):
        assert opened(house, path, FORM).status_code == opened(house, f"{path}/preview", FORM).status_code
    assert (len(guests), len(set(guests))) == (4, 2)


def test_a_guest_stores_so_many_sends_and_no_more(house: AccountPages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed_pages, "MAX_STORED_SENDS_PER_FRAME", 1)
    path = embed(house)
    statuses = [opened(house, f"{path}/send", FORM | {"once": letter * 22}).status_code for letter in "abc"]
    assert statuses == [200, 429, 429]
    with house.parts.db.system_transaction() as tx:
        assert tx.execute(sa.select(sa.func.count()).select_from(stored_sends)).scalar_one() == 1
    assert opened(house, f"{embed(house)}/send", FORM).status_code == 200
