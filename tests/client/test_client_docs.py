"""What the documentation shows of the client works as it stands, and nothing is left out."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from quillpost import client
from quillpost.client.requests import Resource
from support.client_transports import InProcessTransport
from support.factories import Account
from support.test_client import TestClient

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "client.md").read_text()
DOCUMENTS = {"README.md": (ROOT / "README.md").read_text(), "docs/client.md": PAGE}


def examples(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_examples_run(
    name: str, app: FastAPI, http: TestClient, owner: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocking, awaited = client.Quillpost, client.AsyncQuillpost
    monkeypatch.setattr(client, "Quillpost", partial(blocking, transport=InProcessTransport(http)))
    monkeypatch.setattr(client, "AsyncQuillpost", partial(awaited, transport=httpx2.ASGITransport(app=app)))
    names: dict[str, Any] = {}
    assert examples(DOCUMENTS[name])
    for example in examples(DOCUMENTS[name]):
        exec(example.replace("qp_test_...", owner.token), names)
    assert owner.get("/orders/list").json()["meta"]["total"] >= 1


def test_every_method_is_documented() -> None:
    rows = dict(re.findall(r"^\| `?(\w+)`? \| (.*) \|$", PAGE, re.MULTILINE))
    with client.Quillpost("nobody") as one:
        within = {name: found for name, found in vars(one).items() if isinstance(found, Resource)}
        for name, resource in (within | {"itself": one}).items():
            methods = {each for each in dir(resource) if not each.startswith("_")} - vars(resource).keys()
            assert set(re.findall(r"`(\w+)`", rows[name])) == methods


def test_every_failure_is_documented() -> None:
    exported = [vars(client)[name] for name in client.__all__]
    kinds = [kind for kind in exported if isinstance(kind, type) and issubclass(kind, client.QuillpostError)]
    assert [kind.__name__ for kind in kinds if f"`{kind.__name__}`" not in PAGE] == []
