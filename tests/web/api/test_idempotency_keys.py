"""A call made twice with one Idempotency-Key happens once and is answered twice."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from fastapi import Response as Answer
from httpx2 import Response

from quillpost.accounts import service as account_service
from quillpost.accounts.models import Caller
from quillpost.accounts.queries import insert_token
from quillpost.app.container import Container
from quillpost.core.database.engine import lock_number
from quillpost.core.database.tables.base import idempotency_keys, tokens
from quillpost.core.errors import Conflict, Unavailable
from quillpost.web.api import idempotency
from quillpost.web.api.idempotency import create_claim
from quillpost.web.application import create_app
from support.factories import Account, Build, Clock, count_rows, make_sub_account, make_teammate, postcard
from support.rows import execute, run
from support.test_client import TestClient
from support.traces import JSON, assert_refused, unchanged

# Each process has one session for the keys of its calls, and holds nothing else by it.
END_HOLDERS = """
    select pg_terminate_backend(l.pid, 5000) from pg_locks l join pg_database d on d.oid = l.database
     where l.locktype = 'advisory' and d.datname = current_database() group by l.pid
"""
HOOK = {"url": "https://example.com/hook", "type": "*"}


def keyed(account: Account, path: str, body: Any, key: str = "order-1") -> Response:
    return account.post(path, body, headers={"Idempotency-Key": key})


def send(account: Account, key: str = "order-1", **changes: Any) -> Response:
    return keyed(account, "/send/postcard", postcard(**changes), key)


def kept(container: Container, account: Account) -> list[Any]:
    return execute(container, sa.select(idempotency_keys).filter_by(account_id=account.id))


def test_the_second_call_gets_the_first_answer_and_makes_nothing(owner: Account, container: Container) -> None:
    first = send(owner, typo=1)
    with unchanged(container):
        second = send(owner, typo=1)
        other = send(owner, message="Something else")
    assert (second.status_code, second.content) == (first.status_code, first.content)
    assert second.headers["Content-Type"] == first.headers["Content-Type"]
    assert second.headers["X-Ignored-Fields"] == "typo"
    assert second.headers["X-Request-Id"] != first.headers["X-Request-Id"]
    assert (other.status_code, list(other.json()), "Retry-After" in other.headers) == (409, ["message"], False)
    path = f"/orders/{first.json()['id']}/cancel"
    cancelled, again = (keyed(owner, path, None, "c") for _ in range(2))
    assert (cancelled.status_code, again.content, owner.post(path).status_code) == (200, cancelled.content, 400)
    assert owner.send().json()["id"] != owner.send().json()["id"], "without a key each call counts"


def test_a_refusal_is_kept_under_a_valid_key(subtests: pytest.Subtests, owner: Account, container: Container) -> None:
    refused, again = (send(owner, message="") for _ in range(2))
    assert (refused.status_code, again.content) == (422, refused.content)
    assert send(owner).status_code == 409
    for _ in range(2):
        unknown = keyed(owner, f"/orders/{10**9}/cancel", None, "c")
        assert (unknown.status_code, unknown.json()) == (404, {"message": "Not Found"})
    assert len(kept(container, owner)) == 2
    unreadable: dict[str, Any] = {"content": b"{", "headers": {"Idempotency-Key": "k", "Content-Type": JSON}}
    first, second = (owner.call("POST", "/send/postcard", **unreadable) for _ in range(2))
    assert (first.status_code, second.content) == (422, first.content)
    bad_keys = [(key, "Idempotency-Key") for key in ("", "x" * 256, "tab\there")]
    assert_refused(subtests, container, lambda key: send(owner, key=key), bad_keys)
    for number in ("%00", "9" * 9_000, "%C3%A9"):  # an odd path is simply not found
        answer = owner.post(f"/orders/{number}/replay", headers={"Idempotency-Key": "odd"})
        assert (answer.status_code, answer.json()) == (404, {"message": "Not Found"})


def test_a_key_is_of_one_account_path_scope_and_mode(owner: Account, stranger: Account, container: Container) -> None:
    branches = [make_teammate(container, owner, make_sub_account(container, owner, title)) for title in "AB"]
    with container.db.system_transaction() as tx:
        limited = insert_token(tx, owner.id, mode="test", name="x", scopes=["send:write"], now=container.clock())[1]
    callers = [owner, stranger, *branches, replace(owner, token=limited)]
    answers = [send(caller) for caller in callers]
    assert len({answer.json()["id"] for answer in answers}) == len(callers)
    assert keyed(owner, "/webhooks", HOOK).status_code == 201
    assert send(owner, key="order-2").json()["id"] != answers[0].json()["id"]
    assert keyed(owner, "/send/postcard/", postcard()).content == answers[0].content
    execute(container, sa.update(tokens).where(tokens.c.account_id == owner.id).values(mode="live"))
    assert send(owner).status_code == 422  # live mail needs a return address: not the kept answer


def test_a_key_is_forgotten_after_a_day(owner: Account, clock: Clock, container: Container) -> None:
    first = send(owner).json()["id"]
    clock.advance(hours=24)
    assert send(owner).json()["id"] == first
    clock.advance(seconds=1)
    assert send(owner).json()["id"] != first
    clock.advance(days=2)
    account_service.delete_expired_idempotency_keys(container.db, now=clock.now())
    assert kept(container, owner) == []


def test_calls_that_came_to_nothing_are_not_kept(
    owner: Account, container: Container, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(url: str) -> str | None:
        raise Unavailable("Not now.")

    def crashing(url: str) -> str | None:
        raise RuntimeError("never")

    for error, status in ((failing, 503), (crashing, 500)):
        broken = create_app(replace(build(), check_url=error))
        with TestClient(broken, raise_server_exceptions=False) as http:
            assert keyed(replace(owner, http=http), "/webhooks", HOOK).status_code == status
    assert keyed(replace(owner, token="qp_test_unknown"), "/webhooks", HOOK).status_code == 401
    with TestClient(create_app(build(calls_a_minute=1))) as http:
        throttled = replace(owner, http=http)
        throttled.get("/ping")
        assert send(throttled).status_code == 429
    with monkeypatch.context() as patch:  # also where a failure is returned, not raised
        patch.setattr(idempotency, "UNSTORED_STATUSES", frozenset({201}))
        assert keyed(owner, "/webhooks", HOOK).status_code == 201
    assert kept(container, owner) == []
    assert keyed(owner, "/webhooks", HOOK).status_code == 201
    statuses = (200, 201, 400, 401, 402, 403, 404, 415, 422, 429, 500, 503)
    assert [status for status in statuses if idempotency.is_stored(status)] == [200, 201, 400, 403, 404, 415, 422]


def run_slowly(owner: Account, build: Build, meanwhile: Callable[[], Response]) -> tuple[Response, Response]:
    """A call that is held up until another was answered."""
    entered, go_on = Event(), Event()

    def slow(url: str) -> str | None:
        entered.set()
        assert go_on.wait(30)
        return None

    with TestClient(create_app(replace(build(), check_url=slow))) as http, ThreadPoolExecutor(1) as pool:
        first = pool.submit(keyed, replace(owner, http=http), "/webhooks", HOOK)
        assert entered.wait(30)
        try:
            other = meanwhile()
        finally:
            go_on.set()
        return first.result(30), other


def test_a_second_call_while_the_first_runs_must_wait(owner: Account, container: Container, build: Build) -> None:
    answered, second = run_slowly(owner, build, lambda: keyed(owner, "/webhooks", HOOK))
    assert (second.status_code, second.headers["Retry-After"], answered.status_code) == (409, "1", 201)
    assert keyed(owner, "/webhooks", HOOK).content == answered.content
    assert count_rows(container)["webhooks"] == 1


def end_sessions_that_hold_keys(container: Container) -> int:
    """As if their processes had died, or lost the database."""
    with psycopg.connect(container.db.conninfo) as administrator:
        return len(administrator.execute(END_HOLDERS).fetchall())


def test_a_key_whose_holder_is_gone_is_free_at_once(owner: Account, container: Container) -> None:
    """A process took it, and died."""
    claim = create_claim(Caller(owner.id, "test"), "/api/v2/webhooks", "order-1", b"")
    with psycopg.connect(container.db.worker_conninfo, autocommit=True) as holder:
        lock = lock_number(idempotency.IdempotencyLock(container.db, claim).name)
        holder.execute("select pg_advisory_lock(%s)", [lock])
        refused = keyed(owner, "/webhooks", HOOK)
        assert (refused.status_code, refused.headers["Retry-After"]) == (409, "1")
        holder.execute("select pg_advisory_unlock(%s)", [lock])
    assert keyed(owner, "/webhooks", HOOK).status_code == 201


def test_a_call_that_lost_its_session_leaves_it_to_another(owner: Account, container: Container, build: Build) -> None:
    def take_over() -> Response:
        assert end_sessions_that_hold_keys(container) == 1
        return keyed(owner, "/webhooks", HOOK)

    late, second = run_slowly(owner, build, take_over)
    assert (second.status_code, late.status_code, late.headers["Retry-After"]) == (201, 409, "1")
    assert count_rows(container)["webhooks"] == 1
    assert keyed(owner, "/webhooks", HOOK).content == second.content


def test_a_process_that_lost_its_session_opens_another(owner: Account, container: Container) -> None:
    assert send(owner, key="one").status_code == 200
    assert container.db.locks.acquire("a call that runs")
    assert not container.db.locks.acquire("a call that runs"), "nor does another thread of its process have it"
    assert end_sessions_that_hold_keys(container) == 1
    assert send(owner, key="two").status_code == 200
    assert end_sessions_that_hold_keys(container) == 1, "what still runs is held again"
    container.db.locks.release("a call that runs")


def test_an_answer_is_kept_once(owner: Account, container: Container, clock: Clock) -> None:
    claim = create_claim(Caller(owner.id, "test"), "/path", "k", b"")
    shown = Answer(owner.get("/ping").content, media_type="application/json")
    run(container, idempotency.store_response, container.encryptor, claim, shown, now=clock.now())
    with container.db.system_transaction() as tx, pytest.raises(Conflict):
        idempotency.store_response(tx, container.encryptor, claim, shown, now=clock.now())


def test_a_secret_is_answered_again_for_ten_minutes_only(owner: Account, container: Container, clock: Clock) -> None:
    first = keyed(owner, "/webhooks", HOOK)
    secret = first.json()["secret"]
    clock.advance(minutes=10)
    second = keyed(owner, "/webhooks", HOOK)
    assert second.content == first.content
    assert first.headers["Cache-Control"] == second.headers["Cache-Control"] == "no-store"
    assert not any("x-holds-secret" in answer.headers for answer in (first, second))
    [row] = kept(container, owner)
    assert row.sealed
    assert secret.encode() not in b"".join(bytes(str(value), "utf-8") for value in row)
    assert secret.removeprefix("whsec_").encode() not in bytes(row.answer_body)
    assert b"example.com" not in bytes(row.answer_body)
    clock.advance(seconds=1)
    third = keyed(owner, "/webhooks", HOOK)
    assert (third.json()["id"] != first.json()["id"], third.json()["secret"] != secret) == (True, True)
