"""Logs say what happened, and never a secret or a person. A token that leaked into an address or an error is not
to be read there either."""

import io
import json
import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any
from urllib.parse import quote

import pytest
import structlog
from httpx2 import Response
from procrastinate.exceptions import ConnectorException
from prometheus_client import generate_latest

from quillpost.core import telemetry
from quillpost.core.telemetry import REGISTRY, REQUEST_SECONDS, REQUESTS, RedactingFormatter, configure_logging
from quillpost.core.tokens import SecretKind, hide_secrets, mint_secret
from quillpost.web.api.responses import to_header_text
from quillpost.web.middleware.requests import remove_url_secrets
from support.factories import Account, person, postcard
from support.test_client import TestClient
from support.traces import FORM, capture_logs, send_raw

TOKEN = mint_secret("live", bytes(range(24)))
RANDOM = TOKEN.removeprefix("qp_live_")


@contextmanager
def hidden() -> Iterator[list[Response]]:
    """Of what is asked and answered meanwhile nothing, and no line of the log, shows the token."""
    answers: list[Response] = []
    for metric in (REQUESTS, REQUEST_SECONDS, telemetry.WEBHOOK_ATTEMPTS):
        metric.clear()  # what earlier calls have counted would be read again each time
    with capture_logs() as lines:
        yield answers
    assert answers
    for answer in answers:
        assert RANDOM not in f"{answer.headers} {answer.text}"
    assert RANDOM not in json.dumps(lines())
    assert RANDOM not in generate_latest(REGISTRY).decode()


LEAKING = (
    ("GET", f"/orders/list?access_token={TOKEN}"), ("GET", f"/orders/list?{TOKEN}"),
    ("GET", f"/orders/list?page=1&{TOKEN}=1"),
    ("GET", "/orders/list?token=" + "".join(f"%{ord(letter):02x}" for letter in TOKEN)),
    ("GET", f"/orders/list?metadata[key]={TOKEN}"), ("GET", f"/orders/{TOKEN}"), ("GET", f"/{TOKEN}/ping"),
    ("POST", f"/send/postcard?api_key={TOKEN}"), ("POST", f"/stored_send/postcard/{TOKEN}"),
    ("GET", f"/orders/list?token={TOKEN[:-20]}"),
)  # fmt: skip


def test_a_call_with_a_token_in_its_address_is_refused_in_words_that_help_and_has_no_effect(
    owner: Account, stranger: Account, http: TestClient, subtests: pytest.Subtests
) -> None:
    for method, path in LEAKING:
        with subtests.test(path), hidden() as answers:
            answers.append(owner.call(method, path, json=postcard() if method == "POST" else None))
            answers.append(http.request(method, f"/api/v2{path}"))
            for answer in answers:
                assert (answer.status_code, answer.json().keys()) == (400, {"message"})
                assert "Authorization header" in answer.json()["message"]
                assert "revoke it now" in answer.json()["message"]
    assert owner.get("/orders/list").json()["meta"]["total"] == 0
    # It is counted like any other, and nobody learns whose a token is.
    known = [http.get(f"/api/v2/ping?token={token}") for token in (owner.token, stranger.token, TOKEN)]
    assert {answer.text for answer in known} == {known[0].text}
    left = [int(answer.headers["X-RateLimit-Remaining"]) for answer in known]
    assert left == [left[0], left[0] - 1, left[0] - 2]
    kinds: tuple[SecretKind, ...] = ("refresh", "code", "secret", "session", "known", "invitation", "reset")
    for kind in kinds:
        secret = mint_secret(kind, secrets.token_bytes(24))
        refused = http.get(f"/api/v2/ping?x={secret}")
        assert (refused.status_code, secret in refused.text) == (400, False), kind
    for harmless in ("qp_", "qp_live_", "qp_live_short", "aqp_tests", "qp_other_" + "x" * 40):
        listed = owner.get(f"/orders/list?metadata[key]={harmless}")
        assert listed.status_code == 200, harmless
        assert quote(harmless) in listed.json()["links"]["first"]


