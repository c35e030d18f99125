"""Filters by type: every name that clients have for a piece, and each finds that piece only."""

from typing import Any

import pytest

from support.factories import GIFT, Account

NAMES = {
    "postcard": ["4x6", "6x9", "6x11"],
    "postcard4x6": ["4x6"],
    "4x6-postcard": ["4x6"],
    "postcard6x9": ["6x9"],
    "6x9-postcard": ["6x9"],
    "postcard6x11": ["6x11"],
    "6x11-postcard": ["6x11"],
    "magnacard": ["magnacard"],
    "letter": ["letter"],
    "windowedletter": ["letter"],
    "windowed-letter": ["letter"],
    "windowlessletter": ["windowlessletter"],
    "windowless-letter": ["windowlessletter"],
    "notecard": ["notecard"],
    "giftcard": ["giftcard"],
    " PostCard6x9 ": ["6x9"],
}


def sent_each(owner: Account) -> dict[int, str]:
    sizes = {size: owner.send("postcard", size=size) for size in ("4x6", "6x9", "6x11")}
    others = {
        "letter": owner.send("windowed-letter"),
        "windowlessletter": owner.send("windowless-letter"),
        "notecard": owner.send("notecard"),
        "giftcard": owner.send("giftcard", **GIFT),
        "magnacard": owner.send("magnacard"),
    }
    return {sent.json()["id"]: name for name, sent in (sizes | others).items()}


def test_orders_are_found_by_every_name_of_their_type(owner: Account) -> None:
    known = sent_each(owner)
    for name, expected in NAMES.items():
        found = owner.call("GET", "/orders", params={"type": name}).json()
        assert sorted(known[order["id"]] for order in found["data"]) == sorted(expected), name
        assert found["meta"]["total"] == len(expected), name
    dated = {"type": "postcard6x9", "created_after": "2000-01-01"}
    assert owner.call("GET", "/orders/list", params=dated).json()["meta"]["total"] == 1


@pytest.mark.parametrize("path", ["/orders", "/image-templates", "/message-templates"])
def test_no_match_is_an_empty_page_and_an_unknown_name_is_refused(owner: Account, path: str) -> None:
    for name in NAMES:
        found = owner.call("GET", path, params={"type": name})
        assert (found.status_code, found.json()["data"], found.json()["meta"]["total"]) == (200, [], 0)
    for unknown in ("postcard9x9", "letter/windowed", "%", "postcard\x00"):
        refused = owner.call("GET", path, params={"type": unknown})
        [error] = refused.json()["errors"]["type"]
        assert refused.status_code == 422
        assert "postcard6x9" in error
        assert "windowlessletter" in error
    assert owner.call("GET", path, params={"type": " "}).status_code == 200


def test_templates_are_found_by_every_name_of_their_type(owner: Account) -> None:
    types = ("postcard", "postcard6x11", "letter", "windowlessletter", "notecard", "magnacard")
    for kind in types:
        owner.post("/message-templates", {"type": kind, "name": kind, "content": "Hi"})

    def named(name: str) -> set[Any]:
        found = owner.call("GET", "/message-templates", params={"type": name}).json()["data"]
        return {each["type"] for each in found}

    assert named("postcard") == {"postcard", "postcard6x11"}
    assert named("6x11-postcard") == {"postcard6x11"}
    assert named("postcard6x9") == set()
    assert named("windowed-letter") == {"letter"}
    assert named("windowlessletter") == {"windowlessletter"}
    assert named("magnacard") == {"magnacard"}
