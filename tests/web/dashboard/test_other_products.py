"""What other products have of ours: webhooks, made, tried, watched, changed, replayed and ended; and the composer
within their pages: who may show it, for how long, and what comes of it."""

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
from quillpost.core.database.tables.notifications import webhooks
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.web.dashboard.embed import pages as embed_pages
from quillpost.web.security import ZONE_COOKIE, create_one_time_key
from support.factories import Clock, make_live, make_sub_account
from support.pages import ADDRESS, MEMBER, OWNER, AccountPages, WrongForm, assert_hides, assert_shows, form_errors
from support.test_client import TestClient
from support.webhooks import set_delivery

URL = "https://example.com/hook"
BODY = '{"event_type":"order.status_update","data":{"order.id":0,"order.metadata":{"n":1.50}}}'
SECRET = re.compile(r"whsec_[A-Za-z0-9+/=]+")


def make_hook(house: AccountPages, **fields: object) -> int:
    made = house.account.post("/webhooks", {"url": URL, "type": "*", **fields})
    assert made.status_code == 201, made.text
    return int(made.json()["id"])


def try_it(house: AccountPages, hook: int) -> int:
    """Send a test by the page; the delivery's id."""
    sent = house.owner.post(f"/webhooks/{hook}/test", event_type="scans.scan_update", follow=False)
    assert sent.status_code == 303, sent.text
    return int(re.findall(r"/deliveries/(\d+)", sent.headers["Location"])[0])


def test_the_secret_of_a_new_one_is_shown_once_and_signs(house: AccountPages, container: Container) -> None:
    assert_shows(house.owner.get("/webhooks"), "Nobody is told yet")
    typed: dict[str, Any] = {
        "url": URL, "type": "order_item.delivered", "verb": "post", "description": "CRM",
        "once": create_one_time_key(),
    }  # fmt: skip
    [shown] = SECRET.findall(unescape(house.member.post("/webhooks/new", **typed).text))
    [webhook] = house.account.get("/webhooks").json()["data"]
    assert (webhook["url"], webhook["type"], webhook["description"]) == (URL, "order_item.delivered", "CRM")
    sealed = house.value(sa.select(webhooks.c.secret_sealed).where(webhooks.c.id == webhook["id"]))
    assert webhook_service.decrypt_secret(container.encryptor, webhook["id"], sealed) == shown
    again = house.member.post("/webhooks/new", **typed)
    assert (again.status_code, SECRET.findall(unescape(again.text))) == (409, [])
    assert house.account.get("/webhooks").json()["meta"]["total"] == 1
    rotated = house.owner.post(f"/webhooks/{webhook['id']}/secret")
    [other] = SECRET.findall(unescape(rotated.text))
    assert other != shown
    assert_shows(rotated, "signed with the former secret too")
    assert_shows(house.owner.get(f"/webhooks/{webhook['id']}"), "Two are good until")
    noted = [(entry.act, entry.actor) for entry in house.log() if entry.act.startswith("webhook.")]
    assert noted == [("webhook.secret", OWNER), ("webhook.created", MEMBER)]


def test_what_is_wrong_is_beside_its_field_and_not_made(house: AccountPages, subtests: pytest.Subtests) -> None:
    good = {"url": URL, "type": "*", "verb": "post"}
    private, octal = "http://10.0.0.1/x", "http://0177.0.0.1/x"
    house.refuses_forms(
        subtests, "/webhooks/new", good,
        [
            ({"url": private, "type": "nothing"}, "type", "Choose one of order.status_update"),
            ({"url": private}, "url", "not a public address"),
            ({"url": octal}, "url", "an IPv4 address"),
        ],
    )  # fmt: skip
    unknown = house.owner.post("/webhooks/new", url=URL, type="*", verb="post", mailing_list_id=999_999)
    assert (unknown.status_code, "Mailing List Does Not Exist" in unknown.text) == (422, True)
    assert house.account.get("/webhooks").json()["data"] == []
    assert_shows(house.owner.post("/webhooks/new", url=private, type="*", verb="post"), f'value="{private}"')


