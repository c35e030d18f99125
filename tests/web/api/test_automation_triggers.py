"""Automations from what happens to the pieces that are mailed for it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.web.application import create_app
from support.automations import SEND, AutomationDriver, birthday, plan, scan, stored_progress
from support.factories import Account, Build, Clock, make_account, make_live, make_sub_account, person, run_jobs_for
from support.mailing_lists import ListOwner
from support.test_client import TestClient


@pytest.fixture
def flow(owner: Account, container: Container, clock: Clock) -> AutomationDriver:
    return AutomationDriver(owner, container, clock)


@pytest.fixture
def lists(owner: Account) -> ListOwner:
    return ListOwner(owner)


def at(clock: Clock, year: int, month: int, day: int) -> None:
    """Turn the clock to noon of a day to come."""
    clock.advance(seconds=(datetime(year, month, day, 12, tzinfo=UTC) - clock.now()).total_seconds())


def test_whoever_comes_onto_the_list_is_mailed_once(flow: AutomationDriver, lists: ListOwner) -> None:
    visitors = lists.make()
    lists.fill(visitors, "1 Main St")
    automation = flow.make(plan(visitors, send=SEND | {"metadata": {"n": 1.0, "flow": "hi"}}))
    flow.work()
    assert flow.orders() == [], "who was there before does not count"
    lists.add(visitors, name="Ann One", address="2 Main St")
    assert flow.read(automation)["waiting"] == 1
    flow.work()
    flow.work()
    assert flow.mailed() == [["Ann One"]]
    [order] = flow.orders()
    assert (order["method"], order["status"]) == ("Campaign", "Reviewing")
    assert '"metadata":{"n":1.0,"flow":"hi"}' in flow.account.get(f"/orders/{order['id']}").text
    known = flow.read(automation)
    assert (known["sent_count"], known["waiting"], known["last_error"]) == (1, 0, None)
    assert (known["last_sent_at"], known["last_order_id"]) == ("2026-05-04T12:00:00Z", order["id"])


def test_many_at_once_are_one_order_that_travels_like_any_other(
    flow: AutomationDriver, lists: ListOwner, container: Container, clock: Clock
) -> None:
    visitors = lists.make()
    flow.make(plan(visitors))
    lists.fill(visitors, *(f"{n} Main St" for n in range(1, 61)))
    flow.work()
    [names] = flow.mailed()
    assert len(names) == 60
    run_jobs_for(container, clock, seconds=60)
    [order] = flow.orders()
    assert order["status"] == "Fulfilled"
    assert lists.read(visitors)["total_sends"] == 60, "the list knows of mail to its people"


def test_people_that_cannot_be_mailed_are_shown_and_do_not_stop_the_others(
    flow: AutomationDriver, lists: ListOwner
) -> None:
    visitors, suppression_list = lists.make(), lists.make("No mail", is_suppression_list=True)
    lists.add(suppression_list, name="Bob Barred", address="5 Main St")
    automation = flow.make(plan(visitors, send=SEND | {"send_standard_mail": True}))
    lists.add(visitors, name="Ann Good")
    lists.add(visitors, name="Cora Far", address="4 Bay St", city="Toronto", province="ON", postal_code="M5H",
              country="CA")  # fmt: skip
    lists.add(visitors, name="Bob Barred", address="5 Main St")
    lists.add(visitors, name="W" * 290, address="6 Main St")
    flow.work()
    flow.work()
    [order] = flow.orders()
    assert {item["recipient"]["name"][:9]: item["failure"] for item in flow.items(order["id"])} == {
        "Ann Good": None,
        "Cora Far": "There is no price for this piece to CA.",
        "Bob Barre": "This address is on a suppression list.",
        "W" * 9: "The address is too long for the piece; shorten its lines.",
    }
    known = flow.read(automation)
    assert (known["sent_count"], known["waiting"], known["last_error"]) == (1, 0, None)


def test_joining_the_list_again_mails_again_only_in_another_year(
    flow: AutomationDriver, lists: ListOwner, clock: Clock
) -> None:
    visitors = lists.make()
    flow.make(plan(visitors))
    for _ in range(2):
        [jane] = lists.fill(visitors, "1 Main St")
        flow.work()
        lists.delete(f"/recipients/{jane}")
        clock.advance(days=30)
    assert flow.mailed() == [["Jane Doe"]]
    at(clock, 2027, 1, 1)
    lists.fill(visitors, "1 main st.")
    flow.work()
    assert flow.mailed() == [["Jane Doe"], ["Jane Doe"]]


def test_whoever_is_moved_there_comes_onto_the_list_too(flow: AutomationDriver, lists: ListOwner) -> None:
    leads, customers = lists.make("Leads"), lists.make("Customers")
    left, entered = flow.make(plan(leads, name="Leads")), flow.make(plan(customers))
    [jane, joe] = lists.fill(leads, "1 Main St", "2 Main St")
    assert (flow.read(left)["waiting"], flow.read(entered)["waiting"]) == (2, 0)
    lists.put(f"/recipients/{jane}", {"mailing_list_id": customers, "name": "Jane Moved"})
    lists.put(f"/recipients/{joe}", {"name": "Joe Stays"})
    assert (flow.read(left)["waiting"], flow.read(entered)["waiting"]) == (1, 1)
    flow.work()
    assert sorted(flow.mailed()) == [["Jane Moved"], ["Joe Stays"]]


def test_a_merged_list_brings_its_automations_and_no_newcomers(flow: AutomationDriver, lists: ListOwner) -> None:
    small, large = lists.make("Small"), lists.make("Large")
    of_small, of_large = flow.make(plan(small, name="S")), flow.make(plan(large, name="L"))
    lists.fill(small, "1 Main St")
    assert flow.account.post(f"/mailing-lists/{small}/merge", {"into": large}).status_code == 200
    assert [flow.read(each)["mailing_list_id"] for each in (of_small, of_large)] == [large, large]
    assert [flow.read(each)["waiting"] for each in (of_small, of_large)] == [1, 0]
    flow.work()
    assert (flow.read(of_small)["sent_count"], flow.read(of_large)["sent_count"]) == (1, 0)


def test_whoever_waits_on_a_merged_list_goes_on_waiting_also_where_they_were_on_the_other(
    flow: AutomationDriver, lists: ListOwner
) -> None:
    small, large = lists.make("Small"), lists.make("Large")
    lists.fill(large, "1 Main St", "2 Main St", "3 Main St")
    of_small = flow.make(plan(small))
    lists.fill(small, "1 Main St", "2 Main St", "4 Main St")
    assert flow.account.post(f"/mailing-lists/{small}/merge", {"into": large}).status_code == 200
    assert flow.read(of_small)["waiting"] == 3
    flow.work()
    assert (flow.read(of_small)["sent_count"], lists.read(large)["total_recipients"]) == (3, 4)
    [order] = flow.orders()
    streets = [item["recipient"]["address"] for item in flow.items(order["id"])]
    assert sorted(streets) == ["1 Main St", "2 Main St", "4 Main St"]


def test_a_list_hook_and_a_merge_aside_every_way_onto_the_list_counts(flow: AutomationDriver, lists: ListOwner) -> None:
    visitors = lists.make()
    flow.make(plan(visitors))
    lists.add(visitors, name="By Call")
    flow.account.post("/recipients_multi", [person(mailing_list_id=visitors, name="By Many", address="2 Main St")])
    key = lists.read(visitors)["api_key"]
    response = flow.account.http.post(f"/hooks/lists/{key}", json=person(name="By Hook", address="3 Main St"))
    assert response.status_code == 200, response.text
    flow.work()
    assert flow.mailed() == [["By Call", "By Many", "By Hook"]]


def test_scans_by_people_are_mailed_and_scans_by_bots_are_not(
    flow: AutomationDriver, lists: ListOwner, container: Container
) -> None:
    flow.make(plan(None, name="Scanned", trigger="scan"))
    names = ("Ann", "Bot", "Cid")
    everyone = [person(name=name, address=f"{n} Main St") for n, name in enumerate(names, 1)]
    order = flow.account.send(recipients=everyone, qrcode_url="https://example.com").json()["id"]
    ann, bot, _ = (item["id"] for item in flow.items(order))
    scan(container, ann)
    scan(container, ann)
    scan(container, bot, kind="bot")
    flow.work()
    scan(container, ann)
    flow.work()
    assert flow.mailed() == [["Ann", "Bot", "Cid"], ["Ann"]]


def test_scans_count_for_the_list_that_is_named(flow: AutomationDriver, lists: ListOwner, container: Container) -> None:
    """A chain: welcomed when they come onto the list, written to again when they scan that."""
    visitors, others = lists.make(), lists.make()
    code = SEND | {"qrcode_url": "https://example.com"}
    for each in (visitors, others):
        flow.make(plan(each, send=code))
    follow_up = {"piece": "notecard", "message": "Nice to see you, %FIRST_NAME%!"}
    second = flow.make(plan(visitors, name="Follow up", trigger="scan", send=follow_up))
    lists.add(visitors, name="Ann Here")
    lists.add(others, name="Ben There", address="2 Main St")
    flow.work()
    for order in flow.orders():
        scan(container, flow.items(order["id"])[0]["id"])
    flow.work()
    assert flow.mailed() == [["Ann Here"], ["Ben There"], ["Ann Here"]]
    assert (flow.read(second)["sent_count"], flow.orders()[-1]["type"]) == (1, "notecard")


def test_the_scan_list_can_have_automations_like_any_other(flow: AutomationDriver, container: Container) -> None:
    both = [person(name=name, address=f"{name} St") for name in ("Ann", "Ben")]
    order = flow.account.send(recipients=both, qrcode_url="https://example.com").json()["id"]
    ann, ben = (item["id"] for item in flow.items(order))
    scan(container, ann)
    [scanned] = [each["id"] for each in flow.account.get("/mailing-lists").json()["data"] if each["type"] == "qrscans"]
    flow.make(plan(scanned))
    scan(container, ben)
    scan(container, ben)
    flow.work()
    assert flow.mailed() == [["Ann", "Ben"], ["Ben"]]


def test_a_scan_in_the_other_mode_or_of_another_account_is_none_of_its_business(
    flow: AutomationDriver, container: Container, stranger: Account
) -> None:
    automation = flow.make(plan(None, name="Scanned", trigger="scan"))
    address = {"return_address": "1 Elm St, Austin, TX 78702"}
    for account in (make_live(container, flow.account), stranger):
        order = account.send(**address).json()["id"]
        scan(container, account.get(f"/orders/{order}/items").json()["data"][0]["id"])
    assert flow.read(automation)["waiting"] == 0


def test_birthdays_are_mailed_on_their_day_every_year(flow: AutomationDriver, lists: ListOwner, clock: Clock) -> None:
    friends = lists.make()
    lists.add(friends, name="Past Day", dob="1990-05-03")
    lists.add(friends, name="Same Day", address="2 Main St", dob="1990-05-04")
    lists.add(friends, name="Next Day", address="3 Main St", dob="1991-05-05")
    lists.add(friends, name="No Day", address="4 Main St")
    lists.add(friends, name="Unborn", address="5 Main St", dob="2027-05-05")
    automation = flow.make(birthday(friends))
    for _ in range(3):
        flow.work()
    assert flow.mailed() == [["Same Day"]]
    flow.pass_days(3)
    assert flow.mailed() == [["Same Day"], ["Next Day"]]
    at(clock, 2027, 5, 5)
    flow.work()
    assert flow.mailed()[2:] == [["Past Day", "Same Day", "Next Day", "Unborn"]]
    assert [year for _, year in stored_progress(flow.container, automation)] == [2026] * 2 + [2027] * 4


@pytest.mark.parametrize(
    ("today", "offset", "born", "is_mailed"),
    [
        ((2026, 12, 27), -7, "1980-01-03", True),
        ((2026, 12, 26), -7, "1980-01-03", False),
        ((2027, 1, 4), 7, "1980-12-28", True),
        ((2027, 2, 28), 0, "1980-02-29", True),
        ((2027, 3, 1), 0, "1980-02-29", False),
        ((2028, 2, 28), 0, "1980-02-29", False),
        ((2028, 2, 29), 0, "1980-02-29", True),
        ((2028, 2, 28), 0, "1981-02-28", True),
        ((2027, 3, 7), 7, "1980-02-29", True),
        ((2027, 2, 21), -7, "1980-02-29", True),
        ((2028, 2, 22), -7, "1980-02-29", True),
    ],
)
def test_days_before_and_after(
    flow: AutomationDriver, lists: ListOwner, clock: Clock, today: Any, offset: int, born: str, is_mailed: bool
) -> None:
    friends = lists.make()
    lists.add(friends, name="Ann", dob=born)
    at(clock, *today)
    flow.make(birthday(friends, days_offset=offset))
    flow.work()
    assert flow.mailed() == ([["Ann"]] if is_mailed else [])


def test_one_birthday_is_mailed_for_once_across_the_end_of_a_year(
    flow: AutomationDriver, lists: ListOwner, clock: Clock
) -> None:
    friends = lists.make()
    lists.add(friends, name="Ann", dob="1980-01-03")
    at(clock, 2026, 12, 27)
    automation = flow.make(birthday(friends, days_offset=-7))
    flow.work()
    assert [year for _, year in stored_progress(flow.container, automation)] == [2027]
    flow.put(automation, days_offset=0)
    at(clock, 2027, 1, 3)
    flow.work()
    assert len(flow.mailed()) == 1
    at(clock, 2028, 1, 3)
    flow.work()
    assert len(flow.mailed()) == 2


def test_days_on_which_nobody_worked_are_made_up_for(flow: AutomationDriver, lists: ListOwner, clock: Clock) -> None:
    friends = lists.make()
    for n, day in enumerate(("05-05", "05-06", "05-07", "05-08", "05-09"), 1):
        lists.add(friends, name=day, address=f"{n} Main St", anniversary=f"2001-{day}")
    flow.make(birthday(friends, date_field="anniversary"))
    flow.work()
    clock.advance(days=4)
    flow.work()
    assert flow.mailed() == [["05-05", "05-06", "05-07", "05-08"]]


def test_a_move_right_after_the_mailing_causes_no_second_mailing(
    flow: AutomationDriver, lists: ListOwner, clock: Clock
) -> None:
    friends = lists.make()
    jane = lists.add(friends, dob="1990-05-04").json()["id"]
    flow.make(birthday(friends))
    flow.work()
    lists.put(f"/recipients/{jane}", {"address": "99 Other St"})
    flow.pass_days(2)
    assert flow.mailed() == [["Jane Doe"]]


def test_a_day_begins_where_the_service_is(build: Build, clock: Clock) -> None:
    """At noon in Greenwich a day begins in Auckland."""
    container = build(timezone="Pacific/Auckland")
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        flow = AutomationDriver(make_account(container, http, "owner@example.com"), container, clock)
        lists = ListOwner(flow.account)
        friends = lists.make()
        lists.add(friends, name="Ann", dob="1990-05-05")
        clock.advance(minutes=-1)
        flow.make(birthday(friends))
        flow.work()
        assert flow.mailed() == []
        clock.advance(minutes=1)
        flow.work()
        assert flow.mailed() == [["Ann"]]


def test_an_automation_of_a_sub_account_sends_for_it(
    flow: AutomationDriver, lists: ListOwner, container: Container
) -> None:
    branch = make_sub_account(container, flow.account)
    visitors = lists.make(sub_account_id=branch)
    flow.make(plan(visitors, send=SEND | {"sub_account_id": branch}))
    lists.fill(visitors, "1 Main St")
    flow.work()
    [order] = flow.orders()
    assert order["sub_account_id"] == branch


def test_test_and_live_mail_to_one_list_each_in_their_own_way(
    flow: AutomationDriver, lists: ListOwner, container: Container, clock: Clock
) -> None:
    live = AutomationDriver(make_live(container, flow.account), container, clock)
    visitors = lists.make()
    home = {"return_address": "1 Elm St, Austin, TX 78702"}
    flow.make(plan(visitors))
    live.make(plan(visitors, send=SEND | home))
    lists.fill(visitors, "1 Main St")
    flow.work()
    assert flow.mailed() == live.mailed() == [["Jane Doe"]]
    assert flow.orders()[0]["id"] != live.orders()[0]["id"]


def test_an_order_of_an_automation_can_be_replayed_and_changed(
    flow: AutomationDriver, lists: ListOwner, container: Container, clock: Clock
) -> None:
    visitors, suppression_list = lists.make(), lists.make("No mail", is_suppression_list=True)
    lists.add(suppression_list, name="Bob Barred", address="5 Main St")
    flow.make(plan(visitors))
    lists.fill(visitors, "1 Main St")
    lists.add(visitors, name="Bob Barred", address="5 Main St")
    flow.work()
    [order] = flow.orders()
    too_long = flow.account.put(f"/orders/{order['id']}", {"message": "%NAME% " + "very long words " * 200})
    assert too_long.status_code == 422, too_long.text
    assert list(too_long.json()["errors"]) == ["message"], "fitted to its own people"
    run_jobs_for(container, clock, seconds=60)
    again = flow.account.post(f"/orders/{order['id']}/replay")
    assert again.status_code == 200, again.text
    assert [each["name"] for each in again.json()["recipients"]] == ["Jane Doe"]
