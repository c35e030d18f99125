"""Orders one by one: read, tracked, and their proof; and who sees what of another's."""

import io
from typing import Any
from urllib.parse import urlsplit

import pikepdf
import pytest

from quillpost.app.container import Container
from support.factories import (
    Account,
    Clock,
    make_account,
    make_sub_account,
    make_teammate,
    people,
    person,
    run_jobs_for,
)
from support.test_client import TestClient
from support.traces import metadata_text, postcard_with, send_raw

READS = (
    "/orders/{order}", "/orders/{order}/track", "/orders/{order}/items", "/orders/{order}/proof",
    "/order-items/{item}",
)  # fmt: skip
RECIPIENT_KEYS = {
    "name", "company", "address", "address2", "city", "province", "postal_code", "country", "email", "phone",
    *(f"custom{n}" for n in range(1, 11)),
}  # fmt: skip


def pages_of(pdf: bytes) -> int:
    with pikepdf.open(io.BytesIO(pdf)) as document:
        return len(document.pages)


def sent(account: Account, **changes: Any) -> dict[str, int]:
    order = account.send(**changes).json()["id"]
    return {"order": order, "item": account.get(f"/orders/{order}/items").json()["data"][0]["id"]}


@pytest.mark.parametrize("path", READS)
def test_another_accounts_order_looks_like_none(owner: Account, stranger: Account, path: str) -> None:
    theirs = path.format(**sent(owner))
    unknown = [path.format(order=n, item=n) for n in (10**9, 0, "x", 2**63, "9" * 5_000)]
    answers = [stranger.get(each) for each in (theirs, *unknown)]
    assert {(answer.status_code, answer.text) for answer in answers} == {(404, '{"message":"Not Found"}')}
    assert owner.get(theirs).status_code == 200


@pytest.mark.parametrize("path", READS)
def test_whoever_is_limited_to_a_sub_account_reads_its_orders_alone(
    owner: Account, container: Container, path: str
) -> None:
    mine, other = make_sub_account(container, owner), make_sub_account(container, owner)
    teammate = make_teammate(container, owner, mine)
    inside = sent(owner, sub_account_id=mine)
    outside = [sent(owner, sub_account_id=other), sent(owner)]
    assert teammate.get(path.format(**inside)).status_code == 200
    assert [teammate.get(path.format(**each)).status_code for each in outside] == [404, 404]


@pytest.mark.parametrize("path", [*READS, "/orders/list", "/order-items", "/orders/stats", "/orders/search?name=x"])
def test_reading_takes_the_scope(container: Container, http: TestClient, path: str) -> None:
    without = make_account(container, http, "narrow@example.com", scopes=["orders:write", "send:read"])
    refused = without.get(path.format(order=1, item=1))
    assert (refused.status_code, refused.json()) == (403, {"message": "This token lacks the scope orders:read."})


@pytest.mark.usefixtures("clean_database")
def test_tracking_counts_every_status_and_lists_failed_recipients(
    owner: Account, container: Container, clock: Clock
) -> None:
    audience = [person(), person(name="Test Returned", address="9 Oak Ave"), {"email": "e@example.com"}]
    order_id = owner.send(recipients=audience).json()["id"]
    run_jobs_for(container, clock, seconds=45)
    tracked = owner.get(f"/orders/{order_id}/track").json()["data"]
    assert (tracked["id"], tracked["order"]["status"]) == (order_id, "Fulfilled")
    assert tracked["order"] == {
        key: value for key, value in owner.get(f"/orders/{order_id}").json().items() if key != "warnings"
    }
    assert tracked["stats"] == {
        "processing": 0,
        "printed": 0,
        "in_transit": 0,
        "in_local_area": 0,
        "processed_for_delivery": 0,
        "delivered": 1,
        "re_routed": 0,
        "returned_to_sender": 1,
        "failed": 1,
        "scans": 0,
        "multi_scans": 0,
    }
    (failed,), (returned,) = tracked["errors"], tracked["returned"]
    assert set(failed) == set(returned) == RECIPIENT_KEYS | {"failure"}
    assert (failed["email"], returned["name"]) == ("e@example.com", "Test Returned")


def test_the_proof_shows_the_first_pieces_that_are_mailed(owner: Account, http: TestClient) -> None:
    audience = [{"email": "e@example.com"}, *people(4)]
    order_id = owner.send(recipients=audience).json()["id"]
    proof = owner.get(f"/orders/{order_id}/proof")
    assert (proof.status_code, proof.headers["Content-Type"]) == (200, "application/pdf")
    assert pages_of(proof.content) == 6
    link = owner.get(f"/orders/{order_id}").json()["high_quality_preview"]
    assert http.get(urlsplit(link).path).content == proof.content


def test_a_cancelled_order_still_has_its_proof(owner: Account) -> None:
    order_id = owner.send().json()["id"]
    owner.call("PUT", f"/orders/{order_id}/cancel")
    assert pages_of(owner.get(f"/orders/{order_id}/proof").content) == 2


def test_the_proof_of_a_folded_card_ends_with_its_envelopes(owner: Account) -> None:
    body = {"recipients": people(2), "message": "Hi %FIRST_NAME%!"}
    order_id = owner.post("/send/notecard", body).json()["id"]
    with pikepdf.open(io.BytesIO(owner.get(f"/orders/{order_id}/proof").content)) as document:
        sizes = [tuple(map(float, page.mediabox)) for page in document.pages]
    sheets, envelopes = sizes[:-2], sizes[-2:]
    assert len(sheets) >= 2
    assert len(set(envelopes)) == 1
    assert envelopes[0] not in sheets


def test_nothing_is_drawn_for_a_head(owner: Account, http: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    order_id = owner.send().json()["id"]
    link = urlsplit(owner.get(f"/orders/{order_id}").json()["high_quality_preview"]).path
    for module in ("quillpost.web.api.orders.endpoints", "quillpost.web.public.files.endpoints"):
        monkeypatch.delattr(f"{module}.draw_proof")
    head = owner.call("HEAD", f"/orders/{order_id}/proof")
    assert (head.status_code, head.headers["Content-Type"], head.content) == (200, "application/pdf", b"")
    assert owner.call("HEAD", "/orders/999/proof").status_code == 404
    linked = http.head(link)
    assert (linked.status_code, linked.headers["Content-Type"]) == (200, "application/pdf")
    assert all("Content-Length" not in answer.headers for answer in (head, linked))
    assert http.head("/files/nonsense").status_code == 404


def test_the_proof_is_described_as_a_pdf(owner: Account) -> None:
    described = owner.get("/openapi.json").json()["paths"]["/api/v2/orders/{order_id}/proof"]
    assert list(described) == ["get"]
    assert described["get"]["responses"]["200"]["content"] == {
        "application/pdf": {"schema": {"type": "string", "format": "binary"}}
    }


def test_metadata_comes_back_to_the_letter_where_orders_are_searched_and_filtered(owner: Account) -> None:
    written = '{"z":1,"a":{"n":[1.0,1e2]},"big":123456789012345678901234567890,"Grüße":"漢 🙂"}'
    send_raw(owner, postcard_with("metadata", written))
    assert metadata_text(owner.get("/orders/search?name=jane"), "orders", "0") == written
    assert metadata_text(owner.get("/orders/list?metadata[z]=1"), "data", "0") == written
