"""Requests of published clients, replayed: see the README beside this file."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI

from quillpost.web.application import create_app
from support.factories import Account, Build, make_account
from support.images import ImageServer
from support.test_client import TestClient

FLOWS = sorted(Path(__file__).parent.glob("*.json"))
NAME = re.compile(r"\{(\w+)\}")
KINDS: dict[str, type] = {"<integer>": int, "<string>": str, "<boolean>": bool, "<array>": list, "<object>": dict}

Known = dict[str, Any]


@pytest.fixture
def known(art: ImageServer) -> Known:
    return {"picture": art.picture(), "letter": art.letter()}


@pytest.mark.parametrize("path", FLOWS, ids=lambda path: path.stem)
def test_a_published_client_is_answered_as_it_expects(path: Path, build: Build, known: Known) -> None:
    flow = json.loads(path.read_text())
    container = build(allow_private_urls=True, **flow.get("settings", {}))
    app: FastAPI = create_app(container)
    with TestClient(app, base_url="http://quillpost.test") as http:
        client = make_account(container, http, "client@example.com")
        for number, call in enumerate(flow["calls"], start=1):
            replay(client, call, known, f"call {number}, {call['call']}")


def replay(client: Account, call: dict[str, Any], known: Known, where: str) -> None:
    method, path = filled(call["call"], known).split(" ", 1)
    how: dict[str, Any] = {"params": filled(call.get("query"), known), "headers": call.get("headers", {})}
    if "body" in call:
        how["json"] = filled(call["body"], known)
    elif "form" in call:
        how["data"] = filled(call["form"], known)
    answer = client.call(method, path, **how)
    assert answer.status_code == call["status"], f"{where}: {answer.text}"
    for name, value in call.get("answer_headers", {}).items():
        assert answer.headers.get(name) == filled(value, known), f"{where}: {name}"
    if "answer" in call:
        compare(answer.json(), filled(call["answer"], known), where)
    for name, dotted in call.get("keep", {}).items():
        known[name] = part(answer.json(), dotted)


def filled(value: Any, known: Known) -> Any:
    """The value with what was kept in the place of its names."""
    if isinstance(value, dict):
        return {name: filled(each, known) for name, each in value.items()}
    if isinstance(value, list):
        return [filled(each, known) for each in value]
    if not isinstance(value, str):
        return value
    if (whole := NAME.fullmatch(value)) and whole[1] in known:
        return known[whole[1]]
    return NAME.sub(lambda found: str(known.get(found[1], found[0])), value)


def part(answer: Any, dotted: str) -> Any:
    for step in dotted.split("."):
        answer = answer[int(step)] if isinstance(answer, list) else answer[step]
    # What a client opens next, it opens below the same address.
    return urlsplit(answer).path.removeprefix("/api/v2") if is_ours(answer) else answer


def is_ours(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("http://quillpost.test/api/v2")


def compare(answer: Any, expected: Any, where: str) -> None:
    if isinstance(expected, dict):
        assert isinstance(answer, dict), where
        for name, value in expected.items():
            assert name in answer, f"{where}: {name} is missing"
            compare(answer[name], value, f"{where}: {name}")
    elif isinstance(expected, list):
        assert isinstance(answer, list), where
        assert len(answer) == len(expected), f"{where}: {answer}"
        for place, (one, value) in enumerate(zip(answer, expected, strict=True)):
            compare(one, value, f"{where}: {place}")
    elif expected == "<url>":
        assert isinstance(answer, str), where
        assert urlsplit(answer).scheme in ("http", "https"), f"{where}: {answer}"
    elif isinstance(expected, str) and expected in KINDS:
        assert type(answer) is KINDS[expected], f"{where}: {answer!r}"
    else:
        assert answer == expected, where


def test_there_are_flows_and_each_says_what_it_is_about() -> None:
    assert len(FLOWS) >= 10
    assert all(json.loads(path.read_text())["about"] for path in FLOWS)