PLACES = (
    f"/{TOKEN}", f"/?token={TOKEN}", f"/q/{TOKEN}", f"/q/ABCDEFGH?token={TOKEN}", f"/stop?code={TOKEN}",
    f"/stop/{TOKEN}", f"/receiver/{TOKEN}", f"/files/{TOKEN}", f"/hands/{TOKEN}", f"/assets/{TOKEN}",
    f"/docs?token={TOKEN}", f"/unsubscribe/{TOKEN}", f"/hooks/lists/{TOKEN}", f"/lists/import?token={TOKEN}",
    f"/settings/tokens?token={TOKEN}", f"/sign-in?next=/settings%3Ftoken%3D{TOKEN}", f"/settings/clients/{TOKEN}",
    f"/join/{TOKEN}", f"/reset/{TOKEN}", f"/oauth/authorize?client_id={TOKEN}&response_type=code",
    f"/oauth/token?client_secret={TOKEN}", f"/api/{TOKEN}", f"/health?x={TOKEN}", f"/metrics?x={TOKEN}",
)  # fmt: skip


def test_no_page_or_endpoint_repeats_a_secret_from_its_url(http: TestClient, subtests: pytest.Subtests) -> None:
    for path in PLACES:
        with subtests.test(path), hidden() as answers:
            for method in ("GET", "POST"):
                for headers in ({"Accept": "text/html"}, {}):
                    answers.append(http.request(method, path, headers=headers, follow_redirects=False))
            assert {answer.status_code // 100 for answer in answers} <= {2, 3, 4}


def scope(path: str = "/", query: str = "") -> dict[str, Any]:
    return {"path": path, "raw_path": path.encode(), "query_string": query.encode()}


def test_of_an_address_the_secret_alone_is_removed_but_not_where_links_are_made_to_hold_it() -> None:
    links: tuple[tuple[str, SecretKind], ...] = (("/join/", "invitation"), ("/reset/", "reset"))
    for path, kind in links:
        link = path + mint_secret(kind, secrets.token_bytes(24))
        for kept in (scope(link), scope("/sign-in", f"next={quote(link, safe='')}")):
            before = dict(kept)
            assert (remove_url_secrets(kept), kept) == (False, before)
        other = scope(path + TOKEN)
        assert remove_url_secrets(other)
        assert RANDOM not in str(other)
    covered = scope(f"/a b/{TOKEN}/c", f"q=%C3%BC%26&token={TOKEN}&empty=&q=2")
    assert remove_url_secrets(covered)
    assert (covered["path"], covered["raw_path"]) == ("/a b/qp_live_[hidden]/c", b"/a%20b/qp_live_%5Bhidden%5D/c")
    assert covered["query_string"] == b"q=%C3%BC%26&token=qp_live_%5Bhidden%5D&empty=&q=2"
    for text in ("", "qp_", "a qp_live_ b", "qp_live_1234567", "sqp_", "whsec_abcdefghijkl"):
        assert hide_secrets(text) == text
    token = mint_secret("test", b"\xab" * 24)
    shown = to_header_text(", ".join(["x", *[token] * 300]))
    assert shown.count("[hidden]") > 10
    assert token[8:16] not in shown, "where it is cut off, too"


def raw(owner: Account, path: str, kind: str, content: str) -> Response:
    return owner.call("POST", path, content=content, headers={"Content-Type": kind})


CSV = {"file": (f"{TOKEN}.csv", b"name\nJane", "text/csv")}
KEY = {"Idempotency-Key": TOKEN}
SENDS: dict[str, Callable[[Account], Response]] = {
    "a key": lambda owner: owner.post("/send/postcard", postcard() | {TOKEN: 1}),
    "a key of a row": lambda owner: owner.send(recipients=[{TOKEN: TOKEN}]),
    "a key given twice": lambda owner: send_raw(owner, f'{{"{TOKEN}": 1, "{TOKEN}": 2}}'),
    "a value": lambda owner: owner.send(size=TOKEN),
    "a message": lambda owner: owner.send(message=f"%{TOKEN}%"),
    "an id": lambda owner: owner.send(image_template_id=TOKEN),
    "a url": lambda owner: owner.send(front_image_url=f"https://x.invalid/{TOKEN}"),
    "an event": lambda owner: owner.post("/webhooks", {"url": "https://x.example", "type": TOKEN}),
    "a receiver": lambda owner: owner.post("/webhooks", {"url": f"http://localhost/{TOKEN}", "type": "*"}),
    "no json": lambda owner: send_raw(owner, TOKEN),
    "a form": lambda owner: send_raw(owner, f"{TOKEN}={TOKEN}&size={TOKEN}", FORM),
    "a field given twice": lambda owner: raw(owner, "/mailing-lists", FORM, f"{TOKEN}=1&{TOKEN}=2"),
    "a content type": lambda owner: send_raw(owner, "{}", f"text/{TOKEN}"),
    "a file name": lambda owner: owner.call("POST", "/mailing-lists/1/import", files=CSV),
    "an idempotency key": lambda owner: owner.post("/send/postcard", {}, headers=KEY),
    "the same key again": lambda owner: owner.post("/send/postcard", {"size": 1}, headers=KEY),
    "a request id": lambda owner: owner.get("/ping", headers={"X-Request-Id": TOKEN}),
    "an accept header": lambda owner: owner.get("/orders/0", headers={"Accept": TOKEN}),
    "a user agent": lambda owner: owner.get("/orders/0", headers={"User-Agent": TOKEN}),
    "another host": lambda owner: owner.get("/orders/0", headers={"X-Forwarded-Host": TOKEN}),
    "a scheme": lambda owner: owner.get("/ping", headers={"Authorization": f"{TOKEN} {TOKEN}"}),
    "a token that is not good": lambda owner: owner.get("/ping", headers={"Authorization": f"Bearer {TOKEN}"}),
    "a method": lambda owner: owner.call(TOKEN, "/ping"),
}
"""Ways to put a token where it does not belong, in a call."""


def test_no_response_repeats_a_token(owner: Account, http: TestClient, subtests: pytest.Subtests) -> None:
    for name, send in SENDS.items():
        with subtests.test(name), hidden() as answers:
            answers.append(send(owner))
            assert answers[0].status_code < 500
    sent = owner.post("/send/postcard", postcard() | {TOKEN: 1, "colour": 1})
    assert sent.headers["X-Ignored-Fields"] == "colour, qp_live_[hidden]"
    for path in ("/q/ABCDEFGH", "/health"):
        given = [
            http.get(path, headers={"X-Request-Id": each}).headers["X-Request-Id"] for each in (TOKEN, "mine-0001")
        ]
        assert (given[0] != TOKEN, given[1]) == (True, "mine-0001")
    # What somebody keeps in their own metadata is theirs, to the letter.
    order_id = owner.send(metadata={"note": TOKEN}).json()["id"]
    assert owner.get(f"/orders/{order_id}/track").json()["data"]["order"]["metadata"] == {"note": TOKEN}


def test_a_failure_inside_shows_no_token_in_its_stack(owner: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(f"It was {TOKEN}")

    monkeypatch.setattr("quillpost.web.api.dependencies.build_tenant", fail)
    with capture_logs() as lines:
        answer = owner.get("/orders/list")
    (failed,) = [line for line in lines() if line["event"] == "requests.failed"]
    assert (answer.status_code, "It was qp_live_[hidden]" in failed["exception"]) == (500, True)
    assert RANDOM not in f"{answer.headers} {answer.text} {lines()}"


def test_neither_a_secret_nor_a_person_is_in_the_logs_but_each_call_is(owner: Account, http: TestClient) -> None:
    jane = person(name="Jane Quimby", address="7734 Hemlock Row", email="jane.quimby@example.com", phone="5125550199")
    with capture_logs() as lines:
        order_id = owner.send(recipients=[jane], message="Dear Hortensia").json()["id"]
        hook = owner.post("/webhooks", {"url": "https://hooks.example.com/k3y", "type": "*"}).json()
        preview = owner.send(recipients=[jane], preview=True).json()["data"]["previews"][0]
        http.get(preview)
        owner.get(f"/orders/{order_id}/items")
        owner.get("/orders/list?created_after=5125550199")
        owner.send(recipients=[jane | {"postal_code": "1"}])
        send_raw(owner, b'{"recipients": [{"name": "Jane Quimby"')
        http.get("/api/v2/ping", headers={"Authorization": "Bearer qp_test_guessed"})
        owner.call("PUT", f"/orders/{order_id}/cancel", headers={"Idempotency-Key": "k3y-of-mine"})
        answer = owner.get("/orders/77")
    found, line = lines(), lines()[-1]
    secrets = (
        owner.token, "qp_test_guessed", hook["secret"], "hooks.example.com", "k3y",
        preview.rpartition("/")[2], "Quimby", "Hemlock", "jane.quimby", "5125550199", "Hortensia",
    )  # fmt: skip
    assert [secret for secret in secrets if secret in json.dumps(found)] == []
    assert line["route"].endswith("/orders/{order_id}")
    assert (line["event"], line["method"], line["status"]) == ("requests.completed", "GET", 404)
    assert (line["account"], line["request_id"]) == (owner.id, answer.headers["X-Request-Id"])


def test_no_line_of_ours_shows_one_whatever_it_comes_in(subtests: pytest.Subtests) -> None:
    for as_json in (True, False):
        for level in ("debug", "info", "warning", "error", "critical"):
            with subtests.test(f"{level}, {as_json=}"):
                written = write_lines_with_the_token(as_json, level)
                assert written.count("qp_live_[hidden]") >= 10
                assert RANDOM not in written


def write_lines_with_the_token(as_json: bool, level: str) -> str:
    written = io.StringIO()
    with redirect_stderr(written):
        configure_logging(as_json=as_json, level="debug")
        say = getattr(structlog.get_logger("some.part"), level)
        with structlog.contextvars.bound_contextvars(bound=TOKEN):
            say(f"said {TOKEN}", plain=TOKEN, nested={"list": [TOKEN, {TOKEN: (TOKEN, TOKEN.encode())}]})
            say("keyed", **{TOKEN: 1})
            try:
                raise ValueError(TOKEN) from KeyError(TOKEN)
            except ValueError:
                say("failed", exc_info=True)
    return written.getvalue()


@contextmanager
def written_by(name: str) -> Iterator[tuple[logging.Logger, io.StringIO]]:
    """A library's logger, and what it writes through our formatter."""
    written, logger = io.StringIO(), logging.getLogger(name)
    handler = logging.StreamHandler(written)
    handler.setFormatter(RedactingFormatter("%(name)s: %(message)s"))
    logger.addHandler(handler)
    try:
        yield logger, written
    finally:
        logger.removeHandler(handler)


def test_no_line_of_a_library_shows_one() -> None:
    for name in ("uvicorn.error", "aiohttp.client", "sqlalchemy.engine", "psycopg.pool", "asyncio"):
        with written_by(name) as (logger, written):
            logger.error("GET /?token=%s of %r", TOKEN, {"token": TOKEN})
            try:
                raise ConnectionError(TOKEN)
            except ConnectionError:
                logger.exception("It broke", stack_info=True)
        assert written.getvalue().count("qp_live_[hidden]") >= 3, name
        assert RANDOM not in written.getvalue(), name


def test_each_message_of_a_library_is_one_line_by_our_formatter() -> None:
    """Dozens come within a second, and an operator has to see ours among them."""
    with written_by("psycopg.pool") as (pool, written):
        pool.warning("connection to %s failed\n\tIs the server running?", "/run")
    assert written.getvalue() == "psycopg.pool: connection to /run failed Is the server running?\n"
    with written_by("procrastinate.worker.worker") as (engine, written):
        try:
            raise ConnectorException
        except ConnectorException:
            engine.exception("Side task failed: \n    Database error.\n    , stopping worker")
    [line] = written.getvalue().splitlines()
    assert line == "procrastinate.worker.worker: Side task failed: Database error. , stopping worker"
    # A job that failed has its stack.
    with written_by("procrastinate.worker.worker") as (engine, written):
        try:
            raise KeyError("stock")
        except KeyError:
            engine.exception("Job compose[id=7]() ended with status: Error")
    assert "Traceback" in written.getvalue()
    root = logging.getLogger()
    usual = root.handlers[:]
    root.handlers.clear()
    try:
        configure_logging(as_json=True, level="warning")
        assert [type(handler.formatter) for handler in root.handlers] == [RedactingFormatter]
    finally:
        root.handlers[:] = usual
