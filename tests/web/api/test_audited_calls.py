"""Every act that the audit log knows is noted when it is done, and calls of the API are among them."""

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import quillpost
from quillpost.accounts.audit.labels import describe_entry
from quillpost.accounts.audit.service import ACTION_LABELS, AuditEntry, list_audit_entries
from quillpost.accounts.billing import service as billing_service
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.accounts import audit_log
from quillpost.core.database.tables.base import tokens
from support.audited_actions import AUDITED_BY_CALLS, AUDITED_BY_COMMANDS
from support.browser_sessions import make_user, sign_in_browser
from support.factories import (
    Account,
    Build,
    Clock,
    make_account,
    make_operator,
    make_sub_account,
    make_teammate,
    person,
    run_jobs_for,
)
from support.giftcard_orders import mail_giftcard
from support.print_room import HOME, create_held_order, hand_over_batch
from support.production import LIVE_SETTINGS
from support.test_client import TestClient

SOURCE, TESTS = Path(quillpost.__file__).parent, Path(__file__).parents[2]
HOOK = {"url": "https://hooks.example.com/k3y", "type": "*"}


def hook_of(owner: Account) -> int:
    return int(owner.post("/webhooks", HOOK).json()["id"])


def paused_of(owner: Account) -> int:
    webhook = hook_of(owner)
    assert owner.post(f"/webhooks/{webhook}/pause").status_code == 200
    return webhook


def list_of(owner: Account) -> int:
    return int(owner.post("/mailing-lists", {"description": "Neighbours"}).json()["id"])


Deed = Callable[[Account, Container], Any]

CALLS: dict[str, tuple[Deed, str]] = {
    "sub_account.created": (
        lambda owner, _: owner.post("/sub-accounts", {"title": "North"}),
        "made a sub account: North",
    ),
    "sub_account.deleted": (
        lambda owner, parts: owner.delete(f"/sub-accounts/{make_sub_account(parts, owner, 'North')}"),
        "deleted a sub account: North",
    ),
    "webhook.created": (
        lambda owner, _: owner.post("/webhooks", HOOK),
        "subscribed to events: hooks.example.com (test)",
    ),
    "webhook.changed": (
        lambda owner, _: owner.put(f"/webhooks/{hook_of(owner)}", {"url": "https://new.example.com"}),
        "changed a subscription: new.example.com (test)",
    ),
    "webhook.paused": (
        lambda owner, _: owner.post(f"/webhooks/{hook_of(owner)}/pause"),
        "paused a subscription: hooks.example.com (test)",
    ),
    "webhook.resumed": (
        lambda owner, _: owner.post(f"/webhooks/{paused_of(owner)}/resume"),
        "resumed a subscription: hooks.example.com (test)",
    ),
    "webhook.secret": (
        lambda owner, _: owner.post(f"/webhooks/{hook_of(owner)}/rotate-secret"),
        "made a new webhook secret: hooks.example.com (test)",
    ),
    "webhook.deleted": (
        lambda owner, _: owner.delete(f"/webhooks/{hook_of(owner)}"),
        "ended a subscription: hooks.example.com (test)",
    ),
    "list.key": (
        lambda owner, _: owner.post(f"/mailing-lists/{list_of(owner)}/rotate-key"),
        "made a new list key: Neighbours",
    ),
    "list.exported": (
        lambda owner, _: owner.get(f"/mailing-lists/{list_of(owner)}/export"),
        "exported a mailing list: Neighbours",
    ),
    "person.erased": (
        lambda owner, _: owner.post("/recipients/erase", {"email": "jane@example.com"}),
        "erased a recipient",
    ),
    "giftcard.invalidated": (
        lambda owner, parts: owner.put(f"/order-items/{mail_giftcard(parts, owner)}/invalidate-giftcard"),
        "took a gift card back: item 1, $25.00 (test)",
    ),
}
OPERATORS = {
    "order.released", "order.refused", "orders.rushed", "orders.pooled",
    "batch.marked", "batch.reprinted", "batch.retried", "print_file.downloaded",
    "brand.changed", "brand.retired",
}  # fmt: skip
"""Shown by the classes below."""


