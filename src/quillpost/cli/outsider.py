"""A caller of the HTTP API that knows an address, a token and nothing else."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from quillpost.kit.errors import NotReady

ANSWER_SECONDS = 30
TOO_MANY = 429
TRIES = 5

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Past any proxy of the environment, which could not reach a service on this machine."""


class Outsider:
    def __init__(self, base_url: str, token: str) -> None:
        self._api = f"{base_url.rstrip('/')}/api/v2"
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def get(self, path: str) -> Any:
        return json.loads(_fetched(urllib.request.Request(self._api + path, headers=self._headers)))  # noqa: S310

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        data = json.dumps(body).encode()
        return json.loads(_fetched(urllib.request.Request(self._api + path, data, self._headers)))  # noqa: S310

    def download(self, url: str) -> bytes:
        """What a signed link shows to whoever holds it: no token goes with it."""
        return _fetched(urllib.request.Request(url))  # noqa: S310


def _fetched(request: urllib.request.Request) -> bytes:
    """The answer's body; a caller that is too fast waits for as long as it is told."""
    for _ in range(TRIES):
        try:
            with DIRECT.open(request, timeout=ANSWER_SECONDS) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as refused:
            with refused:
                if refused.code != TOO_MANY:
                    raise NotReady(f"The service answered {_reason(refused)}") from None
                time.sleep(float(refused.headers.get("Retry-After") or 1))
        except OSError as fault:
            reason = getattr(fault, "reason", fault)
            raise NotReady(f"The service at {request.full_url} cannot be reached: {reason}.") from None
    raise NotReady("The service allows too few calls for this token.")


def _reason(refused: urllib.error.HTTPError) -> str:
    try:
        said = json.loads(refused.read(10_000))["message"]
    except (ValueError, KeyError, TypeError):
        said = refused.reason
    return f"{refused.code}: {said}"
