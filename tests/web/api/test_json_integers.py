"""Integers as JSON Schema has them: 3264.0 is one. What is the caller's own stays as it was written."""

import json
from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.web.api.schemas import parse_integer
from quillpost.web.dependencies import ABOVE_MAX_ID
from support.factories import Account, make_sub_account, person, postcard

JSON = {"Content-Type": "application/json"}


def send(owner: Account, path: str, body: Any, **texts: str) -> Any:
    """The body with some of its values written as these texts."""
    written = json.dumps(body)
    for name, text in texts.items():
        written = written.replace(f'"{{{name}}}"', text)
    return owner.call("POST", path, content=written, headers=JSON)


def test_a_number_without_a_fraction_is_an_id(owner: Account, container: Container) -> None:
    branch = make_sub_account(container, owner)
    sent = send(owner, "/send/postcard", postcard(sub_account_id="{id}"), id=f"{branch}.0")
    assert (sent.status_code, sent.json()["sub_account_id"]) == (200, branch), sent.text


@pytest.mark.parametrize("text", ["1.0", "1e0", "0.1e1", "10E-1"])
def test_it_may_be_written_in_any_way(owner: Account, text: str) -> None:
    sent = send(owner, "/send/postcard", postcard(handwriting_style="{style}"), style=text)
    assert (sent.status_code, sent.json()["style"]) == (200, 1), sent.text


def test_it_is_one_in_lists_and_objects_too(owner: Account) -> None:
    list_id = owner.post("/mailing-lists", {"description": "Friends"}).json()["id"]
    owner.post("/recipients", person(mailing_list_id=list_id))
    body = {"mailing_list_ids": ["{id}"], "message": "Hi!"}
    sent = send(owner, "/send/postcard", body, id=f"{list_id}.0")
    assert (sent.status_code, sent.json()["mailing_list_ids_used"]) == (200, str(list_id))
    search = {"radius_search": {"address": "12 Main St, Austin, TX 78701", "record_count": "{count}"}}
    refused = send(owner, "/estimate/postcard", search | {"message": "Hi!"}, count="5.5")
    assert list(refused.json()["errors"]) == ["radius_search.record_count"]
    counted = send(owner, "/estimate/postcard", search | {"message": "Hi!"}, count="5.0")
    assert "radius_search.record_count" not in counted.json().get("errors", {})


def test_a_gift_cards_amount_may_be_written_so(owner: Account) -> None:
    body = postcard(giftcard_brand="brindlewick", giftcard_amount="{cents}")
    sent = send(owner, "/send/giftcard", body, cents="2500.0")
    assert (sent.status_code, sent.json()["giftcard_amount"]) == (200, 2_500), sent.text


@pytest.mark.parametrize("text", ["1.5", "1e-1", "1e400", "-1.0", '"1.0"', "true"])
def test_what_is_no_integer_is_refused(owner: Account, text: str) -> None:
    refused = send(owner, "/send/postcard", postcard(preview_recipient="{place}"), place=text)
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["preview_recipient"])


def test_metadata_stays_as_it_was_written(owner: Account) -> None:
    sent = send(owner, "/send/postcard", postcard(metadata={"n": "{n}"}), n="3264.0")
    assert '"metadata":{"n":3264.0}' in owner.get(f"/orders/{sent.json()['id']}").text


@pytest.mark.parametrize("text", ["2.0", "2e0", "2"])
def test_a_query_reads_numbers_alike(owner: Account, text: str) -> None:
    answer = owner.get("/orders", params={"items_per_page": text})
    assert (answer.status_code, answer.json()["meta"]["per_page"]) == (200, 2)


@pytest.mark.parametrize("text", ["2.5", "0.0", "-2.0", "2.", "nan", "1e"])
def test_a_query_refuses_what_is_no_count(owner: Account, text: str) -> None:
    assert owner.get("/orders", params={"items_per_page": text}).status_code == 422


def test_an_id_in_a_path_is_written_plainly(owner: Account) -> None:
    order = owner.send().json()["id"]
    assert owner.get(f"/orders/{order}.0").status_code == 404


@pytest.mark.parametrize("number", ["5e-324", "0.5", "1.0", "7"])
def test_a_number_is_no_body(owner: Account, number: str) -> None:
    """Where a body may be left out, too."""
    webhook = owner.post("/webhooks", {"url": "https://example.com/hook", "type": "*"}).json()["id"]
    for path in (f"/webhooks/{webhook}/test", "/send/postcard"):
        refused = owner.call("POST", path, content=number, headers=JSON)
        assert refused.json()["errors"] == {"body": ["This must be an object."]}, path


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("8", 8),
        ("8.0", 8),
        ("-8.0", -8),
        ("80e-1", 8),
        ("8.5", None),
        ("1e30", ABOVE_MAX_ID),
        ("-1e30", -ABOVE_MAX_ID),
        ("9007199254740993.0", 9_007_199_254_740_993),
        ("1" * 5_000, ABOVE_MAX_ID),
        ("0e999", 0),
        ("1e-999", None),
        ("1e9999", None),
        ("x", None),
        ("", None),
    ],
)
def test_integers_are_read_exactly(text: str, number: int | None) -> None:
    assert parse_integer(text) == number
