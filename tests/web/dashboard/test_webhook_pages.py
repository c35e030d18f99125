"""Webhooks on pages: made, tried, watched, changed and ended, by whoever may and by nobody else."""

import re
from html import unescape
from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.accounts.audit.service import list_audit_entries
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.web.security import create_one_time_key
from support.account_pages import AccountPages
from support.browser_sessions import Browser
from support.factories import Clock, make_live, make_teammate
from support.test_client import TestClient
from support.webhook_log import set_delivery

URL = "https://example.com/hook"
BODY = '{"event_type":"order.status_update","data":{"order.id":0,"order.metadata":{"n":1.50}}}'
SECRET = re.compile(r"whsec_[A-Za-z0-9+/=]+")


@pytest.fixture
def house(container: Container, http: TestClient) -> AccountPages:
    return AccountPages(container, http)


def hook_of(house: AccountPages, **fields: object) -> int:
    made = house.account.post("/webhooks", {"url": URL, "type": "*", **fields})
    assert made.status_code == 201, made.text
    return int(made.json()["id"])


def try_it(house: AccountPages, hook: int) -> int:
    """Send a test by the page; the delivery's id."""
    sent = house.owner.post(f"/webhooks/{hook}/test", event_type="scans.scan_update", follow=False)
    assert sent.status_code == 303, sent.text
    found = re.search(r"/deliveries/(\d+)", sent.headers["Location"])
    assert found
    return int(found[1])


def replay(browser: Browser, hook: int, since: str, until: str = "", zone: str = "") -> Response:
    fields: dict[str, Any] = {"from": since, "to": until, "zone": zone}
    return browser.post(f"/webhooks/{hook}/replay", **fields)


def acts(house: AccountPages) -> list[tuple[str, str]]:
    with house.parts.db.transaction(Tenant(house.account.id, None)) as tx:
        entries = list_audit_entries(tx, house.account.id, limit=50)
    return [(entry.act, entry.actor) for entry in entries if entry.act.startswith("webhook.")]


def test_the_secret_of_a_new_one_is_shown_once_and_signs(house: AccountPages, container: Container) -> None:
    assert "Nobody is told yet" in house.owner.get("/webhooks").text
    typed: dict[str, Any] = {
        "url": URL,
        "type": "order_item.delivered",
        "verb": "post",
        "description": "CRM",
        "once": create_one_time_key(),
    }
    made = house.member.post("/webhooks/new", **typed)
    [shown] = SECRET.findall(unescape(made.text))
    [webhook] = house.account.get("/webhooks").json()["data"]
    assert (webhook["url"], webhook["type"], webhook["description"]) == (URL, "order_item.delivered", "CRM")
    again = house.member.post("/webhooks/new", **typed)
    assert again.status_code == 409
    assert not SECRET.search(unescape(again.text))
    assert house.account.get("/webhooks").json()["meta"]["total"] == 1
    rotated = house.owner.post(f"/webhooks/{webhook['id']}/secret")
    [other] = SECRET.findall(unescape(rotated.text))
    assert other != shown
    assert "signed with the former secret too" in rotated.text
    assert "Two are good until" in house.owner.get(f"/webhooks/{webhook['id']}").text
    # By their own names, and with the host alone.
    assert acts(house) == [("webhook.secret", "dana@example.com"), ("webhook.created", "finn@example.com")]


def test_what_is_wrong_stands_beside_its_field_and_nothing_is_made(house: AccountPages) -> None:
    before = house.everything()
    wrong = house.owner.post("/webhooks/new", url="http://10.0.0.1/x", type="nothing", verb="post")
    assert wrong.status_code == 422
    assert re.search(r'id="type-fault"[^>]*>Choose one of order\.status_update', wrong.text)
    private = house.owner.post("/webhooks/new", url="http://10.0.0.1/x", type="*", verb="post")
    assert re.search(r'id="url-fault"[^>]*>[^<]*not a public address', private.text)
    assert 'value="http://10.0.0.1/x"' in private.text
    odd = house.owner.post("/webhooks/new", url="http://0177.0.0.1/x", type="*", verb="post")
    assert re.search(r'id="url-fault"[^>]*>[^<]*an IPv4 address', odd.text)
    unknown = house.owner.post("/webhooks/new", url=URL, type="*", verb="post", mailing_list_id=999)
    assert unknown.status_code == 422
    assert "Mailing List Does Not Exist" in unknown.text
    assert house.everything() == before