def lines(container: Container, account_id: int) -> list[AuditEntry]:
    with container.db.transaction(Tenant(account_id)) as tx:
        return list(list_audit_entries(tx, account_id))


def acts(container: Container, account_id: int) -> list[str]:
    return [line.act for line in lines(container, account_id)]


def named_in(folder: Path, *, but: tuple[Path, ...] = ()) -> set[str]:
    """Which acts the code of a folder names, letter for letter."""
    return {
        node.value
        for file in folder.rglob("*.py")
        if file not in but
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in ACTION_LABELS
    }


def test_every_act_is_noted_somewhere() -> None:
    assert ACTION_LABELS.keys() - named_in(SOURCE, but=(SOURCE / "accounts/audit/service.py",)) == set()


def test_every_act_of_the_api_is_done_here() -> None:
    """Others are done by the tests that `noted_acts` names."""
    assert CALLS.keys() | OPERATORS == AUDITED_BY_CALLS
    assert ACTION_LABELS.keys() > AUDITED_BY_CALLS | AUDITED_BY_COMMANDS
    assert AUDITED_BY_COMMANDS - {"credit.moved"} <= named_in(TESTS / "cli")


@pytest.mark.parametrize("act", CALLS)
def test_a_call_is_logged_with_its_caller_and_action(owner: Account, container: Container, act: str) -> None:
    done, words = CALLS[act]
    assert done(owner, container).status_code < 300
    newest = lines(container, owner.id)[0]
    assert (newest.act, describe_entry(newest)) == (act, f"token “test” {words}")
    assert newest.at == container.clock()
    assert newest.network is not None
    with container.db.system_transaction() as tx:
        row = tx.execute(sa.select(audit_log).order_by(audit_log.c.id.desc())).first()
        token_id = tx.scalar(sa.select(tokens.c.id).where(tokens.c.account_id == owner.id))
    assert row is not None
    assert row.token_id == token_id


@pytest.mark.parametrize("act", CALLS)
def test_no_line_holds_a_secret_or_a_person(owner: Account, container: Container, act: str) -> None:
    done = CALLS[act][0](owner, container)
    answer = done.json() if done.headers["Content-Type"] == "application/json" else {}
    with container.db.system_transaction() as tx:
        written = json.dumps([list(map(str, row)) for row in tx.execute(sa.select(audit_log))])
    secrets = [owner.token, "k3y", "jane@example.com", answer.get("secret"), answer.get("api_key")]
    assert [secret for secret in secrets if secret and secret in written] == []


REFUSED = {
    "sub_account.created": ("POST", "/sub-accounts", {"title": ""}),
    "sub_account.deleted": ("DELETE", "/sub-accounts/0", None),
    "webhook.created": ("POST", "/webhooks", {"url": "nowhere", "type": "*"}),
    "webhook.changed": ("PUT", "/webhooks/0", {"url": "https://new.example.com"}),
    "webhook.paused": ("POST", "/webhooks/0/pause", None),
    "webhook.resumed": ("POST", "/webhooks/0/resume", None),
    "webhook.secret": ("POST", "/webhooks/0/rotate-secret", None),
    "webhook.deleted": ("DELETE", "/webhooks/0", None),
    "list.key": ("POST", "/mailing-lists/0/rotate-key", None),
    "list.exported": ("GET", "/mailing-lists/0/export", None),
    "person.erased": ("POST", "/recipients/erase", {}),
    "giftcard.invalidated": ("PUT", "/order-items/0/invalidate-giftcard", {"reissue": True}),
}


def test_what_was_refused_is_not_noted(owner: Account, container: Container) -> None:
    assert REFUSED.keys() == CALLS.keys()
    for method, path, body in REFUSED.values():
        assert owner.call(method, path, json=body).status_code in (404, 422)
    assert acts(container, owner.id) == []


