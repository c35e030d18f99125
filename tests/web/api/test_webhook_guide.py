"""The receivers that the guide to webhooks shows believe a real delivery, and nothing else."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import WebhookVerificationError

from quillpost.app.runtime import now
from quillpost.client.signatures import new_secret, sign
from quillpost.notifications.webhooks.rules import RETRY_DELAYS

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs" / "webhooks.md").read_text()
BODY = b'{"event_type":"order.status_update","event_id":"e-1","data":{"order.id":1}}'
SECRET, OTHER = new_secret(b"a" * 32), new_secret(b"b" * 32)


def examples(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


def headers(*secrets: str) -> dict[str, str]:
    return sign(secrets or [SECRET], message_id="e-1", at=now(), body=BODY)


@pytest.fixture
def shown() -> dict[str, Any]:
    names: dict[str, Any] = {}
    for example in examples("python"):
        exec(example, names)
    return names


def test_the_one_with_the_package(shown: dict[str, Any]) -> None:
    assert shown["receive"](BODY, headers(), SECRET) == json.loads(BODY)
    assert shown["receive"](BODY, headers(OTHER, SECRET), SECRET) == json.loads(BODY)
    with pytest.raises(WebhookVerificationError):
        shown["receive"](BODY, headers(), OTHER)


def test_the_one_by_hand(shown: dict[str, Any]) -> None:
    good = shown["is_genuine"]
    assert good(BODY, headers(), SECRET)
    assert good(BODY, headers(OTHER, SECRET), SECRET)
    assert not good(BODY, headers(), OTHER)
    assert not good(BODY + b" ", headers(), SECRET)
    old = str(int(now().timestamp()) - 301)
    assert not good(BODY, headers() | {"webhook-timestamp": old}, SECRET)


def test_the_one_in_node() -> None:
    node = shutil.which("node")
    if node is None or not (ROOT / "node_modules" / "standardwebhooks").exists():
        assert "NODE_IS_REQUIRED" not in os.environ, "Node.js or its package standardwebhooks is missing."
        pytest.skip("Node.js and its package standardwebhooks are not installed")
    [example] = examples("js")
    given = json.dumps([BODY.decode(), headers(), SECRET])
    script = f"{example}\nconsole.log(JSON.stringify(receive(...{given})));"
    done = subprocess.run([node, "-e", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == json.loads(BODY)


def test_the_schedule_is_ours() -> None:
    units = {"s": 1, "min": 60, "h": 3_600}
    [row] = re.findall(r"^\| we wait \| (.*) \| it has failed \|$", GUIDE, re.MULTILINE)
    waits = [wait.split() for wait in row.split(" | ")]
    assert [int(number) * units[unit] for number, unit in waits] == [wait.total_seconds() for wait in RETRY_DELAYS]
