"""Making, reading, changing and removing automations; and what they keep from being removed."""

import json
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import mailing_lists
from quillpost.orders.automations import queries as automation_queries
from quillpost.orders.automations import rules as automation_rules
from support.automations import SEND, AutomationDriver, birthday, plan
from support.factories import Account, Clock, make_live, make_sub_account, make_teammate, snapshot_rows
from support.images import ImageServer, make_picture
from support.mailing_lists import NO_LIST, NO_SUB_ACCOUNT, ListOwner, field_errors, message
from support.rows import execute
from support.traces import FORM, unchanged

LEAVE_OUT = "An automation chooses whom it mails by itself: leave this out."
NO_TEMPLATE = (400, "Message Template does not exist")
MESSAGE = {"type": "postcard", "name": "Hi", "content": "Hi!", "handwriting_style_id": 1}


@pytest.fixture
def flow(owner: Account, container: Container, clock: Clock) -> AutomationDriver:
    return AutomationDriver(owner, container, clock)


def test_what_was_made_can_be_read_to_the_letter(owner: Account, lists: ListOwner) -> None:
    visitors = lists.make()
    send = '{"message":"Hi %FIRST_NAME%!","piece":"postcard","metadata":{"b":1.0,"a":12345678901234567890123}}'
    body = plan(visitors, send="SEND")
    del body["enabled"]
    headers = {"Content-Type": "application/json", "Idempotency-Key": "once"}
    content = json.dumps(body).replace('"SEND"', send)
    made, again = (owner.call("POST", "/automations", content=content, headers=headers) for _ in range(2))
    assert (made.status_code, made.text) == (201, again.text)
    assert f'"send":{send}' in made.text
    unset = ("sub_account_id", "date_field", "held_by", "held_until", "last_sent_at", "last_order_id", "last_error")
    assert made.json() | {"id": 0, "send": {}} == dict.fromkeys((*unset, "last_error_at")) | {
        "id": 0, "user_id": owner.id, "mode": "test", "name": "Welcome", "trigger": "list_entry",
        "mailing_list_id": visitors, "days_offset": 0, "send": {}, "daily_limit": 5000, "enabled": False, "waiting": 0,
        "sent_count": 0, "created_at": "2026-05-04T12:00:00Z", "updated_at": "2026-05-04T12:00:00Z",
    }  # fmt: skip
    assert owner.get(f"/automations/{made.json()['id']}").text == made.text
    assert owner.get("/automations").json()["meta"]["total"] == 1


def test_they_are_listed_newest_first_by_list_and_sub_account(flow: AutomationDriver, container: Container) -> None:
    branch = make_sub_account(container, flow.account)
    visitors, others = flow.lists.make(), flow.lists.make()
    first, second = flow.make(plan(visitors)), flow.make(plan(others))
    third = flow.make(plan(visitors, send=SEND | {"sub_account_id": branch}))
    flow.lists.fill(visitors, "1 Main St")

    def listed(query: str = "") -> list[tuple[int, int]]:
        page = flow.account.get(f"/automations{query}").json()
        assert page["meta"]["total"] == len(page["data"])
        return [(each["id"], each["waiting"]) for each in page["data"]]

    assert listed() == [(third, 1), (second, 0), (first, 1)]
    assert listed(f"?mailing_list_id={visitors}") == [(third, 1), (first, 1)]
    assert listed(f"?sub_account_id={branch}") == [(third, 1)]
    assert message(flow.account.get(f"/automations?mailing_list_id={10**9}")) == (400, NO_LIST)
    assert message(flow.account.get(f"/automations?sub_account_id={10**9}")) == (400, NO_SUB_ACCOUNT)
    assert field_errors(flow.account.get("/automations?mailing_list_id=x")).keys() == {"mailing_list_id"}


