"""Mailing lists and their people, made through the API, by files, or written straight into the tables."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from httpx2 import Response

from quillpost.accounts.billing import service as billing_service
from quillpost.accounts.billing.rules import Tariff
from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core import jobs
from quillpost.core.database import Tx
from quillpost.core.database.engine import insert_rows
from quillpost.core.database.tables.base import items, ledger_moves, mailing_lists, orders, recipients
from quillpost.core.database.tables.notifications import webhooks
from quillpost.orders.audience.queries import PERSON_COLUMNS, AudienceCriteria
from quillpost.orders.items import queries as item_queries
from quillpost.orders.rules import MATERIALIZE_TASK
from quillpost.recipients.imports import tasks as import_tasks
from quillpost.recipients.models import DERIVED_COLUMNS
from quillpost.recipients.rules import validate_recipient
from support.factories import Account, make_live, person
from support.orders import CENTS, REVIEW
from support.rows import execute, scalar

TAKEN = "This address is already on this mailing list."
NO_LIST = "Mailing List Does Not Exist"
NO_SUB_ACCOUNT = "Sub Account ID does not exist"


@dataclass(frozen=True)
class ListOwner:
    """Someone who keeps lists."""

    account: Account

    def make(self, description: str = "Visitors", **fields: Any) -> int:
        made = self.account.post("/mailing-lists", {"description": description} | fields)
        assert made.status_code == 201, made.text
        return int(made.json()["id"])

    def read(self, list_id: int) -> dict[str, Any]:
        found: dict[str, Any] = self.account.get(f"/mailing-lists/{list_id}").json()
        return found

    def add(self, list_id: int, **fields: Any) -> Response:
        """Jane Doe, but for the changes."""
        return self.account.post("/recipients", person(mailing_list_id=list_id) | fields)

    def add_email(self, list_id: int, email: str, **fields: Any) -> int:
        body = {"mailing_list_id": list_id, "email": email} | fields
        return int(self.account.post("/recipients", body).json()["id"])

    def fill(self, list_id: int, *streets: str) -> list[int]:
        rows = [person(mailing_list_id=list_id, address=street) for street in streets]
        return [row["id"] for row in self.account.post("/recipients_multi", rows).json()]

    def on(self, list_id: int) -> list[dict[str, Any]]:
        """Everyone on the list, as they were added."""
        found: list[dict[str, Any]] = self.account.get(f"/mailing-lists/{list_id}/recipients").json()["data"]
        return found

    def put(self, path: str, body: dict[str, Any]) -> Response:
        return self.account.call("PUT", path, json=body)

    def delete(self, path: str) -> Response:
        return self.account.call("DELETE", path)


def message(response: Response) -> tuple[int, str]:
    return response.status_code, response.json()["message"]


def field_errors(response: Response) -> dict[str, list[str]]:
    assert response.status_code == 422, response.text
    found: dict[str, list[str]] = response.json()["errors"]
    return found


def ids(rows: Iterable[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


def recipients_of_order(
    container: Container, account: Account, list_id: int, *, status: str, mode: str = "test"
) -> int:
    """An order that was sent to this list and stands there."""
    order_id = int(account.send().json()["id"])
    execute(
        container,
        sa.update(orders).where(orders.c.id == order_id).values(mailing_list_ids=[list_id], status=status, mode=mode),
    )
    return order_id


def subscribe_to_list(container: Container, account: Account, list_id: int, sub_account_id: int) -> list[int]:
    """Subscriptions to the list's events: in each mode the account's and the sub account's."""
    body = {"url": "https://example.com/hook", "type": "*", "mailing_list_id": list_id}
    made = [
        caller.post("/webhooks", body | {"sub_account_id": home})
        for caller in (account, make_live(container, account))
        for home in (None, sub_account_id)
    ]
    return [int(answer.json()["id"]) for answer in made]