def test_it_is_changed_paused_resumed_and_ended(house: AccountPages) -> None:
    hook = hook_of(house)
    assert f'value="{URL}"' in house.owner.get(f"/webhooks/{hook}/change").text
    fields: dict[str, Any] = {"url": f"{URL}/new", "type": "scans.scan_update", "verb": "get", "description": ""}
    assert "The webhook is changed." in house.owner.post(f"/webhooks/{hook}/change", **fields).text
    webhook = house.account.get(f"/webhooks/{hook}").json()
    assert (webhook["url"], webhook["verb"], webhook["description"]) == (f"{URL}/new", "get", None)
    paused = house.owner.post(f"/webhooks/{hook}/pause").text
    assert "Events wait until you resume it." in paused
    refused = house.owner.post(f"/webhooks/{hook}/test", event_type="scans.scan_update")
    assert refused.status_code == 422
    assert re.search(r'id="event_type-fault"[^>]*>This subscription is paused: resume it first', refused.text)
    house.owner.post(f"/webhooks/{hook}/resume")
    assert house.account.get(f"/webhooks/{hook}").json()["status"] == "active"
    assert "told nothing any more" in house.owner.get(f"/webhooks/{hook}/delete").text
    assert house.account.get(f"/webhooks/{hook}").status_code == 200
    house.owner.post(f"/webhooks/{hook}/delete")
    assert house.account.get(f"/webhooks/{hook}").status_code == 404
    assert [act for act, _ in acts(house)] == [
        "webhook.deleted", "webhook.resumed", "webhook.paused", "webhook.changed", "webhook.created",
    ]  # fmt: skip


def test_a_test_is_followed_until_its_outcome(house: AccountPages, container: Container) -> None:
    hook = hook_of(house)
    part = house.owner.post(f"/webhooks/{hook}/test", event_type="scans.scan_update", headers={"HX-Request": "true"})
    asks = re.search(r'hx-get="([^"]+)"', part.text)
    assert "<html" not in part.text
    assert asks
    assert re.search(r'hx-get="[^"]+look=2"', house.owner.get(unescape(asks[1])).text)
    assert "hx-get" not in house.owner.get(asks[1].replace("look=1", "look=40")).text
    delivery = int(asks[1].split("/")[4])
    set_delivery(
        container, delivery, status="delivered", attempts=1, body=BODY, response_status=200,
        response_body="<b>Thanks</b>", next_at=None, delivered_at=container.clock(),
    )  # fmt: skip
    done = house.owner.get(asks[1]).text
    assert "200 OK in 1 ms" in done
    assert "hx-get" not in done
    page = house.owner.get(f"/webhooks/{hook}/deliveries/{delivery}").text
    assert "&lt;b&gt;Thanks&lt;/b&gt;" in page
    assert "    &#34;order.metadata&#34;: {\n      &#34;n&#34;: 1.50\n    }" in page


def test_the_log_tells_what_came_of_each_is_filtered_and_retried(house: AccountPages, container: Container) -> None:
    hook = hook_of(house)
    arrived, lost, waits = (try_it(house, hook) for _ in range(3))
    set_delivery(container, arrived, status="delivered", attempts=2, response_status=204, next_at=None)
    set_delivery(container, lost, status="failed", attempts=10, response_status=500, next_at=None)
    links = {each: f'/deliveries/{each}"' for each in (arrived, lost, waits)}
    shown = house.owner.get(f"/webhooks/{hook}?page=nonsense").text
    assert [link in shown for link in links.values()] == [True] * 3
    assert "The receiver answered 500 Internal Server Error. Given up after 10 attempts." in shown
    failed = house.owner.get(f"/webhooks/{hook}?status=failed").text
    assert [each for each, link in links.items() if link in failed] == [lost]
    none = house.owner.get(f"/webhooks/{hook}?event_type=order.status_update").text
    assert "None of the newest deliveries are like that." in none
    assert "50%" in house.owner.get("/webhooks").text
    retried = house.owner.post(f"/webhooks/{hook}/deliveries/{lost}/retry")
    assert "It goes out now." in retried.text
    assert house.account.get(f"/webhooks/{hook}/deliveries/{lost}").json()["status"] == "pending"