WRONG: list[tuple[dict[str, Any], dict[str, list[str] | None]]] = [
    ({"name": " \n "}, {"name": ["Give the automation a name."]}),
    ({"trigger": "moon"}, {"trigger": None}),
    ({"mailing_list_id": None}, {"mailing_list_id": None}),
    ({"trigger": "date"}, {"date_field": None}),
    ({"date_field": "dob", "days_offset": 3}, {"date_field": None, "days_offset": None}),
    ({"trigger": "date", "date_field": "dob", "days_offset": 366}, {"days_offset": None}),
    ({"trigger": "date", "date_field": "dob", "days_offset": -366}, {"days_offset": None}),
    ({"trigger": "date", "date_field": "name"}, {"date_field": None}),
    ({"daily_limit": 0}, {"daily_limit": None}),
    ({"daily_limit": 100_001}, {"daily_limit": None}),
    ({"enabled": "yes"}, {"enabled": None}),
    ({"send": "postcard"}, {"send": None}),
    ({"send": {}}, {"send.piece": None}),
    ({"send": {"piece": "poster", "message": "Hi"}}, {"send.piece": None}),
    ({"send": {"piece": "giftcard", "message": "Hi"}}, {"send.giftcard_brand": None, "send.giftcard_amount": None}),
    ({"send": SEND | {"recipients": []}}, {"send.recipients": [LEAVE_OUT]}),
    ({"send": SEND | {"mailing_lists": [1]}}, {"send.mailing_lists": [LEAVE_OUT]}),
    ({"send": SEND | {"radius_search": {}}}, {"send.radius_search": [LEAVE_OUT]}),
    ({"send": SEND | {"schedule_for": "2027-01-01"}}, {"send.schedule_for": None}),
    ({"send": SEND | {"preview": True}}, {"send.preview": None}),
    ({"send": {"piece": "postcard"}}, {"send.message": None, "send.front_image_url": None}),
    ({"send": SEND | {"message": 5}}, {"send.message": ["This must be a string."]}),
    ({"send": SEND | {"message": "%NICKNAME%"}}, {"send.message": None}),
    ({"send": SEND | {"message": "long " * 900}}, {"send.message": None}),
    ({"send": SEND | {"handwriting_style": 999}}, {"send.handwriting_style": None}),
    ({"send": SEND | {"metadata": [1]}}, {"send.metadata": None}),
    ({"send": SEND | {"metadata": {"a": "b" * 9_000}}}, {"send.metadata": None}),
    ({"send": SEND | {"junk": "b" * 200_000}}, {"send": None}),
    ({"send": SEND | {"front_image_url": "http://10.0.0.1/a.png"}}, {"send.front_image_url": None}),
    ({"send": SEND | {"front_image_url": "https://a.test/~NAME~.png"}}, {"send.front_image_url": None}),
    ({"trigger": "scan", "mailing_list_id": None,
      "send": SEND | {"front_image_url": "https://a.test/~NAME~.png"}}, {"send.front_image_url": None}),
    ({"trigger": "date", "send": SEND | {"message": "Hi %NOPE%", "handwriting_style": 99999}},
     {"date_field": None, "send.message": None, "send.handwriting_style": None}),
]  # fmt: skip


def test_every_error_is_reported_by_field_and_nothing_is_stored(
    owner: Account, lists: ListOwner, container: Container, subtests: pytest.Subtests
) -> None:
    visitors, suppression_list = lists.make(), lists.make(is_suppression_list=True)
    with unchanged(container):
        for changes, fields in WRONG:
            with subtests.test(str(changes)[:200]):
                errors = field_errors(owner.post("/automations", plan(visitors) | changes))
                assert errors.keys() == fields.keys()
                assert all(sentences == errors[name] for name, sentences in fields.items() if sentences)
        assert field_errors(owner.post("/automations", plan(suppression_list))).keys() == {"mailing_list_id"}
        refused = make_live(container, owner).post("/automations", plan(visitors))
        assert field_errors(refused).keys() == {"send.return_address"}, "live mail needs one here too"


