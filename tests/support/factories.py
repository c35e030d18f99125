"""People, sends and time, made for tests."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Unpack

import sqlalchemy as sa
from httpx2 import Response

from quillpost.accounts import service
from quillpost.accounts.models import Caller
from quillpost.accounts.queries import insert_token
from quillpost.app import tasks as app_tasks
from quillpost.app.container import Container
from quillpost.client.recipients import InlineRecipient
from quillpost.core.database.engine import Tx
from quillpost.core.database.tables.base import accounts, metadata, sub_accounts
from quillpost.fulfillment.review.service import PAUSE_WARNING
from support.rows import execute, scalar
from support.test_client import TestClient

Build = Callable[..., Container]
"""Makes parts with other settings than usual: the fixture `build`."""

CHANGES_WITH_EVERY_CALL = {"idempotency_keys", "rate_windows", "tokens"}
GIFT: dict[str, Any] = {"giftcard_brand": "brindlewick", "giftcard_amount": 2_500}
"""A card that the shipped catalogue has."""


class Clock:
    """Time as the test says."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._now = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)

    def now(self) -> datetime:
        return self._now

    def advance(self, **time: float) -> None:
        self._now += timedelta(**time)


@dataclass(frozen=True)
class Account:
    """Someone with a token, and the means to use it."""

    id: int
    token: str
    http: TestClient
    sub_account_id: int | None = None

    def call(self, method: str, path: str, **how: Any) -> Response:
        headers = {"Authorization": f"Bearer {self.token}"} | how.pop("headers", {})
        return self.http.request(method, f"/api/v2{path}", headers=headers, **how)

    def get(self, path: str, **how: Any) -> Response:
        return self.call("GET", path, **how)

    def post(self, path: str, json: Any = None, **how: Any) -> Response:
        return self.call("POST", path, json=json, **how)

    def put(self, path: str, json: Any = None, **how: Any) -> Response:
        return self.call("PUT", path, json=json, **how)

    def delete(self, path: str, **how: Any) -> Response:
        return self.call("DELETE", path, **how)

    def send(self, piece: str = "postcard", /, **changes: Any) -> Response:
        """A good piece, but for the changes."""
        gift = GIFT if piece == "giftcard" else {}
        return self.post(f"/send/{piece}", postcard(**gift | changes))


def make_account(
    container: Container, http: TestClient, email: str, *, mode: str = "test", scopes: list[str] | None = None
) -> Account:
    with container.db.system_transaction() as tx:
        account_id = service.create_account(tx, email=email, name="Dana Whitfield", now=container.clock())
        token = insert_token(tx, account_id, mode=mode, name="test", scopes=scopes, now=container.clock())[1]
    return Account(account_id, token, http)


def make_operator(container: Container, http: TestClient, email: str = "operator@example.com", **how: Any) -> Account:
    """Someone who runs the service."""
    made = make_account(container, http, email, **how)
    execute(container, sa.update(accounts).where(accounts.c.id == made.id).values(is_operator=True))
    return made


def make_sub_account(container: Container, owner: Account | Caller, title: str = "Branch", **columns: Any) -> int:
    now, account_id = container.clock(), owner.id if isinstance(owner, Account) else owner.account_id
    usual = {"branding": {}, "backgrounds": {}, "created_at": now, "updated_at": now}
    made = sa.insert(sub_accounts).values(account_id=account_id, title=title, **usual | columns)
    return int(scalar(container, made.returning(sub_accounts.c.id)))


def make_teammate(container: Container, owner: Account, sub_account_id: int | None, mode: str = "test") -> Account:
    """Of the same account, but limited to one sub account."""
    with container.db.system_transaction() as tx:
        known: dict[str, Any] = {"mode": mode, "name": "teammate", "sub_account_id": sub_account_id}
        token = insert_token(tx, owner.id, now=container.clock(), **known)[1]
    return Account(owner.id, token, owner.http, sub_account_id)


def make_live(container: Container, owner: Account) -> Account:
    """The same account in the mode that sends real mail."""
    return make_teammate(container, owner, None, mode="live")


