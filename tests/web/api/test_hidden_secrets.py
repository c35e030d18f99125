"""A token that leaked into an address, a log or an error is not to be read there."""

import io
import json
import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any
from urllib.parse import quote

import pytest
import structlog
from httpx2 import Response
from procrastinate.exceptions import ConnectorException
from prometheus_client import generate_latest

from quillpost.core.telemetry import (
    REGISTRY,
    REQUEST_SECONDS,
    REQUESTS,
    WEBHOOK_ATTEMPTS,
    RedactingFormatter,
    configure_logging,
)
from quillpost.core.tokens import SecretKind, hide_secrets, mint_secret
from quillpost.web.middleware.requests import remove_url_secrets
from support.factories import Account, make_account, postcard
from support.test_client import TestClient
from support.traces import capture_logs

TOKEN = mint_secret("live", bytes(range(24)))
RANDOM = TOKEN.removeprefix("qp_live_")
BROWSER = {"Accept": "text/html"}


def all_of(answer: Response) -> str:
    return f"{answer.status_code} {answer.headers} {answer.text}"


@pytest.fixture
def read(http: TestClient) -> Iterator[list[Response]]:
    """What is asked and answered in a test: none of it, and no line of the log, shows the token."""
    answers: list[Response] = []
    for metric in (REQUESTS, REQUEST_SECONDS, WEBHOOK_ATTEMPTS):
        metric.clear()  # what earlier tests have counted would be read again in each
    with capture_logs() as lines:
        yield answers
    assert answers
    for answer in answers:
        assert RANDOM not in all_of(answer)
    assert RANDOM not in json.dumps(lines())
    assert RANDOM not in generate_latest(REGISTRY).decode()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"/orders/list?access_token={TOKEN}"),
        ("GET", f"/orders/list?{TOKEN}"),
        ("GET", f"/orders/list?page=1&{TOKEN}=1"),
        ("GET", "/orders/list?token=" + "".join(f"%{ord(letter):02x}" for letter in TOKEN)),
        ("GET", f"/orders/list?metadata[key]={TOKEN}"),
        ("GET", f"/orders/{TOKEN}"),
        ("GET", f"/{TOKEN}/ping"),
        ("POST", f"/send/postcard?api_key={TOKEN}"),
        ("POST", f"/stored_send/postcard/{TOKEN}"),
        ("GET", f"/orders/list?token={TOKEN[:-20]}"),
    ],
)
def test_a_call_with_a_token_in_its_address_is_refused_in_words_that_help(
    owner: Account, http: TestClient, read: list[Response], method: str, path: str
) -> None:
    read.append(owner.call(method, path, json=postcard() if method == "POST" else None))
    read.append(http.request(method, f"/api/v2{path}"))
    for answer in read:
        assert answer.status_code == 400
        assert answer.json().keys() == {"message"}
        assert "Authorization header" in answer.json()["message"]
        assert "revoke it now" in answer.json()["message"]
        assert "X-RateLimit-Limit" in answer.headers


def test_a_leaking_call_is_counted_like_any_other(http: TestClient) -> None:
    left = [int(http.get(f"/api/v2/ping?token={TOKEN}").headers["X-RateLimit-Remaining"]) for _ in range(2)]
    assert left[1] == left[0] - 1


def test_a_call_that_leaks_has_no_effect(owner: Account) -> None:
    assert owner.post(f"/send/postcard?token={TOKEN}", postcard()).status_code == 400
    assert owner.get("/orders/list").json()["meta"]["total"] == 0


@pytest.mark.parametrize("harmless", ["qp_", "qp_live_", "qp_live_short", "aqp_tests", "qp_other_" + "x" * 40])
def test_what_only_looks_a_little_like_one_is_left_alone(owner: Account, harmless: str) -> None:
    listed = owner.get(f"/orders/list?metadata[key]={harmless}")
    assert listed.status_code == 200
    assert quote(harmless) in listed.json()["links"]["first"]


PLACES = (
    f"/{TOKEN}",
    f"/?token={TOKEN}",
    f"/q/{TOKEN}",
    f"/q/ABCDEFGH?token={TOKEN}",
    f"/stop?code={TOKEN}",
    f"/stop/{TOKEN}",
    f"/receiver/{TOKEN}",
    f"/files/{TOKEN}",
    f"/hands/{TOKEN}",
    f"/assets/{TOKEN}",
    f"/docs?token={TOKEN}",
    f"/unsubscribe/{TOKEN}",
    f"/hooks/lists/{TOKEN}",
    f"/lists/import?token={TOKEN}",
    f"/settings/tokens?token={TOKEN}",
    f"/sign-in?next=/settings%3Ftoken%3D{TOKEN}",
    f"/settings/clients/{TOKEN}",
    f"/join/{TOKEN}",
    f"/reset/{TOKEN}",
    f"/oauth/authorize?client_id={TOKEN}&response_type=code",
    f"/oauth/token?client_secret={TOKEN}",
    f"/api/{TOKEN}",
    f"/health?x={TOKEN}",
    f"/metrics?x={TOKEN}",
)


