"""Mailing lists: made, read, changed, ended, exported and merged; and what becomes of what belongs to them."""

import csv
import io
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core import tokens
from quillpost.core.database import Tenant
from quillpost.core.database.tables.base import mailing_lists
from quillpost.recipients.lists import queries as list_queries
from support.factories import Account, Clock, make_sub_account, make_teammate, run_due_jobs, run_jobs_for
from support.mailing_lists import (
    NO_SUB_ACCOUNT,
    ListOwner,
    ids,
    message,
    recipients_of_order,
    subscribe_to_list,
    subscription_scopes,
)
from support.qr_scans import codes_of, count_scans, scan
from support.rows import execute
from support.test_client import TestClient
from support.traces import FORM, assert_refused, unchanged
from support.webhooks import fan_out, list_deliveries, subscribe_by_call


def test_a_new_list_is_empty_and_says_in_words_when_it_was_made(owner: Account, clock: Clock) -> None:
    made = owner.post("/mailing-lists", {"name": " Visitors ", "colour": "red"})
    assert (made.status_code, made.headers["X-Ignored-Fields"]) == (201, "colour")
    body = made.json()
    assert (body["description"], body["type"], body["total_recipients"]) == ("Visitors", "manual", 0)
    assert body["created_at"] == body["created_at_diff"] == "just now"
    clock.advance(minutes=5)
    read = owner.get(f"/mailing-lists/{body['id']}").json()
    assert read == body | {"created_at": "2026-05-04T12:00:00Z", "created_at_diff": "5 minutes ago"}
    form = b"description=Doors&is_suppression_list=true"
    made = owner.call("POST", "/mailing-lists", content=form, headers={"Content-Type": FORM})
    assert (made.status_code, made.json()["is_suppression_list"]) == (201, True)


def test_a_key_is_unguessable_sealed_shown_and_ended_by_a_new_one(lists: ListOwner, container: Container) -> None:
    def stored() -> Any:
        """The first list's key, and that of the other."""
        columns = sa.select(mailing_lists.c.key_sealed, mailing_lists.c.key_digest)
        return execute(container, columns.filter_by(account_id=lists.account.id).order_by(mailing_lists.c.id))

    first, second = lists.make(), lists.make()
    key = lists.read(first)["api_key"]
    assert (key[:3], len(key) > 40, lists.read(second)["api_key"] != key) == ("ql_", True, True)
    assert all(key.encode() not in bytes(column) for row in stored() for column in row)
    rotated = lists.account.post(f"/mailing-lists/{first}/rotate-key")
    assert (rotated.status_code, rotated.headers["Cache-Control"]) == (200, "no-store")
    assert rotated.json()["api_key"] == lists.read(first)["api_key"] != key
    assert bytes(stored()[0].key_digest) == tokens.hash_token(rotated.json()["api_key"])


def test_lists_are_listed_newest_first_and_found_by_name_or_branch(lists: ListOwner, container: Container) -> None:
    def found(**params: str | int) -> list[int]:
        return ids(lists.account.get("/mailing-lists", params=params).json()["data"])

    made = [lists.make(name) for name in ("Spring 50%", "Spring 500", "a_b\\c", "AXB")]
    assert found(query="") == made[::-1]
    for query, places in {"sPRING": [1, 0], "50%": [0], "A_b": [2], "b\\C": [2], "nothing": []}.items():
        assert found(query=query) == [made[place] for place in places], query
    page = lists.account.get("/mailing-lists?items_per_page=3&query=s").json()
    assert (page["meta"]["total"], page["meta"]["per_page"]) == (2, 3)
    branch = make_sub_account(container, lists.account)
    mine = lists.make(sub_account_id=branch)
    assert found(sub_account_id=branch) == found(sub_account=branch) == [mine]
    assert message(lists.account.get(f"/mailing-lists?sub_account_id={10**9}")) == (400, NO_SUB_ACCOUNT)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"description": ""}, "description"), ({"description": "  "}, "description"),
    ({"description": None}, "description"), ({"description": 5}, "description"),
    ({"description": "x" * 301}, "description"), ({"description": "a\x00b"}, "description"),
    ({"type": "zapier"}, "type"), ({"is_suppression_list": "yes"}, "is_suppression_list"),
    ({"qrcode_url": "ftp://example.com"}, "qrcode_url"), ({"qrcode_url": "http://127.0.0.1/"}, "qrcode_url"),
    ({"qrcode_url": "https://example.com/%FRISTNAME%"}, "qrcode_url"), ({"sub_account_id": "x"}, "sub_account_id"),
    ({"sub_account_id": 2**63}, "sub_account_id"),
]  # fmt: skip