def test_what_changes_nothing_is_not_noted(owner: Account, container: Container) -> None:
    webhook = paused_of(owner)
    owner.post(f"/webhooks/{webhook}/pause")
    for _ in range(2):
        owner.post(f"/webhooks/{webhook}/resume")
    assert acts(container, owner.id) == ["webhook.resumed", "webhook.paused", "webhook.created"]


def test_what_is_repeated_under_one_key_is_noted_once(owner: Account, container: Container) -> None:
    for _ in range(2):
        owner.post("/webhooks", HOOK, headers={"Idempotency-Key": "once"})
    assert acts(container, owner.id) == ["webhook.created"]


def test_a_limited_token_writes_for_its_sub_account(owner: Account, container: Container) -> None:
    mine = make_sub_account(container, owner)
    teammate = make_teammate(container, owner, mine)
    assert teammate.post("/webhooks", HOOK).status_code == 201
    assert teammate.post("/recipients/erase", {"email": "jane@example.com"}).status_code == 200
    assert teammate.post(f"/mailing-lists/{list_of(teammate)}/rotate-key").status_code == 200
    assert {line.sub_account_id for line in lines(container, owner.id)} == {mine}
    with container.db.transaction(Tenant(owner.id, make_sub_account(container, owner))) as tx:
        assert list_audit_entries(tx, owner.id) == []


def test_nobody_reads_another_account_s_log(owner: Account, stranger: Account, container: Container) -> None:
    hook_of(owner)
    with container.db.transaction(Tenant(stranger.id)) as tx:
        assert list_audit_entries(tx, owner.id) == []


def test_sends_are_no_sensitive_act(owner: Account, container: Container) -> None:
    assert owner.send(recipients=[person()]).status_code == 200
    assert acts(container, owner.id) == []


def test_signing_out_is_logged_in_the_users_account(owner: Account, container: Container, http: TestClient) -> None:
    make_user(container, owner.id, "dana@example.com")
    browser = sign_in_browser(http)
    browser.sign_in("dana@example.com")
    browser.post("/sign-out")
    assert acts(container, owner.id)[0] == "sign_out"


def test_credit_that_is_moved_at_the_command_line_is_noted(owner: Account, container: Container) -> None:
    with container.db.system_transaction() as tx:
        for _ in range(2):
            billing_service.deposit(tx, owner.id, cents=2_500, key="cheque 7", note=None, now=container.clock())
    assert [describe_entry(line) for line in lines(container, owner.id)] == ["the command line moved credit: $25.00"]
    assert acts(container, owner.id) == ["credit.moved"]


class TestOperators:
    """What those who run the service decide is in the log of their own account."""

    @pytest.fixture
    def operator(self, container: Container, http: TestClient) -> Account:
        return make_operator(container, http)

    def test_an_order_that_is_released_or_refused(
        self, owner: Account, operator: Account, container: Container, clock: Clock
    ) -> None:
        for act in ("release", "refuse"):
            order_id = create_held_order(owner, container, clock)
            assert operator.post(f"/orders/{order_id}/{act}", {"reason": "Looked at"}).status_code == 200
            newest = lines(container, operator.id)[0]
            assert newest.act == f"order.{act.rstrip('e')}ed"
            assert newest.about == {"name": f"order {order_id}", "mode": "test", "reason": "Looked at"}
            assert operator.post(f"/orders/{order_id}/{act}", {"reason": "Again"}).status_code == 409
        assert len(lines(container, operator.id)) == 2
        assert acts(container, owner.id) == []

    def test_a_brand_that_is_changed_or_taken_off(self, http: TestClient, container: Container) -> None:
        operator = make_operator(container, http, mode="live")
        path = "/giftcard-brands/brindlewick"
        assert operator.put(path, {"color": "brown"}).status_code == 422
        assert operator.delete("/giftcard-brands/no-such").status_code == 404
        assert acts(container, operator.id) == []
        for _ in range(2):  # the second time nothing changes
            assert operator.put(path, {"color": "#112233"}).status_code == 200
        for _ in range(2):
            assert operator.delete(path).status_code == 200
        assert [describe_entry(line) for line in lines(container, operator.id)] == [
            "token “test” took a gift card brand off: brindlewick",
            "token “test” changed a gift card brand: brindlewick",
        ]
        assert acts(container, operator.id) == ["brand.retired", "brand.changed"]


