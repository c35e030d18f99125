"""Where a scan of a printed code leads."""

from urllib.parse import parse_qs, urlsplit

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from makers import Account, person
from quillpost.database.tables import items
from quillpost.parts import Parts


def code_of(parts: Parts, order_id: int) -> str:
    with parts.db.work() as tx:
        return str(tx.execute(sa.select(items.c.code).where(items.c.order_id == order_id)).scalar_one())


def scan(http: TestClient, parts: Parts, order_id: int, method: str = "GET") -> str:
    answer = http.request(method, f"/q/{code_of(parts, order_id)}", follow_redirects=False)
    assert (answer.status_code, answer.headers["cache-control"]) == (302, "no-store")
    return str(answer.headers["location"])


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_scan_leads_to_the_senders_page_in_the_recipients_words(
    owner: Account, http: TestClient, parts: Parts, method: str
) -> None:
    order = owner.send(
        recipients=[person(name="JOSÉ O'BRIEN", city="Port & Quay")],
        qrcode_url="https://shop.example.com/hi?n=~FIRST_NAME|you~&c=%CITY%&x=~CUSTOM1|none~#top",
    ).json()["id"]
    destination = urlsplit(scan(http, parts, order, method))
    assert (destination.netloc, destination.path, destination.fragment) == ("shop.example.com", "/hi", "top")
    assert parse_qs(destination.query) == {"n": ["José"], "c": ["Port & Quay"], "x": ["none"]}


def test_nobodys_words_lead_elsewhere(owner: Account, http: TestClient, parts: Parts) -> None:
    order = owner.send(
        recipients=[person(custom1="/../../@evil.example?x#y")],
        qrcode_url="https://shop.example.com/~CUSTOM1~/end",
    ).json()["id"]
    destination = urlsplit(scan(http, parts, order))
    assert destination.netloc == "shop.example.com"
    assert destination.path.endswith("/end")


@pytest.mark.parametrize("code", ["AbCdEf12", "x", "%00", "a" * 500, "..%2f", "AbCdE-12"])
def test_a_code_of_nobody_is_not_found(http: TestClient, code: str) -> None:
    assert http.get(f"/q/{code}", follow_redirects=False).status_code == 404
