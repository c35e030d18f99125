"""Subscriptions that are changed, paused, resumed and tried, and whose lists they may name."""

from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.queries import insert_token
from quillpost.app.container import Container
from quillpost.core.database.tables.base import mailing_lists
from quillpost.core.database.tables.notifications import deliveries, webhooks
from support.factories import Account, Clock, make_sub_account, make_teammate
from support.tenant_rows import insert_least
from support.traces import traces
from support.webhook_log import back_off, is_due_now
from support.webhook_outbox import set_columns

URL = "https://example.com/hook"
UNKNOWN_LIST = {"message": "Mailing List Does Not Exist"}


def subscribe(account: Account, **changes: Any) -> Any:
    return account.post("/webhooks", {"url": URL, "type": "*"} | changes).json()


def change(account: Account, hook: object, **changes: Any) -> Any:
    return account.call("PUT", f"/webhooks/{hook}", json=changes)


def make_list(container: Container, account: Account, sub_account_id: int | None = None) -> int:
    with container.db.system_transaction() as tx:
        known: dict[str, object] = {"account_id": account.id, "sub_account_id": sub_account_id}
        return int(insert_least(tx, mailing_lists, known))


def test_a_change_touches_what_it_names_alone(owner: Account, container: Container, clock: Clock) -> None:
    branch, mailing_list = make_sub_account(container, owner), make_list(container, owner)
    made = subscribe(owner, description="CRM")
    del made["secret"]
    clock.advance(minutes=1)
    assert change(owner, made["id"], url="https://example.com/new").json() == made | {
        "url": "https://example.com/new",
        "updated_at": "2026-05-04T12:01:00Z",
    }
    order_request = {"verb": "GET", "events": ["scans.scan_update"], "description": None, "mode": "test"}
    home = {"sub_account_id": branch, "mailing_list_id": str(mailing_list)}
    changed = change(owner, made["id"], **order_request, **home, status="active")
    assert changed.status_code == 200
    assert changed.headers["X-Ignored-Fields"] == "status"
    assert changed.json() == made | {
        "url": "https://example.com/new",
        "verb": "get",
        "type": "scans.scan_update",
        "description": None,
        "sub_account_id": branch,
        "mailing_list_id": mailing_list,
        "updated_at": "2026-05-04T12:01:00Z",
    }
    assert owner.get(f"/webhooks/{made['id']}").json() == changed.json()
    freed = change(owner, made["id"], sub_account_id=None, mailing_list_id=None).json()
    assert (freed["sub_account_id"], freed["mailing_list_id"]) == (None, None)


def test_a_change_that_cannot_work_is_refused_by_its_field(owner: Account) -> None:
    hook = subscribe(owner)["id"]
    before = owner.get(f"/webhooks/{hook}").json()
    for changes, fields in (
        ({"url": None}, ["url"]),
        ({"url": ""}, ["url"]),
        ({"url": "http://127.0.0.1/hook"}, ["url"]),
        ({"type": None}, ["type"]),
        ({"event": "order.printed"}, ["event"]),
        ({"verb": None}, ["verb"]),
        ({"verb": "put"}, ["verb"]),
        ({"description": "x" * 501}, ["description"]),
        ({"mailing_list_id": "x"}, ["mailing_list_id"]),
        ({"sub_account_id": 0}, ["sub_account_id"]),
        ({"mode": "live"}, ["mode"]),
        ({"mode": "live", "url": "ftp://example.com"}, ["url", "mode"]),
    ):
        refused = change(owner, hook, **changes)
        assert refused.status_code == 422
        assert list(refused.json()["errors"]) == fields
    assert owner.get(f"/webhooks/{hook}").json() == before


def test_a_list_must_be_the_callers_own_and_one_that_the_sub_account_mails_to(
    owner: Account, stranger: Account, container: Container
) -> None:
    mine, other = make_sub_account(container, owner), make_sub_account(container, owner)
    theirs, elsewhere, common = (
        make_list(container, stranger),
        make_list(container, owner, other),
        make_list(container, owner),
    )
    hook = subscribe(owner, sub_account_id=mine, mailing_list_id=common)
    assert hook["mailing_list_id"] == common
    before = traces(container)
    for list_id in (theirs, elsewhere, 10**15):
        assert subscribe(owner, sub_account_id=mine, mailing_list_id=list_id) == UNKNOWN_LIST
        refused = change(owner, hook["id"], mailing_list_id=list_id)
        assert (refused.status_code, refused.json()) == (400, UNKNOWN_LIST)
    assert change(owner, hook["id"], sub_account_id=10**15).json() == {"message": "Sub Account ID does not exist"}
    assert traces(container) == before
    moved = change(owner, hook["id"], sub_account_id=other, mailing_list_id=elsewhere).json()
    assert (moved["sub_account_id"], moved["mailing_list_id"]) == (other, elsewhere)


def test_a_subscription_goes_with_its_list(owner: Account, container: Container) -> None:
    mailing_list = make_list(container, owner)
    hook = subscribe(owner, mailing_list_id=mailing_list)["id"]
    with container.db.system_transaction() as tx:
        tx.execute(sa.delete(mailing_lists))
    assert owner.get(f"/webhooks/{hook}").status_code == 404


