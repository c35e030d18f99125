"""Automations from what happens to people on lists, and to the pieces that are mailed for it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.web.application import create_app
from support.automations import SEND, AutomationDriver, birthday, plan, scan, stored_progress
from support.factories import Account, Build, Clock, make_account, make_live, make_sub_account, person, run_jobs_for
from support.test_client import TestClient

pytestmark = pytest.mark.usefixtures("clean_database")

WHERE = {"address": "12 Main St", "city": "Austin", "province": "TX", "postal_code": "78701"}
HOME = {"return_address": "1 Elm St, Austin, TX 78702"}


@pytest.fixture
def flow(owner: Account, container: Container, clock: Clock) -> AutomationDriver:
    return AutomationDriver(owner, container, clock)


def at(clock: Clock, year: int, month: int, day: int) -> None:
    """Turn the clock to noon of a day to come."""
    clock.advance(seconds=(datetime(year, month, day, 12, tzinfo=UTC) - clock.now()).total_seconds())


def test_whoever_comes_onto_the_list_is_mailed_once_a_year(flow: AutomationDriver) -> None:
    visitors = flow.lists.make()
    flow.lists.fill(visitors, "1 Main St")
    automation = flow.make(plan(visitors, send=SEND | {"metadata": {"n": 1.0, "flow": "hi"}}))
    flow.work()
    assert flow.orders() == [], "who was there before does not count"
    ann = flow.lists.add(visitors, name="Ann One", address="2 Main St").json()["id"]
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
    flow.lists.delete(f"/recipients/{ann}")
    flow.clock.advance(days=30)
    [again] = flow.lists.fill(visitors, "2 Main St")
    flow.work()
    assert flow.mailed() == [["Ann One"]]
    flow.lists.delete(f"/recipients/{again}")
    at(flow.clock, 2027, 1, 1)
    flow.lists.fill(visitors, "2 main st.")
    flow.work()
    assert flow.mailed() == [["Ann One"], ["Jane Doe"]]


def test_many_at_once_are_one_usual_order(flow: AutomationDriver, container: Container, clock: Clock) -> None:
    _, visitors = flow.welcome(*(f"{n} Main St" for n in range(1, 61)))
    flow.work()
    [names] = flow.mailed()
    assert len(names) == 60
    run_jobs_for(container, clock, seconds=60)
    [order] = flow.orders()
    assert order["status"] == "Fulfilled"
    assert flow.lists.read(visitors)["total_sends"] == 60, "the list knows of mail to its people"


def test_unmailable_people_stop_no_others(flow: AutomationDriver, container: Container, clock: Clock) -> None:
    visitors, suppression_list = flow.lists.make(), flow.lists.make("No mail", is_suppression_list=True)
    flow.lists.add(suppression_list, name="Bob Barred", address="5 Main St")
    automation = flow.make(plan(visitors, send=SEND | {"send_standard_mail": True}))
    flow.lists.add(visitors, name="Ann Good")
    toronto = {"city": "Toronto", "province": "ON", "postal_code": "M5H", "country": "CA"}
    flow.lists.add(visitors, name="Cora Far", address="4 Bay St", **toronto)
    flow.lists.add(visitors, name="Bob Barred", address="5 Main St")
    flow.lists.add(visitors, name="Max Long", company="W" * 290, address="W" * 290)
    flow.work()
    flow.work()
    [order] = flow.orders()
    assert {item["recipient"]["name"]: item["failure"] for item in flow.items(order["id"])} == {
        "Ann Good": None,
        "Cora Far": "There is no price for this piece to CA.",
        "Bob Barred": "This address is on a suppression list.",
        "Max Long": "The address is too long for the piece; shorten its lines.",
    }
    known = flow.read(automation)
    assert (known["sent_count"], known["waiting"], known["last_error"]) == (1, 0, None)
    too_long = flow.account.put(f"/orders/{order['id']}", {"message": "%NAME% " + "very long words " * 200})
    assert too_long.status_code == 422, too_long.text
    assert list(too_long.json()["errors"]) == ["message"], "fitted to its own people"
    run_jobs_for(container, clock, seconds=60)
    again = flow.account.post(f"/orders/{order['id']}/replay")
    assert again.status_code == 200, again.text
    assert [each["name"] for each in again.json()["recipients"]] == ["Ann Good"]


def test_every_way_onto_a_list_counts(flow: AutomationDriver) -> None:
    leads, visitors = flow.lists.make("Leads"), flow.lists.make()
    left, entered = flow.make(plan(leads, name="Leads")), flow.make(plan(visitors))
    flow.lists.add(visitors, name="By Call")
    flow.account.post("/recipients_multi", [person(mailing_list_id=visitors, name="By Many", address="2 Main St")])
    key = flow.lists.read(visitors)["api_key"]
    response = flow.account.http.post(f"/hooks/lists/{key}", json=person(name="By Hook", address="3 Main St"))
    assert response.status_code == 200, response.text
    [jane, joe] = flow.lists.fill(leads, "5 Main St", "6 Main St")
    assert (flow.read(left)["waiting"], flow.read(entered)["waiting"]) == (2, 3)
    flow.lists.put(f"/recipients/{jane}", {"mailing_list_id": visitors, "name": "By Move"})
    flow.lists.put(f"/recipients/{joe}", {"name": "Joe Stays"})
    assert (flow.read(left)["waiting"], flow.read(entered)["waiting"]) == (1, 4)
    flow.work()
    assert sorted(flow.mailed()) == [["By Call", "By Many", "By Hook", "By Move"], ["Joe Stays"]]


def test_a_merged_list_brings_its_automations_and_the_people_due_but_no_newcomers(flow: AutomationDriver) -> None:
    """Whoever waits goes on waiting also where they were on the other list."""
    small, large = flow.lists.make("Small"), flow.lists.make("Large")
    flow.lists.fill(large, "1 Main St", "2 Main St", "3 Main St")
    made = flow.make(plan(small, name="S")), flow.make(plan(large, name="L"))
    flow.lists.fill(small, "1 Main St", "2 Main St", "4 Main St")
    assert flow.account.post(f"/mailing-lists/{small}/merge", {"into": large}).status_code == 200
    assert [flow.read(each)["mailing_list_id"] for each in made] == [large, large]
    assert [flow.read(each)["waiting"] for each in made] == [3, 0]
    flow.work()
    assert [flow.read(each)["sent_count"] for each in made] == [3, 0]
    assert flow.lists.read(large)["total_recipients"] == 4
    [order] = flow.orders()
    streets = [item["recipient"]["address"] for item in flow.items(order["id"])]
    assert sorted(streets) == ["1 Main St", "2 Main St", "4 Main St"]


def test_only_scans_by_people_are_mailed(flow: AutomationDriver, container: Container, stranger: Account) -> None:
    """Neither scans by bots, nor those of the other mode or of another account."""
    automation = flow.make(plan(None, name="Scanned", trigger="scan"))
    everyone = [person(name=name, address=f"{n} Main St") for n, name in enumerate(("Ann", "Bot", "Cid"), 1)]
    order = flow.account.send(recipients=everyone, qrcode_url="https://example.com").json()["id"]
    ann, bot, cid = (item["id"] for item in flow.items(order))
    scan(container, ann)
    [scanned] = [each["id"] for each in flow.account.get("/mailing-lists").json()["data"] if each["type"] == "qrscans"]
    flow.make(plan(scanned, name="On the list", send=SEND | {"message": "Hi from the list of scans!"}))
    scan(container, ann)
    scan(container, bot, kind="bot")
    flow.work()
    scan(container, ann)
    flow.work()
    assert flow.mailed() == [["Ann", "Bot", "Cid"], ["Ann"]]
    for _ in range(2):
        scan(container, cid)
    flow.work()
    assert flow.mailed()[2:] == [["Cid"], ["Cid"]], "the list of scans can have automations like any other"
    for account in (make_live(container, flow.account), stranger):
        order = account.send(**HOME).json()["id"]
        scan(container, account.get(f"/orders/{order}/items").json()["data"][0]["id"])
    assert flow.read(automation)["waiting"] == 0


def test_scans_count_for_the_list_that_is_named(flow: AutomationDriver, container: Container) -> None:
    """A chain: welcomed when they come onto the list, written to again when they scan that."""
    visitors, others = flow.lists.make(), flow.lists.make()
    code = SEND | {"qrcode_url": "https://example.com"}
    for each in (visitors, others):
        flow.make(plan(each, send=code))
    follow_up = {"piece": "notecard", "message": "Nice to see you, %FIRST_NAME%!"}
    second = flow.make(plan(visitors, name="Follow up", trigger="scan", send=follow_up))
    flow.lists.add(visitors, name="Ann Here")
    flow.lists.add(others, name="Ben There", address="2 Main St")
    flow.work()
    for order in flow.orders():
        scan(container, flow.items(order["id"])[0]["id"])
    flow.work()
    assert flow.mailed() == [["Ann Here"], ["Ben There"], ["Ann Here"]]
    assert (flow.read(second)["sent_count"], flow.orders()[-1]["type"]) == (1, "notecard")


def test_birthdays_are_mailed_on_their_day_every_year(flow: AutomationDriver, clock: Clock) -> None:
    friends = flow.lists.make()
    flow.lists.add(friends, name="Past Day", dob="1990-05-03")
    same = flow.lists.add(friends, name="Same Day", address="2 Main St", dob="1990-05-04").json()["id"]
    flow.lists.add(friends, name="Next Day", address="3 Main St", dob="1991-05-05")
    flow.lists.add(friends, name="No Day", address="4 Main St")
    flow.lists.add(friends, name="Unborn", address="5 Main St", dob="2027-05-05")
    automation = flow.make(birthday(friends))
    for _ in range(3):
        flow.work()
    assert flow.mailed() == [["Same Day"]]
    flow.lists.put(f"/recipients/{same}", {"address": "99 Other St"})
    flow.pass_days(3)
    assert flow.mailed() == [["Same Day"], ["Next Day"]], "a move causes no second one"
    at(clock, 2027, 5, 5)
    flow.work()
    assert flow.mailed()[2:] == [["Past Day", "Same Day", "Next Day", "Unborn"]]
    assert [year for _, year in stored_progress(flow.container, automation)] == [2026] * 2 + [2027] * 4


DAYS: list[tuple[tuple[int, int, int], int, str, bool]] = [
    ((2026, 12, 26), -7, "1980-01-03", False), ((2026, 12, 27), -7, "1980-01-03", True),
    ((2027, 1, 4), 7, "1980-12-28", True), ((2027, 2, 21), -7, "1980-02-29", True),
    ((2027, 2, 28), 0, "1980-02-29", True), ((2027, 3, 1), 0, "1980-02-29", False),
    ((2027, 3, 7), 7, "1980-02-29", True), ((2028, 2, 22), -7, "1980-02-29", True),
    ((2028, 2, 28), 0, "1980-02-29", False), ((2028, 2, 28), 0, "1981-02-28", True),
    ((2028, 2, 29), 0, "1980-02-29", True),
]  # fmt: skip


def test_mail_goes_out_days_before_or_after_a_birthday(
    flow: AutomationDriver, clock: Clock, subtests: pytest.Subtests
) -> None:
    for number, (today, offset, born, is_mailed) in enumerate(DAYS, 1):
        with subtests.test(today=today, offset=offset, born=born):
            friends = flow.lists.make()
            flow.lists.add(friends, address=f"{number} Main St", dob=born)
            at(clock, *today)
            automation = flow.make(birthday(friends, days_offset=offset))
            flow.work()
            assert flow.read(automation)["sent_count"] == is_mailed
            assert flow.put(automation, enabled=False).status_code == 200


def test_a_birthday_is_mailed_once_at_the_turn_of_a_year_or_after_a_pause(flow: AutomationDriver, clock: Clock) -> None:
    friends = flow.lists.make()
    for n, day in enumerate(("05-05", "05-06", "05-07", "05-08", "05-09"), 1):
        flow.lists.add(friends, name=day, address=f"{n} Main St", anniversary=f"2001-{day}")
    flow.make(birthday(friends, date_field="anniversary"))
    flow.work()
    clock.advance(days=4)
    flow.work()
    assert flow.mailed() == [["05-05", "05-06", "05-07", "05-08"]]
    friends = flow.lists.make()
    flow.lists.add(friends, name="Ann", dob="1980-01-03")
    at(clock, 2026, 12, 27)
    automation = flow.make(birthday(friends, days_offset=-7))
    flow.work()
    assert [year for _, year in stored_progress(flow.container, automation)] == [2027]
    flow.put(automation, days_offset=0)
    for year, mailed in ((2027, 1), (2028, 2)):
        at(clock, year, 1, 3)
        flow.work()
        assert flow.mailed().count(["Ann"]) == mailed


def test_a_day_begins_where_the_service_is(build: Build, clock: Clock) -> None:
    """At noon in Greenwich a day begins in Auckland."""
    container = build(timezone="Pacific/Auckland")
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        flow = AutomationDriver(make_account(container, http, "owner@example.com"), container, clock)
        friends = flow.lists.make()
        flow.lists.add(friends, name="Ann", dob="1990-05-05")
        clock.advance(minutes=-1)
        flow.make(birthday(friends))
        flow.work()
        assert flow.mailed() == []
        clock.advance(minutes=1)
        flow.work()
        assert flow.mailed() == [["Ann"]]


def test_each_mode_and_sub_account_mails_by_its_own(flow: AutomationDriver, container: Container, clock: Clock) -> None:
    branch = make_sub_account(container, flow.account)
    live = AutomationDriver(make_live(container, flow.account), container, clock)
    visitors, of_branch = flow.lists.make(), flow.lists.make(sub_account_id=branch)
    flow.make(plan(visitors))
    live.make(plan(visitors, send=SEND | HOME))
    flow.make(plan(of_branch, send=SEND | {"sub_account_id": branch, "message": "Hi from the branch!"}))
    flow.lists.fill(visitors, "1 Main St")
    flow.work()
    assert flow.mailed() == live.mailed() == [["Jane Doe"]]
    assert flow.orders()[0]["id"] != live.orders()[0]["id"]
    flow.lists.fill(of_branch, "1 Main St")
    flow.work()
    assert [order["sub_account_id"] for order in flow.orders()] == [None, branch]


def test_a_newcomer_is_mailed_once_an_address_is_known(flow: AutomationDriver, subtests: pytest.Subtests) -> None:
    ways: dict[str, list[dict[str, Any]]] = {
        "by call": [WHERE],
        "half an address is none": [{"address": "12 Main St"}, WHERE],
        "where no state and no code are needed": [{"address": "1 Rue Haute", "city": "Paris", "country": "FR"}],
        "by hook": [WHERE | {"email": "eve@example.com"}],
    }
    for way, changes in ways.items():
        with subtests.test(way):
            visitors = flow.lists.make()
            message = {"message": f"Hi %FIRST_NAME|friend% of list {visitors}!"}
            automation = flow.make(plan(visitors, daily_limit=1, send=SEND | message))
            eve = flow.lists.add_email(visitors, "eve@example.com", name="Eve Mail")
            flow.work()
            flow.clock.advance(hours=1)
            for change in changes:
                assert (flow.read(automation)["waiting"], flow.read(automation)["sent_count"]) == (0, 0)
                assert stored_progress(flow.container, automation) == []
                if way == "by hook":
                    key = flow.lists.read(visitors)["api_key"]
                    [row] = flow.account.http.post(f"/hooks/lists/{key}", json=change).json()
                    assert (row["id"], row["result"]) == (eve, "changed")
                else:
                    assert flow.lists.put(f"/recipients/{eve}", change).status_code == 200
                assert flow.read(automation)["waiting"] == (change is changes[-1])
                flow.work()
            assert flow.mailed()[-1] == ["Eve Mail"], "the year and the day's limit were hers still"
            for change in ({"address": "99 Other St"}, {"address": None, "email": "eve@example.com"}, WHERE):
                flow.lists.put(f"/recipients/{eve}", change)
            flow.clock.advance(days=1)
            flow.work()
            assert flow.read(automation)["sent_count"] == 1
    assert len(flow.orders()) == len(ways)


def test_an_address_makes_nobody_new_and_no_year_is_used_up_without_one(flow: AutomationDriver) -> None:
    visitors, friends = flow.lists.make(), flow.lists.make()
    eve = flow.lists.add_email(visitors, "eve@example.com", name="Eve Mail")
    flow.clock.advance(seconds=1)
    automation, of_dates = flow.make(plan(visitors)), flow.make(birthday(friends))
    ann = flow.lists.add_email(friends, "ann@example.com", name="Ann Mail", dob="1990-05-04")
    flow.work()
    assert (flow.orders(), stored_progress(flow.container, of_dates)) == ([], [])
    flow.clock.advance(days=2)  # her day is found while it is looked back at
    for each in (eve, ann):
        flow.lists.put(f"/recipients/{each}", WHERE)
    assert [flow.read(each)["waiting"] for each in (automation, of_dates)] == [0, 0]
    flow.work()
    assert flow.mailed() == [["Ann Mail"]]


def test_whoever_loses_the_address_before_the_send_waits_for_another(flow: AutomationDriver) -> None:
    leads, visitors = flow.lists.make("Leads"), flow.lists.make()
    automation = flow.make(plan(visitors))
    eve = flow.lists.add(visitors, name="Eve Mail", email="eve@example.com").json()["id"]
    ann = flow.lists.add_email(leads, "ann@example.com", name="Ann Moved")
    flow.lists.put(f"/recipients/{eve}", {"city": None, "postal_code": None})
    flow.lists.put(f"/recipients/{ann}", {"mailing_list_id": visitors})
    flow.work()
    assert (flow.orders(), stored_progress(flow.container, automation)) == ([], [])
    assert flow.read(automation)["waiting"] == 0
    flow.lists.put(f"/recipients/{eve}", WHERE)
    flow.lists.put(f"/recipients/{ann}", WHERE | {"address": "14 Main St"})
    flow.work()
    assert [sorted(names) for names in flow.mailed()] == [["Ann Moved", "Eve Mail"]]
    flow.clock.advance(days=365)
    flow.lists.put(f"/recipients/{eve}", {"city": None})
    flow.lists.put(f"/recipients/{eve}", WHERE | {"address": "13 Main St"})
    assert flow.read(automation)["waiting"] == 0, "nobody came"
    flow.work()
    assert len(flow.orders()) == 1
