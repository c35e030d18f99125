"""Whatever comes to a list by its key, in whatever order: nobody is doubled, a repeat changes nothing."""

from collections.abc import Collection, Sequence
from itertools import count
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database.tables.base import recipients
from quillpost.recipients.lists.service import create_list, decrypt_list_key
from quillpost.recipients.rules import check_recipient
from quillpost.recipients.service import RecipientRejection
from quillpost.recipients.webhooks import rules as webhook_rules
from quillpost.recipients.webhooks.service import ListKeyOwner, find_key_owner, upsert_recipients
from support.orders import open_account

pytestmark = pytest.mark.costly

MAYBE = {"phone": ["1", "2"], "name": ["Jane", "John"], "first_name": ["Sho"], "custom1": ["x"]}
PLACE = {"address2": ["4"], "city": ["Austin", "Reno"], "zip": ["78701", "78701-1234", "89501"]}
EMAILS = ["a@example.com", "A@example.com", "b@example.com"]
STREETS = ["12 Main St", "12 MAIN ST.", "9 Elm St"]

_number = count()


def some(of: dict[str, list[str]]) -> st.SearchStrategy[dict[str, str]]:
    return st.fixed_dictionaries({}, optional={name: st.sampled_from(texts) for name, texts in of.items()})


ROW = st.builds(
    lambda person, contact, street, place: person | contact | street | (place if street else {}),
    some(MAYBE),
    some({"email": EMAILS}),
    some({"street": STREETS}),
    some(PLACE),
)
ROWS = st.lists(ROW, min_size=1, max_size=7)
A, B = ({"email": f"{name}@example.com"} for name in "ab")
UNIT = {"address2": "4"}
HOME, FAR = {"street": "12 Main St", "zip": "78701"}, {"street": "9 Elm St", "zip": "89501"}


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


def new_list(container: Container, owner: Caller, **values: Any) -> ListKeyOwner:
    is_suppression_list = values.pop("is_suppression_list", False)
    named = {"type": "manual", "description": f"List {next(_number)}", "is_suppression_list": is_suppression_list}
    with container.db.transaction(build_tenant(owner)) as tx:
        made = create_list(tx, owner, container.encryptor, named, now=container.clock())
    holder = find_key_owner(container.db, decrypt_list_key(container.encryptor, made))
    assert holder is not None
    return holder


def send(container: Container, holder: ListKeyOwner, rows: Sequence[Any]) -> list[str]:
    with container.db.transaction(holder.tenant) as tx:
        outcomes = upsert_recipients(
            tx, holder, [webhook_rules.read_person(row) for row in rows], source=None, clock=container.clock
        )
    return ["refused" if isinstance(one, RecipientRejection) else str(one[0]) for one in outcomes]


def on(container: Container, holder: ListKeyOwner) -> list[dict[str, Any]]:
    with container.db.system_transaction() as tx:
        rows = tx.execute(
            sa.select(recipients).where(recipients.c.mailing_list_id == holder.list_id).order_by(recipients.c.id)
        )
        return [dict(row) for row in rows.mappings()]


def without_ids(people: list[dict[str, Any]], emails: Collection[str]) -> list[tuple[Any, ...]]:
    """Everyone but those with one of these e-mails."""
    apart = {"id", "mailing_list_id"}
    return [
        tuple(value for name, value in one.items() if name not in apart)
        for one in people
        if one["email_key"] not in emails
    ]


def differ(alone: str, with_others: str) -> bool:
    """Whether only the one found nobody, so somebody was added, or several.

    A row that is refused alone is refused with the others too.
    """
    assert alone != "refused" or with_others == "refused"
    return alone != with_others and (alone == "added" or with_others == "refused")


def contradict(rows: Sequence[Any]) -> bool:
    """Whether they give one door two e-mails: then the last is kept, and the first may be another's."""
    emails: dict[str, set[str]] = {}
    for row in rows:
        someone = check_recipient(webhook_rules.read_person(row).fields, allow_incomplete=True)[0]
        if someone.address_key is not None and someone.email is not None:
            emails.setdefault(someone.address_key, set()).add(someone.email.lower())
    return any(len(each) > 1 for each in emails.values())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, bars=st.booleans())
@example(rows=[A, A | HOME, A | FAR], bars=False)
@example(rows=[A | HOME, A | {"phone": "1"}, B | FAR, HOME], bars=False)
@example(rows=[A | {"street": "12 Main St"}, HOME, A | HOME], bars=True)
@example(
    rows=[{"email": "A@example.com", "street": "12 Main St", "address2": "4"}, A, A | {"street": "12 Main St"}],
    bars=False,
)
@example(
    rows=[
        A | {"phone": "1", "street": "12 Main St", "address2": "4"},
        A | {"phone": "2"},
        A | {"street": "12 Main St"},
    ],
    bars=False,
)
@example(rows=[HOME | UNIT, A, A | HOME | UNIT, A | {"street": "12 Main St"}], bars=False)
@example(rows=[A | {"first_name": "Sho"}, A | {"name": "Jane"} | HOME], bars=False)
def test_a_repeat_changes_nothing_and_nobody_is_doubled(
    container: Container, owner: Caller, rows: list[dict[str, str]], bars: bool
) -> None:
    assume(not contradict(rows))
    holder, other = (new_list(container, owner, is_suppression_list=bars) for _ in range(2))
    results = send(container, holder, rows)
    once = on(container, holder)
    assert send(container, holder, rows) == [one if one == "refused" else "unchanged" for one in results]
    assert on(container, holder) == once
    alone = [send(container, other, [row])[0] for row in rows]
    # One that comes alone is taken where a call would know that another of that e-mail follows.
    early = [row for row, *both in zip(rows, alone, results, strict=True) if differ(*both)]
    assert [row for row in early if "street" in row or bars] == []
    apart = {row["email"].lower() for row in early}
    assert without_ids(on(container, other), apart) == without_ids(once, apart)
    # Somebody added early may be half of one who came later: a call that knows both adds one.
    assert len(on(container, other)) == len(once) or (early and len(on(container, other)) > len(once))
    emails = [one["email_key"] for one in once if one["address_key"] is None]
    assert len(emails) == len(set(emails))
    keys = [one["address_key"] for one in once if one["address_key"] is not None]
    assert len(keys) == len(set(keys))
    if not bars:
        sent_emails = {str(row["email"]).lower() for row in rows if "email" in row}
        assert {one["email_key"] for one in once if one["email_key"]} <= sent_emails


def test_a_call_is_a_handful_of_statements_however_many_its_rows(container: Container, owner: Caller) -> None:
    holder = new_list(container, owner)
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    sa.event.listen(container.db._app, "before_cursor_execute", note)
    for rows, results in (
        ([{"street": f"{n} Main St", "zip": "78701"} for n in range(2_000)], {"added"}),
        ([{"street": f"{n} Main St", "zip": "78701", "phone": "1"} for n in range(2_000)], {"changed"}),
        ([{"street": f"{n} Main St", "zip": "78701", "phone": "1"} for n in range(2_000)], {"unchanged"}),
    ):
        seen.clear()
        assert set(send(container, holder, rows)) == results
        assert len(seen) < 12
    sa.event.remove(container.db._app, "before_cursor_execute", note)