def test_the_start_of_a_replay_is_in_the_readers_time_zone(house: AccountPages, clock: Clock) -> None:
    hook = hook_of(house)
    house.account.send()
    house.owner.client.cookies.set("quillpost_zone", "America/Chicago")
    early = replay(house.owner, hook, "2026-05-04T07:01")
    assert re.search(r'id="from-fault"[^>]*>This must be before', early.text)  # 12:01 UTC is yet to come
    assert 'value="2026-05-04T07:01"' in early.text
    in_utc = replay(house.owner, hook, "2026-05-04T12:01", zone="UTC")
    assert re.search(r'id="from-fault"[^>]*>This must be before', in_utc.text)  # its page said UTC
    assert "Times are in <span data-zone-words>UTC<" in in_utc.text
    nothing = replay(house.owner, hook, "soon")
    assert re.search(r'id="from-fault"[^>]*>Choose a day and a time', nothing.text)
    empty = replay(house.owner, hook, "2026-05-03T00:00", "2026-05-03T01:00")
    assert "so nothing is sent" in empty.text
    assert house.everything()["webhook_replays"] == 0
    clock.advance(minutes=1)
    begun = replay(house.owner, hook, "2026-05-04T06:59")
    assert "It has begun" in begun.text
    assert house.everything()["webhook_replays"] == 1
    second = replay(house.owner, hook, "2026-05-04T06:59")
    assert re.search(r'id="from-fault"[^>]*>A replay from .* is under way', second.text)


def test_nobody_elses_are_there(house: AccountPages, container: Container) -> None:
    hook = hook_of(house)
    delivery = try_it(house, hook)
    live = make_live(container, house.account).post("/webhooks", {"url": f"{URL}/live", "type": "*"}).json()["id"]
    theirs = (
        make_teammate(container, house.account, house.branch)
        .post("/webhooks", {"url": f"{URL}/dallas", "type": "*"})
        .json()["id"]
    )
    pages = ("", "/change", "/delete", "/secret", f"/deliveries/{delivery}", f"/deliveries/{delivery}/outcome")
    for rest in pages:
        for browser in (house.stranger, house.limited):
            assert browser.get(f"/webhooks/{hook}{rest}").status_code == 404, rest
        assert "This webhook is in live mode" in house.owner.get(f"/webhooks/{live}{rest}").text
    assert house.is_as_if_unknown(house.stranger, f"/webhooks/{hook}", hook)
    before = house.everything()
    for act in ("change", "pause", "resume", "delete", "secret", "test", f"deliveries/{delivery}/retry"):
        fields: dict[str, Any] = {"url": URL, "type": "*", "verb": "post"} if act == "change" else {}
        assert house.stranger.post(f"/webhooks/{hook}/{act}", **fields).status_code == 404, act
    begun = replay(house.stranger, hook, "2026-05-04T06:00")
    assert begun.status_code == 404
    assert house.everything() == before
    limited = house.limited.get("/webhooks").text
    assert (f"{URL}/dallas" in limited, f'/webhooks/{hook}"' in limited) == (True, False)
    assert house.limited.get(f"/webhooks/{theirs}").status_code == 200
    assert f"{URL}/live" not in house.owner.get("/webhooks").text


@pytest.mark.usefixtures("clean_database")
def test_a_secret_that_is_shown_is_the_one_that_signs(house: AccountPages, container: Container) -> None:
    made = house.owner.post("/webhooks/new", url=URL, type="*", verb="post")
    [shown] = SECRET.findall(unescape(made.text))
    with container.db.system_transaction() as tx:
        sealed = tx.execute(sa.text("select id, secret_sealed from webhooks")).one()
    assert webhook_service.decrypt_secret(container.encryptor, sealed.id, sealed.secret_sealed) == shown