def test_a_change_leaves_what_it_does_not_name_and_a_wrong_field_is_named(
    subtests: pytest.Subtests, lists: ListOwner, container: Container, clock: Clock
) -> None:
    list_id = lists.make(qrcode_url="https://example.com/a", type="crm")
    path, before = f"/mailing-lists/{list_id}", lists.read(list_id)
    clock.advance(hours=1)
    changed = lists.put(path, {"name": "Doors", "x": 1})
    assert (changed.status_code, changed.headers["X-Ignored-Fields"]) == (200, "x")
    named = {"description": "Doors", "created_at_diff": "1 hour ago", "updated_at": "2026-05-04T13:00:00Z"}
    assert changed.json() == before | named
    cleared = lists.put(path, {"qrcode_url": None, "type": "friends"}).json()
    assert (cleared["qrcode_url"], cleared["type"], cleared["description"]) == (None, "friends", "Doors")
    silent = lists.account.post("/mailing-lists", {"description": "A", "type": None, "is_suppression_list": None})
    assert (silent.json()["type"], silent.json()["is_suppression_list"]) == ("manual", False)
    nulls = [({field: None}, field) for field in ("type", "is_suppression_list")]
    assert_refused(subtests, container, partial(lists.put, path), BAD + nulls)
    new = [({"description": "A"} | fields, field) for fields, field in BAD]
    new.append(({}, "description"))
    assert_refused(subtests, container, partial(lists.account.post, "/mailing-lists"), new)


def test_people_and_subscriptions_move_to_a_lists_sub_account(lists: ListOwner, container: Container) -> None:
    """Its people follow it, and the subscriptions to it stay whose they are."""
    here, there = make_sub_account(container, lists.account), make_sub_account(container, lists.account, "Other")
    list_id = lists.make(sub_account_id=here)
    lists.fill(list_id, "1 Main St", "2 Main St")
    hooks = subscribe_to_list(container, lists.account, list_id, here)
    teammate = ListOwner(make_teammate(container, lists.account, there))
    assert teammate.account.get("/recipients").json()["meta"]["total"] == 0
    assert lists.put(f"/mailing-lists/{list_id}", {"sub_account": there}).json()["sub_account_id"] == there
    assert (len(teammate.on(list_id)), lists.read(list_id)["total_recipients"]) == (2, 2)
    assert subscription_scopes(container, hooks) == [(list_id, None), (list_id, here)] * 2
    assert lists.put(f"/mailing-lists/{list_id}", {"sub_account_id": None}).status_code == 200
    assert teammate.account.get("/recipients").json()["data"] == []
    assert subscription_scopes(container, hooks) == [(list_id, None), (list_id, here)] * 2


def test_another_accounts_list_looks_like_none(lists: ListOwner, stranger: Account, container: Container) -> None:
    list_id = lists.make()
    theirs = ListOwner(stranger)
    own = theirs.make()
    for n in (list_id, 10**9, "x", 2**63):
        for method, path in (
            ("GET", ""), ("PUT", ""), ("DELETE", ""), ("GET", "/export"), ("GET", "/recipients"),
            ("POST", "/dedupe"), ("POST", "/rotate-key"), ("POST", "/merge"),
        ):  # fmt: skip
            answer = stranger.call(method, f"/mailing-lists/{n}{path}", json={"name": "X", "into": own})
            assert (answer.status_code, answer.text) == (404, '{"message":"Not Found"}'), (method, path)
    assert ids(stranger.get("/mailing-lists").json()["data"]) == [own]
    branch = make_sub_account(container, lists.account)
    for refused in (
        stranger.post("/mailing-lists", {"name": "A", "sub_account_id": branch}),
        theirs.put(f"/mailing-lists/{own}", {"sub_account_id": branch}),
        stranger.get(f"/mailing-lists?sub_account_id={branch}"),
    ):
        assert message(refused) == (400, NO_SUB_ACCOUNT)
    assert lists.read(list_id)["description"] == "Visitors"