def subscription_scopes(container: Container, hooks: Iterable[int]) -> list[tuple[int | None, int | None]]:
    """Of each subscription: its list and its sub account."""
    with container.db.system_transaction() as tx:
        found = tx.execute(
            sa.select(webhooks.c.mailing_list_id, webhooks.c.sub_account_id)
            .where(webhooks.c.id.in_(list(hooks)))
            .order_by(webhooks.c.id)
        )
        return [(list_id, home) for list_id, home in found]


HEAD = "Name,Street,City,State,Zip\n"
JANE = "Jane Doe,12 Main St,Austin,TX,78701\n"
JOHN = "John Roe,14 Main St,Austin,TX,78701\n"


def import_context(container: Container) -> import_tasks.ImportContext:
    return import_tasks.ImportContext(container.db, container.storage.store, container.clock)


@dataclass(frozen=True)
class Importer:
    """Someone who fills lists from files."""

    lists: ListOwner
    container: Container

    def upload(
        self,
        list_id: int,
        data: str | bytes = HEAD + JANE + JOHN,
        *,
        name: str = "people.csv",
        headers: dict[str, str] | None = None,
        to: str | None = None,
        **fields: Any,
    ) -> Response:
        raw = data.encode() if isinstance(data, str) else data
        path = to or f"/mailing-lists/{list_id}/import"
        files = {"file": (name, raw)}
        return self.lists.account.call("POST", path, files=files, data=fields, headers=headers or {})

    def fill(self, import_id: int) -> dict[str, Any]:
        """The import, after its job has run."""
        import_tasks.run_import(import_context(self.container), import_id)
        return self.read(import_id)

    def run(self, list_id: int, data: str | bytes, **how: Any) -> dict[str, Any]:
        """The import of a file, from upload to end."""
        begun = self.upload(list_id, data, **how)
        assert begun.status_code == 202, begun.text
        return self.fill(begun.json()["id"])

    def read(self, import_id: int) -> dict[str, Any]:
        found: dict[str, Any] = self.lists.account.get(f"/imports/{import_id}").json()
        return found

    def rejected(self, import_id: int) -> list[list[str]]:
        answer = self.lists.account.get(f"/imports/{import_id}/rejected.csv")
        assert answer.status_code == 200, answer.text
        return list(csv.reader(io.StringIO(answer.text, newline="")))

    def names(self, list_id: int) -> list[str]:
        found = self.lists.account.get(f"/mailing-lists/{list_id}/recipients?items_per_page=1000").json()
        return [row["name"] for row in found["data"]]

    @property
    def files(self) -> list[str]:
        return list(self.container.storage.store.keys("imports/"))


def counts(done: dict[str, Any]) -> tuple[int, int, int, int]:
    return done["rows_read"], done["rows_imported"], done["rows_rejected"], done["duplicates"]


CREATIVE = UUID("5a6f1c52-9d0e-4c57-8f6f-3f6a35b8a001")


def make_list(
    container: Container, caller: Caller, whom: Sequence[dict[str, Any]] = (), *,
    sub_account_id: int | None = None, suppresses: bool = False,
) -> int:  # fmt: skip
    """A list of these people, in their order."""
    now = container.clock()
    made = sa.insert(mailing_lists).values(
        account_id=caller.account_id, sub_account_id=sub_account_id, type="manual", description="People",
        is_suppression_list=suppresses, created_at=now, updated_at=now,
    )  # fmt: skip
    list_id = int(scalar(container, made.returning(mailing_lists.c.id)))
    add_people(container, list_id, whom)
    return list_id


def add_people(container: Container, list_id: int, whom: Sequence[dict[str, Any]]) -> None:
    now = container.clock()
    with container.db.system_transaction() as tx:
        home = tx.execute(sa.select(mailing_lists).where(mailing_lists.c.id == list_id)).one()
        rows = [
            (home.account_id, home.sub_account_id, list_id, *recipient_columns(row).values(), now, now) for row in whom
        ]
        names = ("account_id", "sub_account_id", "mailing_list_id", *PERSON_COLUMNS)
        insert_rows(tx, recipients, (*names, "created_at", "updated_at"), rows)