def test_it_is_changed_paused_resumed_and_ended(house: AccountPages) -> None:
    hook = make_hook(house)
    page = f"/webhooks/{hook}"
    assert_shows(house.owner.get(f"{page}/change"), f'value="{URL}"')
    fields: dict[str, Any] = {"url": f"{URL}/new", "type": "scans.scan_update", "verb": "get", "description": ""}
    assert_shows(house.owner.post(f"{page}/change", **fields), "The webhook is changed.")
    webhook = house.account.get(page).json()
    assert (webhook["url"], webhook["verb"], webhook["description"]) == (f"{URL}/new", "get", None)
    assert_shows(house.owner.post(f"{page}/pause"), "Events wait until you resume it.")
    refused = house.owner.post(f"{page}/test", event_type="scans.scan_update")
    assert refused.status_code == 422
    assert form_errors(refused)["event_type"].startswith("This subscription is paused: resume it first")
    house.owner.post(f"{page}/resume")
    assert house.account.get(page).json()["status"] == "active"
    assert_shows(house.owner.get(f"{page}/delete"), "told nothing any more")
    assert house.account.get(page).status_code == 200
    house.owner.post(f"{page}/delete")
    assert house.account.get(page).status_code == 404
    assert house.acts() == [f"webhook.{act}" for act in ("deleted", "resumed", "paused", "changed", "created")]


def test_a_test_is_followed_until_its_outcome(house: AccountPages, container: Container) -> None:
    hook = make_hook(house)
    part = house.owner.post(f"/webhooks/{hook}/test", event_type="scans.scan_update", headers={"HX-Request": "true"})
    assert_hides(part, "<html")
    [asks] = re.findall(r'hx-get="([^"]+)"', part.text)
    assert re.search(r'hx-get="[^"]+look=2"', house.owner.get(unescape(asks)).text)
    assert_hides(house.owner.get(asks.replace("look=1", "look=40")), "hx-get")
    delivery = int(asks.split("/")[4])
    set_delivery(
        container, delivery, status="delivered", attempts=1, body=BODY, response_status=200,
        response_body="<b>Thanks</b>", next_at=None, delivered_at=container.clock(),
    )  # fmt: skip
    assert_shows(house.owner.get(asks), "200 OK in 1 ms", hides=["hx-get"])
    assert_shows(
        house.owner.get(f"/webhooks/{hook}/deliveries/{delivery}"), "&lt;b&gt;Thanks&lt;/b&gt;",
        "    &#34;order.metadata&#34;: {\n      &#34;n&#34;: 1.50\n    }",
    )  # fmt: skip


def test_the_log_tells_what_came_of_each_is_filtered_and_retried(house: AccountPages, container: Container) -> None:
    hook = make_hook(house)
    page = f"/webhooks/{hook}"
    arrived, lost, waits = (try_it(house, hook) for _ in range(3))
    set_delivery(container, arrived, status="delivered", attempts=2, response_status=204, next_at=None)
    set_delivery(container, lost, status="failed", attempts=10, response_status=500, next_at=None)
    links = {each: f'/deliveries/{each}"' for each in (arrived, lost, waits)}
    assert_shows(
        house.owner.get(f"{page}?page=nonsense"), *links.values(),
        "The receiver answered 500 Internal Server Error. Given up after 10 attempts.",
    )  # fmt: skip
    failed = house.owner.get(f"{page}?status=failed").text
    assert [each for each, link in links.items() if link in failed] == [lost]
    none = house.owner.get(f"{page}?event_type=order.status_update")
    assert_shows(none, "None of the newest deliveries are like that.")
    assert_shows(house.owner.get("/webhooks"), "50%")
    assert_shows(house.owner.post(f"{page}/deliveries/{lost}/retry"), "It goes out now.")
    assert house.account.get(f"{page}/deliveries/{lost}").json()["status"] == "pending"


def test_the_start_of_a_replay_is_in_the_readers_time_zone(house: AccountPages, clock: Clock) -> None:
    hook = make_hook(house)
    house.account.send()
    house.owner.client.cookies.set(ZONE_COOKIE, "America/Chicago")

    def replay(since: str, until: str = "", zone: str = "") -> Response:
        fields: dict[str, Any] = {"from": since, "to": until, "zone": zone}
        return house.owner.post(f"/webhooks/{hook}/replay", **fields)

    early = replay("2026-05-04T07:01")  # 12:01 UTC is yet to come
    assert_shows(early, 'value="2026-05-04T07:01"')
    in_utc = replay("2026-05-04T12:01", zone="UTC")  # its page said UTC
    assert_shows(in_utc, "Times are in <span data-zone-words>UTC<")
    for refused in (early, in_utc):
        assert form_errors(refused)["from"].startswith("This must be before")
    assert form_errors(replay("soon"))["from"].startswith("Choose a day and a time")
    before = house.everything()["webhook_replays"]
    assert_shows(replay("2026-05-03T00:00", "2026-05-03T01:00"), "so nothing is sent")
    assert house.everything()["webhook_replays"] == before
    clock.advance(minutes=1)
    assert_shows(replay("2026-05-04T06:59"), "It has begun")
    assert house.everything()["webhook_replays"] == before + 1
    assert re.match("A replay from .* is under way", form_errors(replay("2026-05-04T06:59"))["from"])


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
def host(container: Container, http: TestClient) -> AccountPages:
    made = AccountPages(container, http)
    assert made.owner.post(SETTINGS, origins=f"{SITE}/\n{LOCAL}\n{SITE.upper()}:443").status_code == 200
    return made