def test_a_teammate_of_a_sub_account_keeps_and_exports_its_lists(lists: ListOwner, container: Container) -> None:
    mine = make_sub_account(container, lists.account)
    mate = ListOwner(make_teammate(container, lists.account, mine))
    everyones, own = lists.make(), mate.make()
    mate.fill(own, "1 Main St")
    assert len(exported(mate, own)) == 1
    assert mate.account.get(f"/mailing-lists/{everyones}/export").status_code == 404
    assert mate.put(f"/mailing-lists/{own}", {"sub_account_id": None}).json()["sub_account_id"] == mine


def test_a_deleted_list_takes_its_people_along(lists: ListOwner, container: Container) -> None:
    list_id = lists.make()
    [recipient] = lists.fill(list_id, "1 Main St")
    recipients_of_order(container, lists.account, list_id, status="fulfilled", mode="live")
    deleted = lists.delete(f"/mailing-lists/{list_id}")
    assert (deleted.status_code, deleted.json()) == (200, {"message": "success"})
    assert lists.delete(f"/mailing-lists/{list_id}").status_code == 404
    assert lists.account.get(f"/recipients/{recipient}").status_code == 404
    assert lists.account.get("/recipients").json()["data"] == []
    # After the look at both modes only the caller's own is seen again.
    assert lists.account.get("/orders").json()["data"] == []


def test_a_list_stays_while_an_order_waits(subtests: pytest.Subtests, lists: ListOwner, container: Container) -> None:
    for status, mode, answers in (
        ("reviewing", "test", 400), ("reviewing", "live", 400), ("paused", "test", 400), ("printing", "test", 200),
        ("cancelled", "test", 200),
    ):  # fmt: skip
        list_id, other = lists.make(), lists.make()
        order = recipients_of_order(container, lists.account, list_id, status=status, mode=mode)
        tries = [
            lists.put(f"/mailing-lists/{list_id}", {"is_suppression_list": True}),
            lists.put(f"/mailing-lists/{list_id}", {"is_suppression_list": False}),
            lists.account.post(f"/mailing-lists/{list_id}/merge", {"into": other}),
            lists.delete(f"/mailing-lists/{other}"),
        ]
        with subtests.test(f"{status} in {mode}"):
            assert [one.status_code for one in tries] == [answers, 200, answers, 200]
            if answers == 400:
                assert message(tries[0])[1].startswith(f"Order {order} waits")
                assert message(lists.delete(f"/mailing-lists/{list_id}"))[1].startswith(f"Order {order} waits")
                assert lists.read(list_id)["is_suppression_list"] is False


def exported(lists: ListOwner, list_id: int) -> list[dict[str, str]]:
    answer = lists.account.get(f"/mailing-lists/{list_id}/export")
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/csv; charset=utf-8")
    assert answer.headers["Content-Disposition"] == f'attachment; filename="mailing-list-{list_id}.csv"'
    return list(csv.DictReader(io.StringIO(answer.text, newline="")))


def test_an_export_has_a_line_for_each_and_a_long_one_comes_whole(lists: ListOwner, container: Container) -> None:
    list_id, empty = lists.make(), lists.make()
    first = lists.add(list_id, name='Jane "JD" Doe, Dr.', custom3="one\ntwo", dob="02/29/1980", company="Größe").json()
    lists.add_email(list_id, "jane@example.com")
    # A spreadsheet takes no value for a formula.
    formulas = ("=1+1", "+1 512 555 0100", "-1", "@SUM(A1)")
    for place, formula in enumerate(formulas):
        lists.add(list_id, address=f"{place} Oak Ave", custom1=formula, phone=f"a{formula}")
    found = exported(lists, list_id)
    names = list(list_queries.EXPORT_COLUMNS)
    assert list(found[0]) == [name for name in names if name in first] == names
    assert found[0] == {name: "" if first[name] is None else str(first[name]) for name in names}
    assert (found[1]["address"], found[1]["email"]) == ("", "jane@example.com")
    assert [(row["custom1"], row["phone"]) for row in found[2:]] == [(f"'{each}", f"a{each}") for each in formulas]
    assert lists.account.get(f"/mailing-lists/{empty}/export").text == ",".join(names) + "\n"
    list_id = lists.make()
    lists.fill(list_id, *(f"{n} Main St" for n in range(1_500)))
    with container.db.transaction(Tenant(lists.account.id)) as tx:
        whole, broken_off = (list_queries.write_csv_file(tx, list_id) for _ in range(2))
    pieces = list(list_queries.read_chunks(whole))
    assert len(pieces) > 1
    assert max(map(len, pieces)) <= list_queries.CHUNK_BYTES
    assert b"".join(pieces).count(b"\n") == 1_501
    reading = list_queries.read_chunks(broken_off)
    next(reading)
    reading.close()
    assert broken_off.closed


