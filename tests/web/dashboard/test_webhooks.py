"""Webhooks on pages: made, tried, watched, changed, replayed and ended."""

import re
from html import unescape
from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.app.container import Container
from quillpost.core.database.tables.notifications import webhooks
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.web.security import ZONE_COOKIE, create_one_time_key
from support.factories import Clock
from support.pages import MEMBER, OWNER, AccountPages, assert_hides, assert_shows, form_errors
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