class TestPrintRoom:
    @pytest.fixture
    def container(self, build: Build) -> Container:
        return build(**LIVE_SETTINGS, review_seconds=1)

    def test_a_batch_that_is_marked_or_reprinted(self, container: Container, http: TestClient, clock: Clock) -> None:
        operator = make_operator(container, http, mode="live")
        batch = hand_over_batch(make_account(container, http, "sender@example.com", mode="live"), container, clock)
        again = {"positions": [1], "reason": "Torn"}
        assert operator.post(f"/print/batches/{batch}/mark", {"status": "lost"}).status_code == 422
        assert operator.post(f"/print/batches/{batch}/reprint", again | {"positions": [99]}).status_code == 422
        assert acts(container, operator.id) == []
        assert operator.post(f"/print/batches/{batch}/mark", {"status": "printed"}).status_code == 200
        assert operator.post(f"/print/batches/{batch}/reprint", again).status_code == 201
        reprinted, marked = lines(container, operator.id)
        named = {"name": f"batch-{batch:06d}", "mode": "live"}
        assert (marked.act, marked.about) == ("batch.marked", named | {"status": "printed"})
        assert (reprinted.act, reprinted.about) == ("batch.reprinted", named | {"reason": "Torn"})

    def test_a_file_that_is_downloaded(self, container: Container, http: TestClient, clock: Clock) -> None:
        """And not one that is only looked for, nor one that is not there."""
        operator = make_operator(container, http, mode="live")
        batch = hand_over_batch(make_account(container, http, "sender@example.com", mode="live"), container, clock)
        path = f"/print/batches/{batch}/files"
        assert operator.call("HEAD", f"{path}/print.pdf").status_code == 200
        assert operator.get(f"{path}/other.pdf").status_code == 404
        assert make_operator(container, http, "b@example.com").get(f"{path}/print.pdf").status_code == 404
        assert acts(container, operator.id) == []
        assert operator.get(f"{path}/print.pdf").status_code == 200
        [downloaded] = lines(container, operator.id)
        named = f"batch-{batch:06d} (live, files: print.pdf)"
        assert describe_entry(downloaded) == f"token “test” downloaded print files: {named}"

    def test_a_batch_that_is_tried_again(self, container: Container, http: TestClient, clock: Clock) -> None:
        operator = make_operator(container, http, mode="live")
        batch = hand_over_batch(make_account(container, http, "sender@example.com", mode="live"), container, clock)
        path = f"/print/batches/{batch}/retry"
        assert operator.post(path, {"anew": True}).status_code == 409
        assert acts(container, operator.id) == []
        assert operator.post(path).status_code == 200
        [tried] = lines(container, operator.id)
        named = {"name": f"batch-{batch:06d}", "mode": "live", "anew": False}
        assert (tried.act, tried.about) == ("batch.retried", named)


class TestCutOff:
    @pytest.fixture
    def container(self, build: Build) -> Container:
        return build(**LIVE_SETTINGS, review_seconds=1, print_cutoff="23:00")

    def test_orders_that_are_rushed_or_pooled(self, container: Container, http: TestClient, clock: Clock) -> None:
        operator = make_operator(container, http, mode="live")
        order_id, _ = (operator.send(**HOME).json()["id"] for _ in range(2))
        for _ in range(2):
            assert operator.post("/print/rush", {"order_ids": [order_id]}).status_code == 200
        run_jobs_for(container, clock, seconds=3)
        for _ in range(2):
            assert operator.post("/print/pool").status_code == 200
        assert [describe_entry(line) for line in lines(container, operator.id)] == [
            "token “test” made batches of what waited (live, how many: 1)",
            "token “test” rushed orders (live, how many: 1)",
        ]
        assert acts(container, operator.id) == ["orders.pooled", "orders.rushed"]