def recipient_columns(row: dict[str, Any]) -> dict[str, Any]:
    """A person as the columns of a recipient or of an item."""
    someone = validate_recipient(row)
    custom = {f"custom{place}": text for place, text in enumerate(someone.custom, start=1)}
    known = custom | dict(zip(DERIVED_COLUMNS, someone.derived_values, strict=True))
    return {name: known[name] if name in known else getattr(someone, name) for name in PERSON_COLUMNS}


def audience_criteria(container: Container, caller: Caller, *list_ids: int, **changes: Any) -> AudienceCriteria:
    """A postcard within the US at 109 cents, due at the end of the review, but for the changes."""
    known: dict[str, Any] = {
        "account_id": caller.account_id, "sub_account_id": caller.sub_account_id, "mode": caller.mode,
        "list_ids": list_ids, "creative_key": CREATIVE, "allows_repeats": False, "inline_keys": (),
        "mails_at": container.clock() + REVIEW, "tariff": Tariff({"US": CENTS}),
    }  # fmt: skip
    return AudienceCriteria(**known | changes)


def make_order(
    container: Container,
    caller: Caller,
    *list_ids: int,
    inline: Sequence[dict[str, Any]] = (),
    authorised: int = 0,
    **values: Any,
) -> int:
    """A postcard to lists whose items are yet to be made, with its job booked; inline people are items."""
    now = container.clock()
    owner = {"account_id": caller.account_id, "sub_account_id": caller.sub_account_id, "mode": caller.mode}
    columns_of_order: dict[str, Any] = {
        "type": "postcard", "size": "4x6", "piece": "postcard-4x6", "mail_class": "first", "status": "reviewing",
        "method": "api", "message": "Hi %FIRST_NAME%!", "style": 1, "handwriting_color": "rgba(0,0,255,1)",
        "handwriting_manner": "neat", "font_size": "medium", "sender_name": "Dana Whitfield",
        "mailing_list_ids": list(list_ids), "total_estimated_recipients": 0, "authorization_total": authorised,
        "order_total": authorised, "creative_key": CREATIVE, "audience_pending": True, "due_at": now + REVIEW,
        "created_at": now, "updated_at": now,
    }  # fmt: skip
    with container.db.system_transaction() as tx:
        made = tx.execute(sa.insert(orders).values(**owner | columns_of_order | values).returning(orders.c.id))
        order_id = int(made.scalar_one())
        for row in inline:
            insert_item(tx, order_id, row, now=now)
        billing_service.set_order_hold(tx, order_id, cents=authorised, reason="creation", now=now)
        item_queries.record_order_status_change(tx, [order_id], previous=None, now=now)
        jobs.enqueue(tx, MATERIALIZE_TASK, order_id=order_id)
    return order_id


def insert_item(tx: Tx, order_id: int, row: dict[str, Any], *, now: datetime) -> None:
    """An inline recipient's item."""
    order = tx.execute(sa.select(orders).where(orders.c.id == order_id)).one()
    made = sa.insert(items).values(
        **recipient_columns(row), account_id=order.account_id, sub_account_id=order.sub_account_id, mode=order.mode,
        order_id=order_id, status="Processing", price_cents=CENTS, creative_key=CREATIVE, created_at=now,
        updated_at=now,
    )  # fmt: skip
    tx.execute(made)


def ledger_entries(container: Container, order_id: int) -> list[tuple[str, int, str]]:
    """The ledger of an order: kind, cents and key of each entry, in order."""
    found = sa.select(ledger_moves.c.kind, ledger_moves.c.cents, ledger_moves.c.key)
    with container.db.system_transaction() as tx:
        rows = tx.execute(found.where(ledger_moves.c.order_id == order_id).order_by(ledger_moves.c.id))
        return [(row.kind, row.cents, row.key) for row in rows]