def test_what_it_names_must_be_there_and_the_callers_own(
    owner: Account, stranger: Account, lists: ListOwner, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = make_sub_account(container, owner), make_sub_account(container, owner)
    visitors, of_there, theirs = lists.make(), lists.make(sub_account_id=there), ListOwner(stranger).make()
    their_template = stranger.post("/message-templates", MESSAGE).json()["id"]
    with unchanged(container):
        for list_id, send, sentence in (
            (10**9, {}, NO_LIST), (theirs, {}, NO_LIST), (of_there, {}, NO_LIST),
            (of_there, {"sub_account_id": here}, NO_LIST), (visitors, {"sub_account_id": 10**9}, NO_SUB_ACCOUNT),
            (visitors, {"message_template": 10**9}, NO_TEMPLATE[1]),
            (visitors, {"message_template": their_template}, NO_TEMPLATE[1]),
            (visitors, {"image_template": 10**9}, "Image Template does not exist"),
        ):  # fmt: skip
            assert message(owner.post("/automations", plan(list_id, send=SEND | send))) == (400, sentence), send
        monkeypatch.setattr(automation_rules, "MAX_AUTOMATIONS", 0)
        full = "An account has at most 0 automations: delete one first."
        assert message(owner.post("/automations", plan(visitors))) == (400, full)


@pytest.mark.usefixtures("loopback_urls")
def test_a_send_is_looked_at_when_it_is_made(owner: Account, lists: ListOwner, art: ImageServer) -> None:
    visitors = lists.make()
    long_word = SEND | {"message": "%CUSTOM1% " * 9}
    assert owner.post("/automations", plan(visitors, send=long_word)).status_code == 201
    lists.add(visitors, custom1="very long words " * 15)
    assert field_errors(owner.post("/automations", plan(visitors, send=long_word))).keys() == {"send.message"}
    made = owner.post("/automations", plan(visitors, send=SEND | {"front_image_url": art.picture()}))
    assert made.status_code == 201, made.text
    gone = owner.post("/automations", plan(visitors, send=SEND | {"front_image_url": art.url("/gone")}))
    assert field_errors(gone).keys() == {"send.front_image_url"}
    odd = SEND | {"pdf_only_url": "https://example.com/a.pdf", "tipo": 1}
    made = owner.post("/automations", plan(visitors, send=odd, colour="red"))
    assert (made.status_code, made.headers["X-Ignored-Fields"]) == (201, "colour, send.pdf_only_url, send.tipo")


def test_what_is_not_named_stays(flow: AutomationDriver) -> None:
    friends, others = flow.lists.make(), flow.lists.make()
    automation = flow.make(birthday(friends, days_offset=-3, daily_limit=7))
    before = flow.read(automation)
    assert flow.put(automation, name="Other").json() == before | {"name": "Other"}
    changed = flow.put(automation, send=SEND | {"piece": "letter"}, mailing_list_id=others).json()
    assert changed == before | {"name": "Other", "send": SEND | {"piece": "letter"}, "mailing_list_id": others}
    form = {"content": "days_offset=-7&enabled=false&daily_limit=10", "headers": {"Content-Type": FORM}}
    formed = flow.account.call("PUT", f"/automations/{automation}", **form).json()
    assert formed == changed | {"days_offset": -7, "enabled": False, "daily_limit": 10}
    back = flow.put(automation, trigger="list_entry").json()
    assert (back["trigger"], back["date_field"], back["days_offset"]) == ("list_entry", None, 0)
    for wrong in ({"name": None}, {"trigger": None}, {"send": None}, {"enabled": None}, {"daily_limit": None},
                  {"mailing_list_id": None}, {"days_offset": 2}):  # fmt: skip
        assert field_errors(flow.put(automation, **wrong)).keys() == wrong.keys()
    assert field_errors(flow.put(automation, trigger="date")).keys() == {"date_field"}


@pytest.mark.usefixtures("clean_database")
def test_whoever_is_due_gets_what_it_says_when_they_are_mailed(flow: AutomationDriver) -> None:
    visitors, others = flow.lists.make(), flow.lists.make()
    automation = flow.make(plan(visitors))
    flow.lists.fill(visitors, "1 Main St")
    assert flow.put(automation, enabled=False).json()["waiting"] == 0
    flow.lists.fill(visitors, "2 Main St")
    flow.work()
    assert flow.orders() == [], "it is switched off"
    assert flow.put(automation, enabled=True).json()["waiting"] == 0
    flow.lists.add(visitors, name="Ann Three", address="3 Main St")
    assert flow.put(automation, send=SEND | {"message": "Hello again!"}).json()["waiting"] == 1
    flow.work()
    assert flow.mailed() == [["Ann Three"]]
    assert flow.orders()[0]["message"] == "Hello again!"
    flow.lists.fill(visitors, "4 Main St")
    assert flow.put(automation, mailing_list_id=others).json()["waiting"] == 0
    flow.lists.fill(others, "5 Main St")
    assert flow.account.delete(f"/automations/{automation}").json() == {"message": "success"}
    flow.work()
    assert len(flow.orders()) == 1
    for call in (flow.account.get, flow.account.delete):
        assert call(f"/automations/{automation}").status_code == 404


def test_what_it_uses_stays_while_it_is_switched_on(flow: AutomationDriver, container: Container) -> None:
    branch = make_sub_account(container, flow.account)
    template = flow.account.post("/message-templates", MESSAGE).json()["id"]
    form: dict[str, Any] = {"data": {"type": "postcard", "name": "Front"}}
    form |= {"files": {"image": ("front.png", make_picture(), "image/png")}}
    image = flow.account.call("POST", "/image-templates", **form).json()["id"]
    visitors = flow.lists.make()
    send = {"piece": "postcard", "message": "Hi", "message_template": template, "sub_account_id": branch}
    automation = flow.make(plan(visitors, name="Greet", send=send | {"image_template_id": image}))
    live = make_live(container, flow.account)  # a token of the other mode, which does not see the automation
    with unchanged(container):
        for used, call in (
            ("template", live.delete(f"/message-templates/{template}")),
            ("template", live.delete(f"/image-templates/{image}")),
            ("list", live.delete(f"/mailing-lists/{visitors}")),
            ("list", live.put(f"/mailing-lists/{visitors}", {"is_suppression_list": True})),
            ("list", live.put(f"/mailing-lists/{visitors}", {"sub_account_id": branch})),
            ("sub account", live.delete(f"/sub-accounts/{branch}")),
        ):
            assert message(call) == (400, f'Automation {automation} ("Greet") uses this {used}: switch it off first.')
    flow.put(automation, send=send)
    assert flow.account.delete(f"/image-templates/{image}").status_code == 200
    flow.put(automation, enabled=False)
    assert flow.account.delete(f"/message-templates/{template}").status_code == 200
    assert flow.account.delete(f"/mailing-lists/{visitors}").status_code == 200
    assert message(flow.put(automation, enabled=True)) == (400, NO_LIST)
    assert flow.put(automation, name="Still there").status_code == 200
    other = flow.lists.make()
    assert message(flow.put(automation, mailing_list_id=other)) == NO_TEMPLATE
    changed = flow.put(automation, mailing_list_id=other, send=SEND | {"sub_account_id": branch}, enabled=True)
    assert changed.json()["enabled"] is True
    flow.put(automation, enabled=False)
    assert flow.account.delete(f"/sub-accounts/{branch}").status_code == 200
    assert flow.account.get(f"/automations/{automation}").status_code == 404


def test_a_list_is_not_merged_where_its_automation_cannot_go(flow: AutomationDriver, container: Container) -> None:
    branch = make_sub_account(container, flow.account)
    visitors, of_branch = flow.lists.make(), flow.lists.make(sub_account_id=branch)
    automation = flow.make(plan(visitors))
    status, error = message(flow.account.post(f"/mailing-lists/{visitors}/merge", {"into": of_branch}))
    assert (status, f'Automation {automation} ("Welcome")' in error) == (400, True)
    flow.put(automation, enabled=False)
    assert flow.account.post(f"/mailing-lists/{visitors}/merge", {"into": of_branch}).status_code == 200
    assert flow.read(automation)["mailing_list_id"] == of_branch
    assert message(flow.put(automation, enabled=True)) == (400, NO_LIST)


def statuses(account: Account, automation: int) -> list[int]:
    path = f"/automations/{automation}"
    calls = (account.get(path), account.put(path, {"name": "Mine"}), account.post(f"{path}/preview"))
    return [each.status_code for each in (*calls, account.delete(path))]


def test_an_automation_is_found_by_nobody_else(
    flow: AutomationDriver, container: Container, owner: Account, stranger: Account
) -> None:
    here, there = make_sub_account(container, owner), make_sub_account(container, owner)
    visitors = flow.lists.make(sub_account_id=here)
    automation = flow.make(plan(visitors, send=SEND | {"sub_account_id": here}))
    others = (stranger, make_teammate(container, owner, there), make_live(container, owner))
    mate = make_teammate(container, owner, here)
    with unchanged(container):
        for other in others:
            assert statuses(other, automation) == [404, 404, 404, 404]
            assert other.get("/automations").json()["data"] == []
        refused = mate.post("/automations", plan(visitors, send=SEND | {"sub_account_id": there}))
        assert message(refused) == (400, NO_SUB_ACCOUNT)
    assert [each["id"] for each in mate.get("/automations").json()["data"]] == [automation]
    assert statuses(mate, automation) == [200, 200, 200, 200]
    assert mate.post("/automations", plan(visitors)).json()["sub_account_id"] == here


def but_files(container: Container) -> dict[str, tuple[int, int]]:
    return {name: rows for name, rows in snapshot_rows(container).items() if name != "files"}


def test_a_preview_shows_the_piece_and_the_next_recipients(flow: AutomationDriver, container: Container) -> None:
    friends = flow.lists.make()
    for n, day in enumerate(("05-04", "05-06", "05-06", "06-03", "06-04"), 1):
        flow.lists.add(friends, name=f"Friend {n}", address=f"{n} Main St", dob=f"1990-{day}")
    flow.lists.add_email(friends, "eve@example.com", dob="1990-05-06")
    automation = flow.make(birthday(friends, send=SEND | {"piece": "windowless-letter"}, enabled=False))
    before = but_files(container)
    shown = flow.account.post(f"/automations/{automation}/preview")
    assert shown.status_code == 200, shown.text
    data = shown.json()["data"]
    assert {"previews", "sides", "envelope"} <= data.keys()
    days = {each["date"]: each["recipients"] for each in data["coming"]}
    assert (len(data["coming"]), days) == (3, {"2026-05-04": 1, "2026-05-06": 2, "2026-06-03": 1})
    assert (data["coming_total"], data["waiting"]) == (4, 0)
    assert flow.account.http.get(data["previews"][0]).headers["Content-Type"] == "image/png"
    assert but_files(container) == before


@pytest.mark.usefixtures("clean_database")
def test_a_preview_is_drawn_for_whoever_waits_and_needs_nobody(flow: AutomationDriver) -> None:
    visitors = flow.lists.make()
    flow.lists.add(visitors, name="Abe Longago", address="1 Main St")
    automation = flow.make(plan(visitors))

    def back(automation_id: int = automation) -> bytes:
        data = flow.account.post(f"/automations/{automation_id}/preview").json()["data"]
        assert (data["sides"], data["coming"]) == (["front", "back"], [])
        return flow.account.http.get(data["previews"][1]).content

    for list_id, trigger in ((None, "scan"), (flow.lists.make(), "list_entry")):
        back(flow.make(plan(list_id, trigger=trigger)))
    nobody_waits = back()
    joan = flow.lists.add(visitors, name="Joan Waits", address="2 Main St").json()["id"]
    for_joan = back()
    assert for_joan != nobody_waits
    flow.lists.put(f"/recipients/{joan}", {"name": "Abe Longago", "address": "1 Main Street"})
    flow.lists.put(f"/recipients/{joan}", {"name": "Joan Waits", "address": "2 Main St"})
    assert back() == for_joan
    flow.work()
    assert back() == nobody_waits, "they have theirs"


@pytest.mark.usefixtures("clean_database")
def test_a_list_of_scans_is_only_for_automations_of_its_mode(flow: AutomationDriver, container: Container) -> None:
    scanned = flow.lists.make(type="qrscans")
    execute(container, sa.update(mailing_lists).where(mailing_lists.c.id == scanned).values(kept_for="test"))
    home = {"return_address": "1 Elm St, Austin, TX 78702"}
    refused = make_live(container, flow.account).post("/automations", plan(scanned, send=SEND | home))
    sentence = "The service keeps this list of those who scanned test mail: use a test token."
    assert field_errors(refused) == {"mailing_list_id": [sentence]}
    flow.make(plan(scanned))
    flow.lists.fill(scanned, "1 Main St")
    flow.work()
    assert flow.mailed() == [["Jane Doe"]]


def test_of_two_concurrent_changes_one_must_try_again(flow: AutomationDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    automation = flow.make(plan(flow.lists.make()))
    read = automation_queries.read_automation

    def meanwhile(*given: Any, locked: bool = False) -> Any:
        if locked:
            monkeypatch.undo()
            assert flow.put(automation, name="First").status_code == 200
        return read(*given, locked=locked)

    monkeypatch.setattr(automation_queries, "read_automation", meanwhile)
    second = flow.put(automation, name="Second")
    assert (second.status_code, second.headers["Retry-After"]) == (409, "1")
    assert flow.read(automation)["name"] == "First"
