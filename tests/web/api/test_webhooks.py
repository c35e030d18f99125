"""Subscriptions: made, read, changed, paused, tried and ended; their secrets, and whose they are."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.notifications import webhooks
from quillpost.notifications.webhooks.service import decrypt_secret
from quillpost.web.application import create_app
from support.factories import Account, Build, Clock, make_account, make_live, make_sub_account, make_teammate
from support.mailing_lists import NO_LIST, NO_SUB_ACCOUNT, ListOwner, message
from support.rows import execute
from support.test_client import TestClient
from support.traces import FORM, traces, unchanged
from support.webhooks import URL, back_off, is_due_now, list_deliveries, send_orders, set_status

KEYS = {
    "id", "user_id", "sub_account_id", "mailing_list_id", "url", "type", "verb", "mode", "description",
    "status", "failing_since", "last_error", "previous_secret_until", "invoke_count", "created_at", "updated_at",
}  # fmt: skip
FULL = (
    "An account has at most 3 subscriptions, in both modes and all sub accounts together. "
    "Delete one that is not needed, or subscribe to * with one."
)


def subscribe(account: Account, **changes: Any) -> Any:
    return account.post("/webhooks", {"url": URL, "type": "*"} | changes)


def subscribed(account: Account, **changes: Any) -> dict[str, Any]:
    made = subscribe(account, **changes)
    assert made.status_code == 201, made.text
    return dict(made.json())


def hook_of(account: Account, **changes: Any) -> int:
    return int(subscribed(account, **changes)["id"])


def change(account: Account, hook: object, **changes: Any) -> Any:
    return account.put(f"/webhooks/{hook}", changes)


def test_the_secret_is_shown_once(owner: Account) -> None:
    created = subscribe(owner, description="CRM")
    assert created.status_code == 201
    body = created.json()
    assert set(body) == KEYS | {"secret"}
    assert body["secret"].startswith("whsec_")
    assert (body["verb"], body["mode"], body["status"], body["invoke_count"]) == ("post", "test", "active", 0)
    assert created.headers["Cache-Control"] == "no-store"
    assert "x-holds-secret" not in created.headers
    read = owner.get(f"/webhooks/{body['id']}")
    assert read.json() == {key: body[key] for key in KEYS}
    assert body["secret"] not in read.text + owner.get("/webhooks").text
    assert subscribed(owner)["secret"] != body["secret"]


def test_subscriptions_are_listed_until_deleted(owner: Account, stranger: Account, container: Container) -> None:
    branch = make_sub_account(container, owner)
    first, second = hook_of(owner), hook_of(owner, sub_account_id=branch)
    hook_of(stranger)
    listed = owner.get("/webhooks?items_per_page=1").json()
    assert [hook["id"] for hook in listed["data"]] == [second]
    assert (listed["meta"]["total"], listed["meta"]["last_page"]) == (2, 2)
    assert listed["links"]["next"] == "http://quillpost.test/api/v2/webhooks?items_per_page=1&page=2"
    for query, found in (("", [second, first]), (f"?sub_account_id={branch}", [second])):
        assert [hook["id"] for hook in owner.get(f"/webhooks{query}").json()["data"]] == found
    deleted = owner.delete(f"/webhooks/{first}")
    assert (deleted.status_code, deleted.json()) == (200, {"message": "success"})
    assert [owner.call(method, f"/webhooks/{first}").status_code for method in ("GET", "DELETE")] == [404, 404]


def test_names_and_verbs_are_taken_as_written_and_only_the_tokens_mode(owner: Account, container: Container) -> None:
    event = "order_item.delivered"
    for named in ({"type": event}, {"event": event}, {"events": event}, {"events": [event]}):
        created = owner.post("/webhooks", {"url": URL} | named)
        assert (created.status_code, created.json()["type"]) == (201, event), named
    for given, taken in (("get", "get"), ("GET", "get"), ("Post", "post")):
        assert subscribed(owner, verb=given)["verb"] == taken
    form = b"url=https%3A%2F%2Fexample.com%2Fhook&type=*&verb=GET&x=1"
    created = owner.call("POST", "/webhooks", content=form, headers={"Content-Type": FORM})
    assert (created.status_code, created.json()["url"], created.json()["verb"]) == (201, URL, "get")
    assert created.headers["X-Ignored-Fields"] == "x"
    for caller, mode, other in ((owner, "test", "live"), (make_live(container, owner), "live", "test")):
        assert [subscribed(caller, mode=named)["mode"] for named in (None, mode)] == [mode, mode]
        with unchanged(container):
            refused = subscribe(caller, mode=other)
        assert refused.status_code == 422
        assert refused.json()["errors"] == {"mode": [f"Use a {other} token to subscribe to {other} events."]}


WRONG: dict[str, list[Any]] = {
    "type": ["order.printed", ["order_item.delivered", "scans.scan_update"], [], {}, None],
    "verb": ["put", 5],
    "mode": ["both"],
    "url": [
        None, 5, "", "example.com/hook", "ftp://example.com", "http://localhost/hook", "http://127.0.0.1/hook",
        "http://10.1.2.3/hook", "https://me:pw@example.com/", "https://example.com/" + "x" * 2_100,
        "https://example.com/\x00",
    ],
    "description": [5, "x" * 501],
    "mailing_list_id": ["x"],
    "sub_account_id": ["x", 0, 2**63],
}  # fmt: skip
WRONG_CHANGES = [("event", "order.printed"), ("verb", None), ("mode", "live")]


def test_what_cannot_work_names_its_field(owner: Account, container: Container, subtests: pytest.Subtests) -> None:
    hook = hook_of(owner)
    cases = [({name: value}, [name], True) for name, each in WRONG.items() for value in each]
    cases += [({name: value}, [name], False) for name, value in WRONG_CHANGES]
    cases += [({"mode": "live", "url": "ftp://example.com"}, ["url", "mode"], True)]
    with unchanged(container):
        for changes, fields, is_new_too in cases:
            with subtests.test(changes=str(changes)[:60]):
                answers = [change(owner, hook, **changes)]
                if is_new_too:
                    answers.append(subscribe(owner, **changes))
                for refused in answers:
                    assert (refused.status_code, list(refused.json()["errors"])) == (422, fields)


def test_a_change_touches_only_what_it_names(owner: Account, container: Container, clock: Clock) -> None:
    branch, mailing_list = make_sub_account(container, owner), ListOwner(owner).make()
    made = subscribed(owner, description="CRM")
    del made["secret"]
    clock.advance(minutes=1)
    moved = {"url": "https://example.com/new", "updated_at": "2026-05-04T12:01:00Z"}
    assert change(owner, made["id"], url=moved["url"]).json() == made | moved
    changes = {"verb": "GET", "events": ["scans.scan_update"], "description": None, "mode": "test"}
    home = {"sub_account_id": branch, "mailing_list_id": str(mailing_list)}
    changed = change(owner, made["id"], **changes, **home, status="active")
    assert (changed.status_code, changed.headers["X-Ignored-Fields"]) == (200, "status")
    assert changed.json() == made | moved | {
        "verb": "get", "type": "scans.scan_update", "description": None, "sub_account_id": branch,
        "mailing_list_id": mailing_list,
    }  # fmt: skip
    assert owner.get(f"/webhooks/{made['id']}").json() == changed.json()
    freed = change(owner, made["id"], sub_account_id=None, mailing_list_id=None).json()
    assert (freed["sub_account_id"], freed["mailing_list_id"]) == (None, None)


def test_a_list_is_the_callers_own_or_its_branch_s(owner: Account, stranger: Account, container: Container) -> None:
    mine, other = make_sub_account(container, owner), make_sub_account(container, owner)
    lists = ListOwner(owner)
    theirs, elsewhere, common = ListOwner(stranger).make(), lists.make(sub_account_id=other), lists.make()
    hook = subscribed(owner, sub_account_id=mine, mailing_list_id=common)
    assert hook["mailing_list_id"] == common
    their_home = make_sub_account(container, stranger)
    with unchanged(container):
        for home in (their_home, 10**15):
            assert message(subscribe(owner, sub_account_id=home)) == (400, NO_SUB_ACCOUNT)
            assert message(change(owner, hook["id"], sub_account_id=home)) == (400, NO_SUB_ACCOUNT)
        for list_id in (theirs, elsewhere, 10**15):
            assert message(subscribe(owner, sub_account_id=mine, mailing_list_id=list_id)) == (400, NO_LIST)
            assert message(change(owner, hook["id"], mailing_list_id=list_id)) == (400, NO_LIST)
    moved = change(owner, hook["id"], sub_account_id=other, mailing_list_id=elsewhere).json()
    assert (moved["sub_account_id"], moved["mailing_list_id"]) == (other, elsewhere)
    assert owner.delete(f"/mailing-lists/{elsewhere}").status_code == 200
    assert owner.get(f"/webhooks/{hook['id']}").status_code == 404, "it goes with its list"


def test_a_teammate_of_one_sub_account_subscribes_within_it(owner: Account, container: Container) -> None:
    mine, other = make_sub_account(container, owner), make_sub_account(container, owner)
    teammate, everything = make_teammate(container, owner, mine), hook_of(owner)
    assert subscribed(teammate)["sub_account_id"] == mine
    assert subscribe(teammate, sub_account_id=other).status_code == 400
    assert teammate.get(f"/webhooks/{everything}").status_code == 404
    hook = hook_of(owner, sub_account_id=mine, mailing_list_id=ListOwner(owner).make())
    assert change(teammate, hook, description="Ours").json()["description"] == "Ours"
    assert change(teammate, hook, sub_account_id=other).status_code == 400
    kept = change(teammate, hook, sub_account_id=None, mailing_list_id=None)
    assert (kept.status_code, kept.json()["sub_account_id"]) == (200, mine)
    assert teammate.post(f"/webhooks/{hook}/test").status_code == 200


CALLS: list[tuple[str, str, Any]] = [
    ("GET", "", None), ("PUT", "", {"url": "https://example.com/mine"}), ("DELETE", "", None),
    *(("POST", f"/{act}", None) for act in ("pause", "resume", "test", "rotate-secret")),
    ("POST", "/replay", {"from": "2026-05-04T12:00:00Z"}), ("GET", "/deliveries", None),
    ("GET", "/deliveries/{}", None), ("POST", "/deliveries/{}/retry", None),
]  # fmt: skip


def test_others_see_no_subscription(owner: Account, stranger: Account, container: Container, clock: Clock) -> None:
    """Also to the same account in the other mode, and to a teammate of one sub account."""
    hook, theirs = hook_of(owner), hook_of(stranger)
    teammate, live = make_teammate(container, owner, make_sub_account(container, owner)), make_live(container, owner)
    send_orders(container, owner)
    clock.advance(minutes=1)
    delivery = list_deliveries(owner, hook)[0]["id"]
    before = traces(container)
    answers = [
        caller.call(method, f"/webhooks/{hook}{path.format(delivery)}", json=body)
        for method, path, body in CALLS
        for caller in (stranger, teammate, live)
    ]
    odd = (hook + 99, "x", 2**63, "9" * 5_000)
    answers += [owner.call(method, f"/webhooks/{number}") for method in ("GET", "DELETE") for number in odd]
    # Through a subscription of one's own nobody reaches into another's log.
    answers += [
        stranger.get(f"/webhooks/{theirs}/deliveries/{delivery}"),
        stranger.post(f"/webhooks/{theirs}/deliveries/{delivery}/retry"),
        owner.get(f"/webhooks/{hook}/deliveries/{delivery}x"),
    ]
    assert {(each.status_code, each.text) for each in answers} == {(404, '{"message":"Not Found"}')}
    assert [each["id"] for each in stranger.get("/webhooks").json()["data"]] == [theirs]
    assert live.get("/webhooks").json()["data"] == teammate.get("/webhooks").json()["data"] == []
    assert traces(container) == before
    assert owner.get(f"/webhooks/{hook}").json()["url"] == URL


def test_a_receiver_that_backed_off_is_tried_at_once_when_its_owner_acts(owner: Account, container: Container) -> None:
    for status in ("failing", "disabled"):
        hook = hook_of(owner)
        set_status(container, hook, status, failing_since=container.clock(), last_error="No answer.")
        shown = owner.get(f"/webhooks/{hook}").json()
        assert (shown["status"], shown["last_error"]) == (status, "No answer.")
        assert shown["failing_since"] == "2026-05-04T12:00:00Z"
        back_off(container, hook)
        resumed = owner.post(f"/webhooks/{hook}/resume").json()
        assert (resumed["status"], resumed["failing_since"], resumed["last_error"]) == ("active", None, None)
        assert is_due_now(container, hook)
    for act in (
        lambda hook: owner.post(f"/webhooks/{hook}/resume"), lambda hook: owner.post(f"/webhooks/{hook}/test"),
        lambda hook: change(owner, hook, url="https://example.com/new"), lambda hook: change(owner, hook, verb="get"),
    ):  # fmt: skip
        back_off(container, hook := hook_of(owner))
        assert act(hook).status_code == 200
        assert is_due_now(container, hook)
    for done, status in (("pause", "paused"), ("resume", "active")):  # twice is as good as once
        answers = [owner.post(f"/webhooks/{hook}/{done}") for _ in range(2)]
        assert [(each.status_code, each.json()["status"]) for each in answers] == [(200, status)] * 2
    back_off(container, hook := hook_of(owner))
    assert change(owner, hook, description="Ours", type="order_item.delivered").status_code == 200
    assert not is_due_now(container, hook), "other words do not help it"


def test_an_account_has_so_many_subscriptions_and_no_more(build: Build) -> None:
    assert build().limits.webhooks == 100
    container = build(webhooks=3)
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        owner, stranger = (make_account(container, http, f"{name}@example.com") for name in ("dana", "sam"))
        teammate = make_teammate(container, owner, make_sub_account(container, owner))
        callers = (owner, make_live(container, owner), teammate)
        hooks = [hook_of(account) for account in callers]
        with unchanged(container):
            assert [message(subscribe(account)) for account in callers] == [(400, FULL)] * 3
        assert subscribe(owner, type="nonsense").status_code == 422
        assert teammate.get(f"/webhooks/{hooks[0]}").status_code == 404, "its limits hold again"
        assert owner.delete(f"/webhooks/{hooks[0]}").status_code == 200
        assert subscribe(teammate).status_code == 201
        with ThreadPoolExecutor(8) as crowd:  # another account's are not counted
            statuses = list(crowd.map(lambda _: subscribe(stranger).status_code, range(8)))
    assert sorted(statuses) == [201] * 3 + [400] * 5


def test_a_new_secret_is_shown_once_whatever_the_status(owner: Account, container: Container, clock: Clock) -> None:
    """The old one signs for a day more."""
    made = subscribed(owner)
    hook, secrets, key = made["id"], [made["secret"]], {"Idempotency-Key": "k"}
    clock.advance(minutes=1)
    rotated, again = (owner.post(f"/webhooks/{hook}/rotate-secret", headers=key) for _ in range(2))
    assert (rotated.status_code, rotated.json()) == (200, again.json())
    body = rotated.json()
    secrets.append(body.pop("secret"))
    assert made["previous_secret_until"] is None
    assert body["previous_secret_until"] == "2026-05-05T12:01:00Z"
    assert body == owner.get(f"/webhooks/{hook}").json()
    assert (rotated.headers["Cache-Control"], "x-holds-secret" in rotated.headers) == ("no-store", False)
    assert secrets[1] not in owner.get("/webhooks").text
    for status in ("failing", "paused", "disabled"):
        clock.advance(hours=1)
        set_status(container, hook, status)
        rotated = owner.post(f"/webhooks/{hook}/rotate-secret")
        assert (rotated.status_code, rotated.json()["status"]) == (200, status)
        secrets.append(rotated.json()["secret"])
        [row] = execute(container, sa.select(webhooks).where(webhooks.c.id == hook))
        sealed = (row.previous_secret_sealed, row.secret_sealed)
        assert [decrypt_secret(container.encryptor, hook, bytes(each)) for each in sealed] == secrets[-2:]
        assert row.previous_until == clock.now() + timedelta(hours=24)
    assert ([secret.startswith("whsec_") for secret in secrets], len(set(secrets))) == ([True] * 5, 5)
