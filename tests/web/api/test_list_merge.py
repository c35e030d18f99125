"""Merging lists, removing doubles, and what becomes of pieces and subscriptions of a list that was merged."""

from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.notifications.webhooks import queries as webhook_queries
from support.factories import Account, Clock, make_sub_account, make_teammate, run_due_jobs, run_jobs_for
from support.mailing_lists import ListOwner, field_errors, ids, message, subscribe_to_list, subscription_scopes
from support.qr_scans import codes_of, count_scans, scan
from support.refusals import unchanged
from support.test_client import TestClient
from support.webhook_log import subscribe
from support.webhook_outbox import event_types, fan_out


def merge(lists: ListOwner, source: int, target: int) -> dict[str, Any]:
    merged = lists.account.post(f"/mailing-lists/{source}/merge", {"into": target})
    assert merged.status_code == 200, merged.text
    shown: dict[str, Any] = merged.json()
    return shown


def dedupe(lists: ListOwner, list_id: int) -> int:
    """How many were removed."""
    answer = lists.account.post(f"/mailing-lists/{list_id}/dedupe")
    assert (answer.status_code, answer.json()["message"]) == (200, "success")
    return int(answer.json()["removed"])


def test_everyone_goes_over_and_doubles_are_dropped(lists: ListOwner, container: Container, clock: Clock) -> None:
    branch = make_sub_account(container, lists.account)
    source, target = lists.make("Old"), lists.make("New", sub_account_id=branch)
    there = lists.fill(target, "1 Main St")
    there.append(lists.add_email(target, "Jane@example.com"))
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


def test_a_list_is_not_merged_into_itself_into_another_kind_or_with_a_strangers(
    lists: ListOwner, stranger: Account, container: Container
) -> None:
    mailed, suppression_list = lists.make(), lists.make(is_suppression_list=True)
    for source, into in (
        (mailed, {"into": mailed}),
        (mailed, {"into": suppression_list}),
        (suppression_list, {"into": mailed}),
        (mailed, {}),
    ):
        assert list(field_errors(lists.account.post(f"/mailing-lists/{source}/merge", into))) == ["into"]
    assert message(lists.account.post(f"/mailing-lists/{mailed}/merge", {"into": 10**9}))[0] == 400
    theirs = ListOwner(stranger).make()
    with unchanged(container):
        assert stranger.post(f"/mailing-lists/{theirs}/merge", {"into": mailed}).status_code == 400
        assert stranger.post(f"/mailing-lists/{mailed}/merge", {"into": theirs}).status_code == 404
    assert lists.account.get("/mailing-lists").json()["meta"]["total"] == 2


# Doubles


def test_of_each_email_alone_the_oldest_stays_and_other_lists_are_left_as_they_are(lists: ListOwner) -> None:
    list_id, other = lists.make(), lists.make()
    oldest = lists.add_email(list_id, "jane@example.com", name="Jane")
    for spelling in ("jane@example.com", "JANE@example.com"):
        lists.add_email(list_id, spelling, name="Somebody")
        lists.add_email(other, spelling)
    joe = lists.add_email(list_id, "joe@example.com")
    assert [dedupe(lists, list_id) for _ in range(2)] == [2, 0]
    assert ids(lists.on(list_id)) == [oldest, joe]
    assert [lists.read(each)["total_recipients"] for each in (list_id, other)] == [2, 2]


def test_someone_whose_address_is_known_needs_no_email_alone(lists: ListOwner) -> None:
    """A suppression list stops an e-mail without an address only if it has the e-mail alone."""
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


def test_people_with_half_an_address_are_not_taken_for_one(lists: ListOwner) -> None:
    source, target = lists.make(), lists.make()
    for list_id, more in (
        (target, {"email": "a@example.com"}),
        (target, {"province": "CA", "email": "a@example.com"}),
        (target, {"email": "b@example.com"}),
        (source, {"email": "c@example.com"}),
        (source, {}),
        (source, {"email": "A@example.com"}),  # the first of them once more
    ):
        body = {"address": "12 Main St", "mailing_list_id": list_id} | more
        assert lists.account.post("/recipients", body).status_code == 201
    dedupe(lists, source)
    merge(lists, source, target)
    emails = sorted(str(row["email"]) for row in lists.on(target))
    assert emails == ["None", *(f"{name}@example.com" for name in "aabc")]


# Subscriptions, and pieces in the mail


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
def test_scans_and_events_of_pieces_in_the_mail_go_to_the_merged_list(
    lists: ListOwner, container: Container, clock: Clock, http: TestClient
) -> None:
    """However often it was merged on."""

    def counts(list_id: int) -> dict[str, Any]:
        shown = lists.read(list_id)
        return {name: shown[name] for name in ("total_sends", "total_scans", "unique_scans", "last_scan")}

    first, second, third = (lists.make() for _ in range(3))
    lists.fill(first, "1 Main St", "2 Main St")
    hook = subscribe(lists.account, type="order_item.status_update", mailing_list_id=first)
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
    with container.db.system_transaction() as tx:
        listening = webhook_queries.read_webhook(tx, hook)
    event_count = len(event_types(container, listening))
    run_jobs_for(container, clock, seconds=40)
    fan_out(container)
    assert len(event_types(container, listening)) > event_count, "the pieces are not told of any more"
    clock.advance(minutes=1)
    for code in codes:
        scan(http, code)
    count_scans(container)
    after = counts(third)
    assert (after["total_scans"], after["unique_scans"]) == (3, 2)
    assert after["last_scan"] != before["last_scan"]
