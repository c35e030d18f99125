"""A print partner on loopback that takes jobs over HTTP, as our documentation asks of one."""

import base64
import hashlib
import hmac
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

from support.fake_server import FakeRequest, FakeResponse, FakeServer, respond

SECRET = "whsec_" + base64.b64encode(b"print house secret, 32 bytes ...").decode()


class PrintServer(FakeServer):
    """Believes only what is signed, for exactly this request. `breaks_off_at` names files in whose middle it hangs up,
    as often as they are named."""

    path = "/press"

    def __init__(self) -> None:
        job = "/press/jobs/{reference}"
        super().__init__({f"PUT {job}/{{file}}": self._take, f"PUT {job}": self._take, f"GET {job}": self._tell})
        self.files: dict[str, dict[str, bytes]] = {}
        self.tickets: dict[str, dict[str, Any]] = {}
        self.progress: dict[str, Any] = {}
        self.breaks_off_at: list[str] = []
        self.stamps: list[int] = []
        self.paths: list[str] = []

    def hangs_up_on(self, request: FakeRequest) -> bool:
        self.paths.append(f"{request.method.lower()} {request.path}")
        self.stamps.append(int(request.headers["webhook-timestamp"]))
        file = request.path.rpartition("/")[2]
        if file not in self.breaks_off_at:
            return False
        self.breaks_off_at.remove(file)
        return True

    def _take(self, request: FakeRequest, reference: str, file: str | None = None) -> FakeResponse:
        if refusal := _refusal(request, is_json=file is None):
            return refusal
        digest = base64.b64encode(hashlib.sha256(request.body).digest()).decode()
        if request.headers["content-digest"] != f"sha-256=:{digest}:":
            return respond(400, b"The digest does not fit.")
        if file is not None:
            self.files.setdefault(reference, {})[file] = request.body
        else:
            self.tickets[reference] = request.json()
        return respond(201)

    def _tell(self, request: FakeRequest, reference: str) -> FakeResponse:
        known = respond(200, self.progress) if reference in self.tickets else respond(404, b"no such job")
        return _refusal(request, is_json=False) or known


def _refusal(request: FakeRequest, *, is_json: bool) -> FakeResponse | None:
    if not _is_signed(request, is_json=is_json):
        return respond(401, b"This is not signed with our secret.")
    if request.headers["webhook-id"] != f"{request.method.lower()}:{request.path.removeprefix('/press/jobs/')}":
        return respond(401, b"This signature is for another request.")
    return None


def _is_signed(request: FakeRequest, *, is_json: bool) -> bool:
    """The library of the convention reads JSON only; other bodies are checked by hand."""
    if is_json:
        try:
            Webhook(SECRET).verify(request.body, dict(request.headers))
        except WebhookVerificationError:
            return False
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    signed = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
    genuine = base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    return f"v1,{genuine}" in request.headers["webhook-signature"].split()