def embed(host: AccountPages, **body: Any) -> str:
    answer = host.account.post("/embeds", {"origin": SITE, **body})
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"url", "expires_at"}
    return str(urlsplit(answer.json()["url"]).path)


def opened(host: AccountPages, path: str, form: dict[str, Any] | None = None) -> Response:
    """By a browser that holds no cookie."""
    headers = {"Accept": "text/html", "Origin": "http://quillpost.test"}
    answer: Response = host.nobody().client.request("POST" if form else "GET", path, data=form, headers=headers)
    assert "Set-Cookie" not in answer.headers
    return answer


def status_and_frames(answer: Response) -> tuple[int, str]:
    [allowed] = re.findall(r"frame-ancestors ([^;]+)", answer.headers["Content-Security-Policy"])
    return answer.status_code, str(allowed)


def stored(host: AccountPages) -> list[Any]:
    return host.rows(sa.select(stored_sends).where(stored_sends.c.account_id == host.account.id))


def test_owners_say_which_sites_may_show_it(host: AccountPages, subtests: pytest.Subtests) -> None:
    assert_shows(host.owner.get(SETTINGS), f"{SITE}\n{LOCAL}</textarea>")  # normal, and each once
    host.refuses_forms(subtests, SETTINGS, {}, WRONG_SITES)
    assert_shows(host.owner.get("/settings/audit"), "changed which sites may show the composer")
    assert normalize_origin("https://Müller.example") == "https://xn--mller-kva.example"
    for origin in ("https://other.example.com", f"{SITE}:8443", "nonsense"):
        assert "origin" in host.account.post("/embeds", {"origin": origin}).json()["errors"]
    assert host.others.post("/embeds", {"origin": SITE}).status_code == 422
    for branch in (999_999, make_sub_account(host.parts, host.others, "Reno")):
        assert host.account.post("/embeds", {"origin": SITE, "sub_account_id": branch}).status_code == 400


def test_it_is_framed_by_its_site_alone(host: AccountPages) -> None:
    path = embed(host, piece="letter", message="Hello <there>")
    page = opened(host, path)
    assert status_and_frames(page) == (200, SITE)
    assert "X-Frame-Options" not in page.headers
    assert (page.headers["Referrer-Policy"], page.headers["Cache-Control"]) == ("no-referrer", "no-store")
    assert_shows(page, "Hello &lt;there&gt;", hides=["csrf"])
    for pattern in (r'value="letter"[^>]* checked', r'<form id="composer"[^>]* novalidate'):
        assert re.search(pattern, page.text)
    assert host.owner.get(SETTINGS).headers["X-Frame-Options"] == "DENY"
    assert status_and_frames(host.nobody().client.post(path, json={}, headers={"Accept": "text/html"})) == (415, SITE)


def test_what_is_written_is_stored_once_and_sent_once(host: AccountPages) -> None:
    path = embed(host, sub_account_id=host.branch)
    assert_shows(opened(host, f"{path}/preview", FORM), "data:image/png", status=200)
    assert_shows(opened(host, f"{path}/price", FORM), "1 piece at")
    ready = opened(host, f"{path}/send", FORM)
    assert status_and_frames(ready) == (200, SITE)
    [url] = re.findall(r'data-url="([^"]+)"', ready.text)
    assert_shows(ready, f'data-origin="{SITE}"')
    assert_shows(opened(host, f"{path}/send", FORM), f'data-url="{url}"')  # a double click
    assert len(stored(host)) == 1
    place = urlsplit(url).path.removeprefix("/api/v2")
    assert host.others.post(place).status_code == 404
    sent = host.account.post(place)
    assert (sent.status_code, sent.json()["sub_account_id"]) == (200, host.branch)
    assert host.account.post(place).json() == sent.json()
    assert host.account.get("/orders").json()["meta"]["total"] == 1


def test_a_guest_may_choose_no_more_than_the_host_allows(host: AccountPages) -> None:
    mine, other = (
        host.account.post("/mailing-lists", {"description": name}).json()["id"]
        for name in ("For frames", "Not for frames")
    )
    path = embed(host, mailing_list_ids=[mine])
    assert_shows(opened(host, path), "For frames", hides=["Not for frames"])
    with host.unchanged():
        for form in (
            {"audience": "lists", "mailing_list_ids": str(other)},
            {"audience": "radius", "radius_address": "1100 Congress Ave, Austin, TX 78701", "radius_count": "10"},
            {"to_address": "12 Main St"},
        ):
            assert status_and_frames(opened(host, f"{path}/send", FORM | form)) == (422, SITE), form
    ready = opened(host, f"{path}/send", FORM | {"sub_account_id": str(host.branch), "allow_duplicates": "on"})
    [kept] = stored(host)
    assert (ready.status_code, kept.sub_account_id, "allow_duplicates" in kept.body) == (200, None, False)


