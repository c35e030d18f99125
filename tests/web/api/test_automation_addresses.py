"""Automations and those whose address is not known yet."""

from typing import Any

import pytest

from quillpost.app.container import Container
from support.automations import AutomationDriver, birthday, plan, stored_progress
from support.factories import Account, Clock
from support.mailing_lists import ListOwner

WHERE = {"address": "12 Main St", "city": "Austin", "province": "TX", "postal_code": "78701"}


@pytest.fixture
def flow(owner: Account, container: Container, clock: Clock) -> AutomationDriver:
    return AutomationDriver(owner, container, clock)


@pytest.fixture
def lists(owner: Account) -> ListOwner:
    return ListOwner(owner)


def by_call(flow: AutomationDriver, lists: ListOwner, visitors: int, eve: int) -> None:
    assert lists.put(f"/recipients/{eve}", WHERE).status_code == 200


def by_hook(flow: AutomationDriver, lists: ListOwner, visitors: int, eve: int) -> None:
    key, body = lists.read(visitors)["api_key"], WHERE | {"email": "eve@example.com"}
    [row] = flow.account.http.post(f"/hooks/lists/{key}", json=body).json()
    assert (row["id"], row["result"]) == (eve, "changed")


def in_two_steps(flow: AutomationDriver, lists: ListOwner, visitors: int, eve: int) -> None:
    lists.put(f"/recipients/{eve}", {"address": "12 Main St"})
    flow.work()
    assert flow.orders() == [], "half an address is none"
    lists.put(f"/recipients/{eve}", WHERE)


def from_abroad(flow: AutomationDriver, lists: ListOwner, visitors: int, eve: int) -> None:
    """Where no state and no code are needed."""
    where = {"address": "1 Rue Haute", "city": "Paris", "country": "FR"}
    assert lists.put(f"/recipients/{eve}", where).status_code == 200


@pytest.mark.parametrize("address_comes", [by_call, by_hook, in_two_steps, from_abroad])
def test_whoever_comes_without_an_address_is_mailed_when_there_is_one(
    flow: AutomationDriver, lists: ListOwner, address_comes: Any
) -> None:
    visitors = lists.make()
    automation = flow.make(plan(visitors, daily_limit=1))
    eve = lists.add_email(visitors, "eve@example.com", name="Eve Mail")
    flow.work()
    assert (flow.orders(), stored_progress(flow.container, automation)) == ([], [])
    assert flow.read(automation)["waiting"] == 0
    flow.clock.advance(hours=1)
    address_comes(flow, lists, visitors, eve)
    assert flow.read(automation)["waiting"] == 1
    flow.work()
    assert flow.mailed() == [["Eve Mail"]], "the year and the day's limit were hers still"
    lists.put(f"/recipients/{eve}", {"address": "99 Other St"})
    lists.put(f"/recipients/{eve}", {"address": None, "email": "eve@example.com"})
    lists.put(f"/recipients/{eve}", WHERE)
    flow.clock.advance(days=1)
    flow.work()
    assert len(flow.orders()) == 1


def test_adding_an_address_to_an_earlier_recipient_triggers_nothing(flow: AutomationDriver, lists: ListOwner) -> None:
    visitors = lists.make()
    eve = lists.add_email(visitors, "eve@example.com", name="Eve Mail")
    flow.clock.advance(seconds=1)
    automation = flow.make(plan(visitors))
    lists.put(f"/recipients/{eve}", WHERE)
    assert flow.read(automation)["waiting"] == 0


def test_whoever_is_moved_there_without_an_address_makes_no_order(flow: AutomationDriver, lists: ListOwner) -> None:
    leads, customers = lists.make("Leads"), lists.make("Customers")
    automation = flow.make(plan(customers))
    eve = lists.add_email(leads, "eve@example.com", name="Eve Mail")
    lists.put(f"/recipients/{eve}", {"mailing_list_id": customers})
    assert flow.read(automation)["waiting"] == 0
    lists.put(f"/recipients/{eve}", WHERE)
    flow.work()
    assert flow.mailed() == [["Eve Mail"]]


def test_whoever_loses_the_address_before_the_send_waits_for_another(flow: AutomationDriver, lists: ListOwner) -> None:
    visitors = lists.make()
    automation = flow.make(plan(visitors))
    eve = lists.add(visitors, name="Eve Mail", email="eve@example.com").json()["id"]
    lists.put(f"/recipients/{eve}", {"city": None, "postal_code": None})
    flow.work()
    assert (flow.orders(), stored_progress(flow.container, automation)) == ([], [])
    assert flow.read(automation)["waiting"] == 0
    lists.put(f"/recipients/{eve}", WHERE)
    flow.work()
    assert flow.mailed() == [["Eve Mail"]]


def test_whoever_was_welcomed_is_not_welcomed_again_for_a_corrected_address(
    flow: AutomationDriver, lists: ListOwner
) -> None:
    visitors = lists.make()
    automation = flow.make(plan(visitors))
    eve = lists.add(visitors, name="Eve Mail", email="eve@example.com", **WHERE).json()["id"]
    flow.work()
    flow.clock.advance(days=365)
    lists.put(f"/recipients/{eve}", {"city": None})
    lists.put(f"/recipients/{eve}", WHERE | {"address": "13 Main St"})
    assert flow.read(automation)["waiting"] == 0, "nobody came"
    flow.work()
    assert flow.mailed() == [["Eve Mail"]]


def test_a_birthday_without_an_address_uses_up_no_year(flow: AutomationDriver, lists: ListOwner) -> None:
    """It is found while that day is looked back at."""
    friends = lists.make()
    eve = lists.add_email(friends, "eve@example.com", name="Eve Mail", dob="1990-05-04")
    automation = flow.make(birthday(friends))
    flow.work()
    assert (flow.orders(), stored_progress(flow.container, automation)) == ([], [])
    flow.clock.advance(days=2)
    lists.put(f"/recipients/{eve}", WHERE)
    flow.work()
    assert flow.mailed() == [["Eve Mail"]]


def test_an_automation_on_dates_takes_no_newcomers(flow: AutomationDriver, lists: ListOwner) -> None:
    friends = lists.make()
    automation = flow.make(birthday(friends))
    eve = lists.add_email(friends, "eve@example.com", name="Eve Mail")
    lists.put(f"/recipients/{eve}", WHERE)
    assert flow.read(automation)["waiting"] == 0
