"""A print partner on loopback that takes jobs over HTTP, as our documentation asks of one."""

import base64
import hashlib
import hmac
import json
import re
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

from support.fake_server import FakeRequest, FakeResponse, FakeServer, respond

SECRET = "whsec_" + base64.b64encode(b"print house secret, 32 bytes ...").decode()
PATH = re.compile(r"/press/jobs/(?P<reference>[a-z0-9-]+)(?:/(?P<file>[a-z.]+))?")


class PrintServer(FakeServer):
    """Believes only what is signed, for exactly this request. `breaks_off_at` names files in whose middle it hangs up,
    as often as they are named."""

    path = "/press"

    def __init__(self, secret: str = SECRET) -> None:
        super().__init__()
        self.secret = secret
        self.webhook = Webhook(secret)
        self.files: dict[str, dict[str, bytes]] = {}
        self.tickets: dict[str, dict[str, Any]] = {}
        self.progress: dict[str, Any] = {}
        self.breaks_off_at: list[str] = []
        self.requests: list[str] = []
        self.stamps: list[int] = []

    def hangs_up_on(self, request: FakeRequest) -> bool:
        self.requests.append(f"{request.method.lower()} {request.path}")
        self.stamps.append(int(request.headers["webhook-timestamp"]))
        file = _parse_path(request)["file"]
        if file not in self.breaks_off_at:
            return False
        self.breaks_off_at.remove(file)
        return True

    def handle(self, request: FakeRequest) -> FakeResponse:
        if self.answers:
            return self.answers.pop(0)
        parts, is_put = _parse_path(request), request.method == "PUT"
        reference, file = parts["reference"], parts["file"]
        name = f"{request.method.lower()}:{reference}" + (f"/{file}" if file else "")
        if not self._is_signed(request, is_json=is_put and file is None):
            return respond(401, b"This is not signed with our secret.")
        if request.headers["webhook-id"] != name:
            return respond(401, b"This signature is for another request.")
        if not is_put:
            return respond(200, self.progress) if reference in self.tickets else respond(404, b"no such job")
        digest = base64.b64encode(hashlib.sha256(request.body).digest()).decode()
        if request.headers["content-digest"] != f"sha-256=:{digest}:":
            return respond(400, b"The digest does not fit.")
        if file is not None:
            self.files.setdefault(reference, {})[file] = request.body
        else:
            self.tickets[reference] = json.loads(request.body)
        return respond(201)

    def _is_signed(self, request: FakeRequest, *, is_json: bool) -> bool:
        """The library of the convention reads JSON only; other bodies are checked by hand."""
        if is_json:
            try:
                self.webhook.verify(request.body, dict(request.headers))
            except WebhookVerificationError:
                return False
        key = base64.b64decode(self.secret.removeprefix("whsec_"))
        signed = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
        genuine = base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
        return f"v1,{genuine}" in request.headers["webhook-signature"].split()


def _parse_path(request: FakeRequest) -> re.Match[str]:
    match = PATH.fullmatch(request.path)
    assert match is not None
    return match