@pytest.mark.parametrize("path", PLACES)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_no_page_or_endpoint_repeats_a_secret_from_its_url(
    http: TestClient, read: list[Response], method: str, path: str
) -> None:
    for headers in (BROWSER, {}):
        read.append(http.request(method, path, headers=headers, follow_redirects=False))
    assert {answer.status_code // 100 for answer in read} <= {2, 3, 4}


@pytest.mark.parametrize("kind", ["refresh", "code", "secret", "session", "known", "invitation", "reset"])
def test_every_kind_of_secret_is_one(http: TestClient, kind: SecretKind) -> None:
    secret = mint_secret(kind, secrets.token_bytes(24))
    refused = http.get(f"/api/v2/ping?x={secret}")
    assert (refused.status_code, secret in refused.text) == (400, False)


def scope(path: str = "/", query: str = "") -> dict[str, Any]:
    return {"path": path, "raw_path": path.encode(), "query_string": query.encode()}


@pytest.mark.parametrize("path", ["/join/", "/reset/"])
def test_links_that_are_made_to_hold_their_secret_keep_it(path: str) -> None:
    kind: SecretKind = "invitation" if path == "/join/" else "reset"
    link = path + mint_secret(kind, secrets.token_bytes(24))
    for kept in (scope(link), scope("/sign-in", f"next={quote(link, safe='')}")):
        before = dict(kept)
        assert (remove_url_secrets(kept), kept) == (False, before)
    other = scope(path + TOKEN)
    assert remove_url_secrets(other)
    assert RANDOM not in str(other)


def test_what_stands_beside_a_secret_stays_as_it_is() -> None:
    covered = scope(f"/a b/{TOKEN}/c", f"q=%C3%BC%26&token={TOKEN}&empty=&q=2")
    assert remove_url_secrets(covered)
    assert covered["path"] == "/a b/qp_live_[hidden]/c"
    assert covered["raw_path"] == b"/a%20b/qp_live_%5Bhidden%5D/c"
    assert covered["query_string"] == b"q=%C3%BC%26&token=qp_live_%5Bhidden%5D&empty=&q=2"


def sends(owner: Account) -> dict[str, Any]:
    """Ways to put a token where it does not belong, in a call."""
    key = {"Idempotency-Key": TOKEN}
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    csv = {"file": (f"{TOKEN}.csv", b"name\nJane", "text/csv")}
    return {
        "a key": lambda: owner.post("/send/postcard", postcard() | {TOKEN: 1}),
        "a key of a row": lambda: owner.send(recipients=[{TOKEN: TOKEN}]),
        "a key given twice": lambda: owner.call(
            "POST", "/send/postcard", content=f'{{"{TOKEN}": 1, "{TOKEN}": 2}}',
            headers={"Content-Type": "application/json"},
        ),
        "a value": lambda: owner.send(size=TOKEN),
        "a message": lambda: owner.send(message=f"%{TOKEN}%"),
        "an id": lambda: owner.send(image_template_id=TOKEN),
        "a url": lambda: owner.send(front_image_url=f"https://x.invalid/{TOKEN}"),
        "an event": lambda: owner.post("/webhooks", {"url": "https://x.example", "type": TOKEN}),
        "a receiver": lambda: owner.post("/webhooks", {"url": f"http://localhost/{TOKEN}", "type": "*"}),
        "no json": lambda: owner.call(
            "POST", "/send/postcard", content=TOKEN, headers={"Content-Type": "application/json"}
        ),
        "a form": lambda: owner.call(
            "POST", "/send/postcard", content=f"{TOKEN}={TOKEN}&size={TOKEN}", headers=form
        ),
        "a field given twice": lambda: owner.call(
            "POST", "/mailing-lists", content=f"{TOKEN}=1&{TOKEN}=2", headers=form
        ),
        "a content type": lambda: owner.call(
            "POST", "/send/postcard", content=b"{}", headers={"Content-Type": f"text/{TOKEN}"}
        ),
        "a file name": lambda: owner.call("POST", "/mailing-lists/1/import", files=csv),
        "an idempotency key": lambda: owner.post("/send/postcard", {}, headers=key),
        "the same key again": lambda: owner.post("/send/postcard", {"size": 1}, headers=key),
        "a request id": lambda: owner.get("/ping", headers={"X-Request-Id": TOKEN}),
        "an accept header": lambda: owner.get("/orders/0", headers={"Accept": TOKEN}),
        "a user agent": lambda: owner.get("/orders/0", headers={"User-Agent": TOKEN}),
        "another host": lambda: owner.get("/orders/0", headers={"X-Forwarded-Host": TOKEN}),
        "a scheme": lambda: owner.get("/ping", headers={"Authorization": f"{TOKEN} {TOKEN}"}),
        "a token that is not good": lambda: owner.get("/ping", headers={"Authorization": f"Bearer {TOKEN}"}),
        "a method": lambda: owner.call(TOKEN, "/ping"),
    }  # fmt: skip


NAMES = list(sends(Account(0, "", None)))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_no_response_repeats_a_token(owner: Account, read: list[Response], name: str) -> None:
    if name == "the same key again":
        sends(owner)["an idempotency key"]()
    read.append(sends(owner)[name]())
    assert read[0].status_code < 500


def test_the_ignored_field_that_was_a_token_is_still_named_as_one(owner: Account) -> None:
    sent = owner.post("/send/postcard", postcard() | {TOKEN: 1, "colour": 1})
    assert sent.headers["X-Ignored-Fields"] == "colour, qp_live_[hidden]"


def test_a_token_as_request_id_is_replaced_on_scans_too(http: TestClient) -> None:
    for path in ("/q/ABCDEFGH", "/health"):
        answer = http.get(path, headers={"X-Request-Id": TOKEN})
        assert answer.headers["X-Request-Id"] != TOKEN
        assert http.get(path, headers={"X-Request-Id": "mine-0001"}).headers["X-Request-Id"] == "mine-0001"


def test_a_failure_inside_shows_no_token_in_its_stack(owner: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(f"It was {TOKEN}")

    monkeypatch.setattr("quillpost.web.api.dependencies.build_tenant", fail)
    with capture_logs() as lines:
        answer = owner.get("/orders/list")
    assert answer.status_code == 500
    assert RANDOM not in all_of(answer)
    (failed,) = [line for line in lines() if line["event"] == "requests.failed"]
    assert "It was qp_live_[hidden]" in failed["exception"]


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("level", ["debug", "info", "warning", "error", "critical"])
def test_no_line_of_ours_shows_one_whatever_it_comes_in(as_json: bool, level: str) -> None:
    usual, written = structlog.get_config(), io.StringIO()
    try:
        with redirect_stderr(written):
            configure_logging(as_json=as_json, level="debug")
            log = structlog.get_logger("some.part")
            with structlog.contextvars.bound_contextvars(bound=TOKEN):
                say = getattr(log, level)
                say(f"said {TOKEN}", plain=TOKEN, nested={"list": [TOKEN, {TOKEN: (TOKEN, TOKEN.encode())}]})
                say("keyed", **{TOKEN: 1})
                try:
                    raise ValueError(TOKEN) from KeyError(TOKEN)
                except ValueError:
                    say("failed", exc_info=True)
    finally:
        structlog.configure(**usual)
    assert written.getvalue().count("qp_live_[hidden]") >= 10
    assert RANDOM not in written.getvalue()


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


@pytest.mark.parametrize("name", ["uvicorn.error", "aiohttp.client", "sqlalchemy.engine", "psycopg.pool", "asyncio"])
def test_no_line_of_a_library_shows_one(name: str) -> None:
    with written_by(name) as (logger, written):
        logger.error("GET /?token=%s of %r", TOKEN, {"token": TOKEN})
        try:
            raise ConnectionError(TOKEN)
        except ConnectionError:
            logger.exception("It broke", stack_info=True)
    assert written.getvalue().count("qp_live_[hidden]") >= 3
    assert RANDOM not in written.getvalue()


def test_each_message_of_a_library_is_one_line_when_the_database_goes_away() -> None:
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


def test_a_job_that_failed_is_written_with_its_stack() -> None:
    with written_by("procrastinate.worker.worker") as (engine, written):
        try:
            raise KeyError("stock")
        except KeyError:
            engine.exception("Job compose[id=7]() ended with status: Error")
    assert "Traceback" in written.getvalue()


def test_libraries_write_through_that_formatter() -> None:
    root = logging.getLogger()
    usual = root.handlers[:]
    root.handlers.clear()
    try:
        configure_logging(as_json=True, level="warning")
        assert [type(handler.formatter) for handler in root.handlers] == [RedactingFormatter]
    finally:
        root.handlers[:] = usual


def test_hiding_leaves_every_other_text_as_it_is() -> None:
    for text in ("", "qp_", "a qp_live_ b", "qp_live_1234567", "sqp_", "whsec_abcdefghijkl"):
        assert hide_secrets(text) == text


def test_an_answer_that_is_no_refusal_gives_back_what_was_stored(owner: Account) -> None:
    """What somebody keeps in their own metadata is theirs, to the letter."""
    order_id = owner.send(metadata={"note": TOKEN}).json()["id"]
    assert owner.get(f"/orders/{order_id}/track").json()["data"]["order"]["metadata"] == {"note": TOKEN}


def test_a_stranger_learns_nothing_of_whom_a_token_is(http: TestClient, container: Any, owner: Account) -> None:
    other = make_account(container, http, "other@example.com")
    answers = [http.get(f"/api/v2/ping?token={token}") for token in (owner.token, other.token, TOKEN)]
    assert {answer.text for answer in answers} == {answers[0].text}