def test_a_teammate_of_one_sub_account_changes_within_it(owner: Account, container: Container) -> None:
    mine, other = make_sub_account(container, owner), make_sub_account(container, owner)
    teammate = make_teammate(container, owner, mine)
    hook = subscribe(owner, sub_account_id=mine, mailing_list_id=make_list(container, owner))["id"]
    assert change(teammate, hook, description="Ours").json()["description"] == "Ours"
    assert change(teammate, hook, sub_account_id=other).status_code == 400
    kept = change(teammate, hook, sub_account_id=None, mailing_list_id=None)
    assert (kept.status_code, kept.json()["sub_account_id"]) == (200, mine)
    assert teammate.post(f"/webhooks/{hook}/test").status_code == 200


def test_pausing_and_resuming_twice_is_doing_it_once(owner: Account) -> None:
    hook = subscribe(owner)["id"]
    paused = [owner.post(f"/webhooks/{hook}/pause") for _ in range(2)]
    assert [(each.status_code, each.json()["status"]) for each in paused] == [(200, "paused")] * 2
    refused = owner.post(f"/webhooks/{hook}/test")
    assert (refused.status_code, refused.json()) == (400, {"message": "This subscription is paused: resume it first."})
    resumed = [owner.post(f"/webhooks/{hook}/resume") for _ in range(2)]
    assert [(each.status_code, each.json()["status"]) for each in resumed] == [(200, "active")] * 2


@pytest.mark.parametrize("status", ["failing", "disabled"])
def test_resuming_takes_back_what_failed(owner: Account, container: Container, clock: Clock, status: str) -> None:
    hook = subscribe(owner)["id"]
    set_columns(container, webhooks, hook, status=status, failing_since=clock.now(), last_error="No answer.")
    shown = owner.get(f"/webhooks/{hook}").json()
    assert (shown["status"], shown["last_error"]) == (status, "No answer.")
    assert shown["failing_since"] == "2026-05-04T12:00:00Z"
    back_off(container, hook)
    resumed = owner.post(f"/webhooks/{hook}/resume").json()
    assert (resumed["status"], resumed["failing_since"], resumed["last_error"]) == ("active", None, None)
    assert is_due_now(container, hook)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/resume", None),
        ("POST", "/test", None),
        ("PUT", "", {"url": "https://example.com/new"}),
        ("PUT", "", {"verb": "get"}),
    ],
)
def test_a_receiver_that_was_given_a_rest_is_tried_at_once(
    owner: Account, container: Container, method: str, path: str, body: Any
) -> None:
    hook = subscribe(owner)["id"]
    back_off(container, hook)
    assert owner.call(method, f"/webhooks/{hook}{path}", json=body).status_code == 200
    assert is_due_now(container, hook)


def test_a_change_of_words_alone_leaves_a_receiver_its_rest(owner: Account, container: Container) -> None:
    hook = subscribe(owner)["id"]
    back_off(container, hook)
    assert change(owner, hook, description="Ours", type="order_item.delivered").status_code == 200
    assert not is_due_now(container, hook)


@pytest.mark.usefixtures("clean_database")
@pytest.mark.parametrize(
    ("subscribed", "event_type"), [("*", "order.status_update"), ("scans.scan_update", "scans.scan_update")]
)
def test_a_try_says_which_event_is_on_its_way(
    owner: Account, container: Container, subscribed: str, event_type: str
) -> None:
    hook = subscribe(owner, type=subscribed)["id"]
    tried = owner.post(f"/webhooks/{hook}/test")
    assert tried.status_code == 200
    with container.db.system_transaction() as tx:
        [waiting] = tx.execute(sa.select(deliveries)).all()
    assert tried.json() == {"message": "success", "event_id": str(waiting.event_id), "event_type": event_type}
    assert (waiting.event_type, waiting.status) == (event_type, "pending")


@pytest.mark.usefixtures("clean_database")
def test_a_try_with_an_idempotency_key_is_made_once(owner: Account, container: Container) -> None:
    hook = subscribe(owner)["id"]
    tries = [owner.post(f"/webhooks/{hook}/test", headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert tries[0].json() == tries[1].json()
    with container.db.system_transaction() as tx:
        assert len(tx.execute(sa.select(deliveries)).all()) == 1


def test_another_accounts_or_modes_subscription_looks_like_none(
    owner: Account, stranger: Account, container: Container
) -> None:
    with container.db.system_transaction() as tx:
        token = insert_token(tx, owner.id, mode="live", name="live", now=container.clock())[1]
    hook = subscribe(owner)["id"]
    for account in (stranger, replace(owner, token=token)):
        answers = [
            change(account, hook, url="https://example.com/mine"),
            *(account.post(f"/webhooks/{hook}/{what}") for what in ("pause", "resume", "test")),
        ]
        assert {(each.status_code, each.text) for each in answers} == {(404, '{"message":"Not Found"}')}
    assert owner.get(f"/webhooks/{hook}").json()["url"] == URL
