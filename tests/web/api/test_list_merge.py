"""Merging lists and removing doubles."""

import pytest

from quillpost.app.container import Container
from support.factories import Account, Clock, make_sub_account, make_teammate
from support.mailing_lists import ListOwner, field_errors, ids, subscribe_to_list, subscription_scopes


@pytest.fixture
def lists(owner: Account) -> ListOwner:
    return ListOwner(owner)


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
    merged = lists.account.post(f"/mailing-lists/{source}/merge", {"into": target})
    assert merged.status_code == 200
    assert (merged.json()["id"], merged.json()["total_recipients"]) == (target, 5)
    assert lists.account.get(f"/mailing-lists/{source}").status_code == 404
    assert sorted(ids(lists.on(target))) == sorted([*there, moves, moves_too])
    moved = lists.account.get(f"/recipients/{moves}").json()
    assert (moved["mailing_list_id"], moved["updated_at"]) == (target, "2026-05-04T12:01:00Z")
    of_branch = lists.account.get(f"/recipients?sub_account_id={branch}").json()
    assert of_branch["meta"]["total"] == len(of_branch["data"]) == 5


def test_a_list_is_not_merged_into_itself_or_into_one_of_another_kind(lists: ListOwner) -> None:
    mailed, suppression_list = lists.make(), lists.make(is_suppression_list=True)
    for source, target in ((mailed, mailed), (mailed, suppression_list), (suppression_list, mailed)):
        answer = lists.account.post(f"/mailing-lists/{source}/merge", {"into": target})
        assert list(field_errors(answer)) == ["into"]
    assert list(field_errors(lists.account.post(f"/mailing-lists/{mailed}/merge", {}))) == ["into"]
    assert lists.account.post(f"/mailing-lists/{mailed}/merge", {"into": 999}).status_code == 400
    assert lists.account.get("/mailing-lists").json()["meta"]["total"] == 2


def dedupe(lists: ListOwner, list_id: int) -> dict[str, object]:
    answer = lists.account.post(f"/mailing-lists/{list_id}/dedupe")
    assert answer.status_code == 200
    found: dict[str, object] = answer.json()
    return found


def test_of_each_email_alone_the_oldest_stays(lists: ListOwner) -> None:
    list_id = lists.make()
    oldest = lists.add_email(list_id, "jane@example.com", name="Jane")
    for spelling in ("jane@example.com", "JANE@example.com"):
        lists.add_email(list_id, spelling, name="Somebody")
    other = lists.add_email(list_id, "joe@example.com")
    assert dedupe(lists, list_id) == {"message": "success", "removed": 2}
    assert ids(lists.on(list_id)) == [oldest, other]
    assert lists.read(list_id)["total_recipients"] == 2
    assert dedupe(lists, list_id)["removed"] == 0


@pytest.mark.parametrize(("suppression", "removed"), [(False, 1), (True, 0)])
def test_someone_whose_address_is_known_needs_no_email_alone(lists: ListOwner, suppression: bool, removed: int) -> None:
    """A suppression list stops an e-mail without an address only if it has the e-mail alone."""
    list_id = lists.make(is_suppression_list=suppression)
    lists.add(list_id, name="Jane Doe", email="doe@example.com")
    lists.add_email(list_id, "DOE@example.com", name="JANE DOE")
    lists.add_email(list_id, "does@example.com", name="John Doe")
    lists.add(list_id, address="2 Main St")
    assert dedupe(lists, list_id)["removed"] == removed
    assert lists.read(list_id)["total_recipients"] == 4 - removed


def test_another_person_with_the_same_email_stays(lists: ListOwner) -> None:
    list_id = lists.make()
    lists.add(list_id, name="Jane Doe", email="doe@example.com")
    lists.add_email(list_id, "doe@example.com", name="John Doe")
    assert dedupe(lists, list_id)["removed"] == 0


def test_people_with_half_an_address_are_not_taken_for_one(lists: ListOwner) -> None:
    source, target = lists.make(), lists.make()
    half = {"address": "12 Main St"}
    for list_id, more in (
        (target, {"email": "a@example.com"}),
        (target, {"province": "CA", "email": "a@example.com"}),
        (target, {"email": "b@example.com"}),
        (source, {"email": "c@example.com"}),
        (source, {}),
        (source, {"email": "A@example.com"}),  # the first of them once more
    ):
        added = lists.account.post("/recipients", half | more | {"mailing_list_id": list_id})
        assert added.status_code == 201, added.text
    dedupe(lists, source)
    lists.account.post(f"/mailing-lists/{source}/merge", {"into": target})
    emails = sorted(str(row["email"]) for row in lists.on(target))
    assert emails == ["None", *(f"{name}@example.com" for name in "aabc")]


def test_other_lists_are_left_alone(lists: ListOwner) -> None:
    first, second = lists.make(), lists.make()
    for list_id in (first, second):
        lists.add_email(list_id, "jane@example.com")
        lists.add_email(list_id, "jane@example.com")
    assert dedupe(lists, first)["removed"] == 1
    assert (lists.read(first)["total_recipients"], lists.read(second)["total_recipients"]) == (1, 2)


def test_subscriptions_to_the_list_go_over_with_it(lists: ListOwner) -> None:
    source, target = lists.make("Old"), lists.make("New")
    body = {"url": "https://example.com/hook", "type": "*", "mailing_list_id": source}
    hook = lists.account.post("/webhooks", body).json()["id"]
    lists.account.post(f"/mailing-lists/{source}/merge", {"into": target})
    assert lists.account.get(f"/webhooks/{hook}").json()["mailing_list_id"] == target


def test_subscriptions_of_both_modes_and_of_everyone_go_over(lists: ListOwner, container: Container) -> None:
    """Also those that whoever merges does not see."""
    here, there = make_sub_account(container, lists.account), make_sub_account(container, lists.account, "Other")
    source, target = lists.make(sub_account_id=here), lists.make(sub_account_id=here)
    hooks = subscribe_to_list(container, lists.account, source, here)
    teammate = make_teammate(container, lists.account, here)
    assert teammate.post(f"/mailing-lists/{source}/merge", {"into": target}).status_code == 200
    assert subscription_scopes(container, hooks) == [(target, None), (target, here)] * 2
    last = lists.make(sub_account_id=there)
    assert lists.account.post(f"/mailing-lists/{target}/merge", {"into": last}).status_code == 200
    assert subscription_scopes(container, hooks) == [(last, None), (last, here)] * 2


def test_a_sub_accounts_subscription_to_a_list_of_all_stays_its_own(lists: ListOwner, container: Container) -> None:
    branch = make_sub_account(container, lists.account)
    source, target = lists.make(), lists.make()
    hooks = subscribe_to_list(container, lists.account, source, branch)
    lists.account.post(f"/mailing-lists/{source}/merge", {"into": target})
    assert subscription_scopes(container, hooks) == [(target, None), (target, branch)] * 2