def merge(lists: ListOwner, source: int, target: int) -> Any:
    merged = lists.account.post(f"/mailing-lists/{source}/merge", {"into": target})
    assert merged.status_code == 200, merged.text
    return merged.json()


def dedupe(lists: ListOwner, list_id: int) -> int:
    """How many were removed."""
    answer = lists.account.post(f"/mailing-lists/{list_id}/dedupe")
    assert (answer.status_code, answer.json()["message"]) == (200, "success")
    return int(answer.json()["removed"])


def test_everyone_goes_over_and_doubles_are_dropped(lists: ListOwner, container: Container, clock: Clock) -> None:
    branch = make_sub_account(container, lists.account)
    source, target = lists.make("Old"), lists.make("New", sub_account_id=branch)
    there = [*lists.fill(target, "1 Main St"), lists.add_email(target, "Jane@example.com")]
    there.append(int(lists.add(target, address="3 Main St", email="joe@example.com").json()["id"]))
    _, moves = lists.fill(source, "1 MAIN ST.", "2 Main St")
    lists.add_email(source, "jane@EXAMPLE.com")
    moves_too = lists.add_email(source, "joe@example.com")
    clock.advance(minutes=1)
    merged = merge(lists, source, target)
    assert (merged["id"], merged["total_recipients"]) == (target, 5)
    assert lists.account.get(f"/mailing-lists/{source}").status_code == 404
    assert sorted(ids(lists.on(target))) == sorted([*there, moves, moves_too])
    moved = lists.account.get(f"/recipients/{moves}").json()
    assert (moved["mailing_list_id"], moved["updated_at"]) == (target, "2026-05-04T12:01:00Z")
    of_branch = lists.account.get(f"/recipients?sub_account_id={branch}").json()
    assert of_branch["meta"]["total"] == len(of_branch["data"]) == 5


def test_a_list_is_not_merged_with_itself_or_others(lists: ListOwner, stranger: Account, container: Container) -> None:
    mailed, suppression_list = lists.make(), lists.make(is_suppression_list=True)
    for source, into in ((mailed, mailed), (mailed, suppression_list), (suppression_list, mailed), (mailed, None)):
        refused = lists.account.post(f"/mailing-lists/{source}/merge", {"into": into} if into else {})
        assert (refused.status_code, list(refused.json()["errors"])) == (422, ["into"])
    assert message(lists.account.post(f"/mailing-lists/{mailed}/merge", {"into": 10**9}))[0] == 400
    theirs = ListOwner(stranger).make()
    with unchanged(container):
        assert stranger.post(f"/mailing-lists/{theirs}/merge", {"into": mailed}).status_code == 400
    assert lists.account.get("/mailing-lists").json()["meta"]["total"] == 2


