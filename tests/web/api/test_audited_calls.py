"""Every act that the audit log knows is noted when it is done, and calls of the API are among them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import quillpost
from quillpost.accounts.audit.labels import describe_entry
from quillpost.accounts.audit.service import ACTION_LABELS, AuditEntry, list_audit_entries
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.accounts import audit_log
from quillpost.core.database.tables.base import tokens
from support.audited_actions import AUDITED_BY_CALLS, AUDITED_BY_COMMANDS
from support.factories import Account, Build, Clock, make_operator, make_sub_account, make_teammate, run_jobs_for
from support.giftcard_orders import mail_giftcard
from support.orders import HOME, create_held_order
from support.production import LIVE_SETTINGS
from support.rows import execute, run_as, scalar
from support.test_client import TestClient
from support.traces import unchanged

SOURCE, TESTS = Path(quillpost.__file__).parent, Path(__file__).parents[2]
HOOK = {"url": "https://hooks.example.com/k3y", "type": "*"}


def hook_of(owner: Account) -> str:
    return f"/webhooks/{owner.post('/webhooks', HOOK).json()['id']}"


def paused_of(owner: Account) -> str:
    webhook = hook_of(owner)
    assert owner.post(f"{webhook}/pause").status_code == 200
    return webhook


def list_of(owner: Account) -> str:
    return f"/mailing-lists/{owner.post('/mailing-lists', {'description': 'Neighbors'}).json()['id']}"


Deed = Callable[[Account, Container], Any]
Refused = tuple[str, str, Any]

# How an act is done, what is said of it, and a call of it that is refused.
CALLS: dict[str, tuple[Deed, str, Refused]] = {
    "sub_account.created": (lambda owner, _: owner.post("/sub-accounts", {"title": "North"}),
        "made a sub account: North", ("POST", "/sub-accounts", {"title": ""})),
    "sub_account.deleted": (
        lambda owner, parts: owner.delete(f"/sub-accounts/{make_sub_account(parts, owner, 'North')}"),
        "deleted a sub account: North", ("DELETE", "/sub-accounts/0", None)),
    "webhook.created": (lambda owner, _: owner.post("/webhooks", HOOK),
        "subscribed to events: hooks.example.com (test)", ("POST", "/webhooks", {"url": "nowhere", "type": "*"})),
    "webhook.changed": (lambda owner, _: owner.put(hook_of(owner), {"url": "https://new.example.com"}),
        "changed a subscription: new.example.com (test)", ("PUT", "/webhooks/0", {"url": "https://new.example.com"})),
    "webhook.paused": (lambda owner, _: owner.post(f"{hook_of(owner)}/pause"),
        "paused a subscription: hooks.example.com (test)", ("POST", "/webhooks/0/pause", None)),
    "webhook.resumed": (lambda owner, _: owner.post(f"{paused_of(owner)}/resume"),
        "resumed a subscription: hooks.example.com (test)", ("POST", "/webhooks/0/resume", None)),
    "webhook.secret": (lambda owner, _: owner.post(f"{hook_of(owner)}/rotate-secret"),
        "made a new webhook secret: hooks.example.com (test)", ("POST", "/webhooks/0/rotate-secret", None)),
    "webhook.deleted": (lambda owner, _: owner.delete(hook_of(owner)),
        "ended a subscription: hooks.example.com (test)", ("DELETE", "/webhooks/0", None)),
    "list.key": (lambda owner, _: owner.post(f"{list_of(owner)}/rotate-key"),
        "made a new list key: Neighbors", ("POST", "/mailing-lists/0/rotate-key", None)),
    "list.exported": (lambda owner, _: owner.get(f"{list_of(owner)}/export"),
        "exported a mailing list: Neighbors", ("GET", "/mailing-lists/0/export", None)),
    "person.erased": (lambda owner, _: owner.post("/recipients/erase", {"email": "jane@example.com"}),
        "erased a recipient", ("POST", "/recipients/erase", {})),
    "giftcard.invalidated": (
        lambda owner, parts: owner.put(f"/order-items/{mail_giftcard(parts, owner)}/invalidate-giftcard"),
        "took a gift card back: item {id}, $25.00 (test)",
        ("PUT", "/order-items/0/invalidate-giftcard", {"reissue": True})),
}  # fmt: skip
OPERATORS = {
    "order.released", "order.refused", "orders.rushed", "orders.pooled",
    "batch.marked", "batch.reprinted", "batch.retried", "print_file.downloaded",
    "brand.changed", "brand.retired",
}  # fmt: skip
"""Done by the last tests of this page."""


def lines(container: Container, account_id: int) -> list[AuditEntry]:
    return list(run_as(container, Tenant(account_id), list_audit_entries, account_id))


def acts(container: Container, account_id: int) -> list[str]:
    return [line.act for line in lines(container, account_id)]


def named_in(folder: Path, *, but: tuple[Path, ...] = ()) -> set[str]:
    """Which acts the code of a folder names, letter for letter."""
    texts = [file.read_text() for file in folder.rglob("*.py") if file not in but]
    return ACTION_LABELS.keys() & set(re.findall(r'"([a-z_.]+)"', "\n".join(texts)))


def test_every_act_is_noted_somewhere_and_those_of_the_api_are_done_here() -> None:
    assert ACTION_LABELS.keys() - named_in(SOURCE, but=(SOURCE / "accounts/audit/service.py",)) == set()
    assert CALLS.keys() | OPERATORS == AUDITED_BY_CALLS
    assert ACTION_LABELS.keys() > AUDITED_BY_CALLS | AUDITED_BY_COMMANDS
    assert AUDITED_BY_COMMANDS - {"credit.moved"} <= named_in(TESTS / "cli")


@pytest.mark.usefixtures("clean_database")
def test_a_call_is_noted_with_its_caller_and_action_and_without_secrets_or_people(
    owner: Account, container: Container, subtests: pytest.Subtests
) -> None:
    token_id = scalar(container, sa.select(tokens.c.id).where(tokens.c.account_id == owner.id))
    for act, (deed, words, _) in CALLS.items():
        with subtests.test(act):
            done = deed(owner, container)
            assert done.status_code < 300
            answer = done.json() if done.headers["Content-Type"] == "application/json" else {}
            newest = lines(container, owner.id)[0]
            assert (newest.act, describe_entry(newest)) == (act, f"token “test” {words.format(id=answer.get('id'))}")
            assert newest.at == container.clock()
            assert newest.network is not None
            rows = execute(container, sa.select(audit_log).order_by(audit_log.c.id.desc()))
            assert rows[0].token_id == token_id
            written = json.dumps([list(map(str, row)) for row in rows])
            secrets = [owner.token, "k3y", "jane@example.com", answer.get("secret"), answer.get("api_key")]
            assert [secret for secret in secrets if secret and secret in written] == []


def test_refusals_repeats_and_sends_are_not_noted(owner: Account, container: Container) -> None:
    for _, _, (method, path, body) in CALLS.values():
        assert owner.call(method, path, json=body).status_code in (404, 422)
    assert owner.send().status_code == 200
    assert acts(container, owner.id) == []
    for _ in range(2):
        owner.post("/webhooks", HOOK, headers={"Idempotency-Key": "once"})
    assert acts(container, owner.id) == ["webhook.created"]
    webhook = paused_of(owner)
    owner.post(f"{webhook}/pause")
    for _ in range(2):
        owner.post(f"{webhook}/resume")
    assert acts(container, owner.id) == ["webhook.resumed", "webhook.paused", *["webhook.created"] * 2]


def test_a_log_is_of_its_account_and_sub_account_only(owner: Account, stranger: Account, container: Container) -> None:
    mine = make_sub_account(container, owner)
    teammate = make_teammate(container, owner, mine)
    hook_of(teammate)
    assert teammate.post("/recipients/erase", {"email": "jane@example.com"}).status_code == 200
    assert teammate.post(f"{list_of(teammate)}/rotate-key").status_code == 200
    assert [line.sub_account_id for line in lines(container, owner.id)] == [mine] * 3
    for other in (Tenant(owner.id, make_sub_account(container, owner)), Tenant(stranger.id)):
        assert run_as(container, other, list_audit_entries, owner.id) == []


# What those who run the service decide is in the log of their own account.


@pytest.mark.usefixtures("clean_database")
def test_an_order_that_is_released_or_refused_is_noted(
    owner: Account, operator: Account, container: Container, clock: Clock
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


@pytest.mark.usefixtures("changing_brands")
def test_a_brand_that_is_changed_or_taken_off_is_noted(http: TestClient, container: Container) -> None:
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
        return build(**LIVE_SETTINGS, review_seconds=1, print_cutoff="23:00")

    def test_acts_on_orders_and_batches_are_noted(self, container: Container, http: TestClient, clock: Clock) -> None:
        """But not what is refused, nor a file that is only looked for."""
        operator = make_operator(container, http, mode="live")
        order_id, _ = (operator.send(**HOME).json()["id"] for _ in range(2))
        for _ in range(2):
            assert operator.post("/print/rush", {"order_ids": [order_id]}).status_code == 200
        run_jobs_for(container, clock, seconds=3)
        for _ in range(2):
            assert operator.post("/print/pool").status_code == 200
        run_jobs_for(container, clock, seconds=4)
        newest = operator.get("/print/batches").json()["data"][0]
        batch, name = f"/print/batches/{newest['id']}", f"batch-{newest['id']:06d}"
        again = {"positions": [1], "reason": "Torn"}
        other = make_operator(container, http, "b@example.com")
        with unchanged(container):
            for status, refused in (
                (409, operator.post(f"{batch}/retry", {"anew": True})),
                (422, operator.post(f"{batch}/mark", {"status": "lost"})),
                (422, operator.post(f"{batch}/reprint", again | {"positions": [99]})),
                (200, operator.call("HEAD", f"{batch}/files/print.pdf")),
                (404, operator.get(f"{batch}/files/other.pdf")),
                (404, other.get(f"{batch}/files/print.pdf")),
            ):
                assert refused.status_code == status, refused.text
        assert operator.post(f"{batch}/retry").status_code == 200
        assert operator.get(f"{batch}/files/print.pdf").status_code == 200
        assert operator.post(f"{batch}/mark", {"status": "printed"}).status_code == 200
        assert operator.post(f"{batch}/reprint", again).status_code == 201
        noted = lines(container, operator.id)[::-1]
        assert [line.act for line in noted] == [
            "orders.rushed", "orders.pooled", "batch.retried", "print_file.downloaded", "batch.marked",
            "batch.reprinted",
        ]  # fmt: skip
        assert [describe_entry(line) for line in (*noted[:2], noted[3])] == [
            "token “test” rushed orders (live, how many: 1)",
            "token “test” made batches of what waited (live, how many: 1)",
            f"token “test” downloaded print files: {name} (live, files: print.pdf)",
        ]
        named = {"name": name, "mode": "live"}
        assert [noted[place].about for place in (2, 4, 5)] == [
            named | {"anew": False}, named | {"status": "printed"}, named | {"reason": "Torn"},
        ]  # fmt: skip