def test_a_pass_opens_nothing_once_it_is_over(host: AccountPages, clock: Clock) -> None:
    path = embed(host, expires_in=600)
    forged = opened(host, path[:-6] + ("aaaaaa" if not path.endswith("aaaaaa") else "bbbbbb"))
    assert status_and_frames(forged) == (403, "'none'")
    clock.advance(seconds=601)
    over = opened(host, f"{path}/send", FORM)
    assert status_and_frames(over) == (403, SITE)
    assert_shows(over, "Reload the page")
    path = embed(host)
    host.owner.post(SETTINGS, origins=LOCAL)
    assert status_and_frames(opened(host, path)) == (403, "'none'")
    host.owner.post(SETTINGS, origins=SITE)
    assert opened(host, path).status_code == 200
    own = sa.update(tokens).where(tokens.c.account_id == host.account.id)
    host.execute(own.values(scopes=["orders:read"]))
    assert opened(host, path).status_code == 403
    host.execute(own.values(scopes=None, revoked_at=host.parts.clock()))
    assert_shows(opened(host, f"{path}/send", FORM), "not good any more", status=403)
    assert stored(host) == []


def test_nothing_is_read_of_strangers(app: FastAPI, host: AccountPages, monkeypatch: pytest.MonkeyPatch) -> None:
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

    path = embed(host)
    assert (asyncio.run(post("/embed/compose/x")), reads) == (403, [])
    monkeypatch.setattr(embed_pages, "MAX_FRAME_CALLS_PER_MINUTE", 0)
    assert (asyncio.run(post(path)), reads) == (429, [])


def test_a_guest_is_limited_and_shuts_no_other_s_frame(host: AccountPages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed_pages, "MAX_STORED_SENDS_PER_FRAME", 1)
    path = embed(host)
    sends = [opened(host, f"{path}/send", FORM | {"once": letter * 22}).status_code for letter in "abc"]
    assert (sends, len(stored(host))) == ([200, 429, 429], 1)
    assert opened(host, f"{embed(host)}/send", FORM).status_code == 200
    greedy, other = embed(host), embed(host)
    assert greedy != other
    monkeypatch.setattr(embed_pages, "MAX_FRAME_CALLS_PER_MINUTE", 2)
    monkeypatch.setattr(embed_pages, "MAX_CALLS_PER_MINUTE", 4 + 4)  # besides those above
    responses = [opened(host, greedy) for _ in range(6)]
    assert [each.status_code for each in responses] == [200] * 2 + [429] * 4
    assert (status_and_frames(responses[-1])[1], "Retry-After" in responses[-1].headers) == (SITE, True)
    assert opened(host, other).status_code == 200


def test_a_guest_learns_nothing_of_the_accounts_credit_or_whom_it_bars(host: AccountPages) -> None:
    live = make_live(host.parts, host.account)
    suppression_list = live.post("/mailing-lists", {"description": "Never again", "is_suppression_list": True}).json()
    recipient = {"mailing_list_id": suppression_list["id"], "name": "Lou Doe", "address": "9 Elm St, Austin TX 78701"}
    assert live.post("/recipients", recipient).status_code == 201
    host.execute(sa.update(accounts).where(accounts.c.id == host.account.id).values(**ADDRESS))
    path = str(urlsplit(live.post("/embeds", {"origin": SITE}).json()["url"]).path)
    pasted = "Jane Doe, 12 Main St, Austin, TX 78701\nLou Doe, 9 Elm St, Austin, TX 78701"
    form = FORM | {"audience": "people", "people": pasted}
    for part in ("", "/price", "/people"):
        text = unescape(opened(host, path + part, form).text)
        assert ("1 piece at" in text, "Not mailed to: 1 person." in text) == (part != "/people",) * 2, part
        assert re.findall(r"(?i)suppress\w*|credit|not mailed to: this[^.<]*", text) == [], part


def test_each_guest_has_previews_by_turns_of_their_own(host: AccountPages, monkeypatch: pytest.MonkeyPatch) -> None:
    guests: list[Any] = []

    def noted(guest: Any, draw: Any) -> Any:
        guests.append(guest)
        return Empty(status_code=204)

    monkeypatch.setattr(embed_pages, "draw_latest", noted)
    for path in (embed(host), embed(host)):
        assert opened(host, path, FORM).status_code == opened(host, f"{path}/preview", FORM).status_code
    assert (len(guests), len(set(guests))) == (4, 2)