def test_of_doubles_the_oldest_stays_and_half_an_address_makes_nobody_one(lists: ListOwner) -> None:
    """A suppression list stops an e-mail without an address only if it has the e-mail alone."""
    list_id, other = lists.make(), lists.make()
    oldest = lists.add_email(list_id, "jane@example.com", name="Jane")
    for spelling in ("jane@example.com", "JANE@example.com"):
        lists.add_email(list_id, spelling, name="Somebody")
        lists.add_email(other, spelling)
    joe = lists.add_email(list_id, "joe@example.com")
    assert [dedupe(lists, list_id) for _ in range(2)] == [2, 0]
    assert ids(lists.on(list_id)) == [oldest, joe]
    assert [lists.read(each)["total_recipients"] for each in (list_id, other)] == [2, 2]
    for suppresses, removed in ((False, 1), (True, 0)):
        list_id = lists.make(is_suppression_list=suppresses)
        lists.add(list_id, name="Jane Doe", email="doe@example.com")
        lists.add_email(list_id, "DOE@example.com", name="JANE DOE")
        lists.add_email(list_id, "does@example.com", name="John Doe")
        lists.add(list_id, address="2 Main St")
        assert dedupe(lists, list_id) == removed
        assert lists.read(list_id)["total_recipients"] == 4 - removed
    couple = lists.make()
    lists.add(couple, name="Jane Doe", email="doe@example.com")
    lists.add_email(couple, "doe@example.com", name="John Doe")
    assert dedupe(lists, couple) == 0
    source, target = lists.make(), lists.make()
    here, there = {"mailing_list_id": source}, {"mailing_list_id": target}
    for body in (
        there | {"email": "a@example.com"}, there | {"province": "CA", "email": "a@example.com"},
        there | {"email": "b@example.com"}, here | {"email": "c@example.com"}, here, here | {"email": "A@example.com"},
    ):  # fmt: skip
        assert lists.account.post("/recipients", {"address": "12 Main St"} | body).status_code == 201
    dedupe(lists, source)
    merge(lists, source, target)
    emails = sorted(str(row["email"]) for row in lists.on(target))
    assert emails == ["None", *(f"{name}@example.com" for name in "aabc")]


def test_subscriptions_of_both_modes_and_of_everyone_go_over(lists: ListOwner, container: Container) -> None:
    """Also those that whoever merges does not see; a sub account's to a list of all stays its own."""
    here, there = make_sub_account(container, lists.account), make_sub_account(container, lists.account, "Other")
    teammate = ListOwner(make_teammate(container, lists.account, here))
    source, target, last = (lists.make(sub_account_id=home) for home in (here, here, there))
    hooks = subscribe_to_list(container, lists.account, source, here)
    for caller, old, new in ((teammate, source, target), (lists, target, last)):
        merge(caller, old, new)
        assert subscription_scopes(container, hooks) == [(new, None), (new, here)] * 2
    assert lists.account.get(f"/webhooks/{hooks[0]}").json()["mailing_list_id"] == last
    of_all, other = lists.make(), lists.make()
    hooks = subscribe_to_list(container, lists.account, of_all, here)
    merge(lists, of_all, other)
    assert subscription_scopes(container, hooks) == [(other, None), (other, here)] * 2


@pytest.mark.usefixtures("clean_database")
def test_scans_go_to_the_merged_list(lists: ListOwner, container: Container, clock: Clock, http: TestClient) -> None:
    """However often it was merged on."""

    def counts(list_id: int) -> dict[str, Any]:
        shown = lists.read(list_id)
        return {name: shown[name] for name in ("total_sends", "total_scans", "unique_scans", "last_scan")}

    first, second, third = (lists.make() for _ in range(3))
    lists.fill(first, "1 Main St", "2 Main St")
    hook = subscribe_by_call(lists.account, type="order_item.status_update", mailing_list_id=first)
    shop = {"qrcode_url": "https://shop.example.com/hi"}
    order_id = lists.account.send(recipients=[], mailing_list_ids=[first], **shop).json()["id"]
    run_due_jobs(container)
    run_jobs_for(container, clock, seconds=12)
    codes = codes_of(container, order_id)
    scan(http, codes[0])
    count_scans(container)
    before = counts(first)
    assert (before["total_scans"], before["unique_scans"]) == (1, 1)
    merge(lists, first, second)
    assert counts(second) == before
    merge(lists, second, third)
    fan_out(container)
    event_count = len(list_deliveries(lists.account, hook))
    run_jobs_for(container, clock, seconds=40)
    fan_out(container)
    assert len(list_deliveries(lists.account, hook)) > event_count, "the pieces are not told of any more"
    clock.advance(minutes=1)
    for code in codes:
        scan(http, code)
    count_scans(container)
    after = counts(third)
    assert (after["total_scans"], after["unique_scans"]) == (3, 2)
    assert after["last_scan"] != before["last_scan"]