def without_readiness_warning(warnings: Iterable[str]) -> list[str]:
    """Warnings, less the one that services of tests, which can mail nothing, give every live sender."""
    return [warning for warning in warnings if not warning.startswith(PAUSE_WARNING)]


def make_inline_recipient(**changes: Unpack[InlineRecipient]) -> InlineRecipient:
    """Someone as our client has them."""
    jane: InlineRecipient = {"name": "Jane Doe", "address": "12 Main St", "city": "Austin"}
    return {**jane, "province": "TX", "postal_code": "78701", **changes}


def make_inline_recipients(how_many: int) -> list[InlineRecipient]:
    return [make_inline_recipient(name=f"Person {n}", address=f"{n} Main St") for n in range(1, how_many + 1)]


def person(**changes: Any) -> dict[str, Any]:
    """Someone as anybody may write them, rightly or wrongly."""
    return {**make_inline_recipient(), **changes}


def people(how_many: int) -> list[dict[str, Any]]:
    return [person(**each) for each in make_inline_recipients(how_many)]


def postcard(**changes: Any) -> dict[str, Any]:
    """To Jane, and to Jane again: most tests send to her more often than anyone likes to be mailed."""
    message = "Hi %FIRST_NAME%, see you soon!"
    return {"recipients": [person()], "message": message, "allow_duplicates": True} | changes


def read_warnings(answer: Response) -> list[str]:
    """What an answer warns of: its header is a JSON array."""
    found: list[str] = json.loads(answer.headers.get("X-Warnings", "[]"))
    return found


def run_jobs_for(container: Container, clock: Clock, *, seconds: int) -> None:
    """Let time pass second by second, doing each job when it is due, as a worker would."""
    for _ in range(seconds):
        clock.advance(seconds=1)
        run_due_jobs(container)


TAKE_JOB = sa.text(
    """
    update procrastinate_jobs set status = 'doing' where id = (
        select id from procrastinate_jobs
         where status = 'todo' and coalesce(scheduled_at, :now) <= :now order by id limit 1)
    returning id, task_name, args
    """
)


def run_due_jobs(container: Container) -> None:
    """Run every job whose time has come by the test's clock, and those that these book."""
    rows_of_others = getattr(container.db, "has_rows_of_other_tests", False)
    assert not rows_of_others, "Jobs are run for everybody: ask for the fixture `clean_database`."
    tasks = {task.name: task for task in app_tasks.build_tasks(container)}
    while True:
        with container.db.system_transaction() as tx:
            job = tx.execute(TAKE_JOB, {"now": container.clock()}).first()
        if job is None:
            return
        tasks[job.task_name].run(**job.args)
        execute(container, "update procrastinate_jobs set status = 'succeeded' where id = :id", id=job.id)


WRITERS, CONTENTS = "xmin::text::bigint", "hashtext(t::text)::bigint"
"""Who wrote a row last is known without reading it; what is in it is the same in another database."""


def snapshot_rows(container: Container, of: str = WRITERS) -> dict[str, tuple[int, int]]:
    """Of every table how many rows it has, and a number that changes when one of them does."""
    with container.db.system_transaction() as tx:
        return rows_of(tx, traced_tables(), of)


def traced_tables() -> list[str]:
    return [*(name for name in metadata.tables if name not in CHANGES_WITH_EVERY_CALL), "procrastinate_jobs"]


def rows_of(tx: Tx, tables: Sequence[str], of: str = WRITERS) -> dict[str, tuple[int, int]]:
    each = (f"select '{table}', count(*), coalesce(sum({of}), 0)::bigint from {table} t" for table in tables)
    rows = tx.execute(sa.text(" union all ".join(each))).all()
    return {name: (how_many, content) for name, how_many, content in rows}


def count_rows(container: Container) -> dict[str, int]:
    """How many rows there are of everything that a call could leave behind."""
    return {name: how_many for name, (how_many, _) in snapshot_rows(container).items()}
