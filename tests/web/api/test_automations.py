"""Making, reading, changing and removing automations; and what they keep from being removed."""

import json
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import mailing_lists
from quillpost.orders.automations import queries as automation_queries
from quillpost.orders.automations.queries import Automation
from quillpost.web.application import create_app
from support.automations import SEND, AutomationDriver, birthday, plan
from support.factories import (
    Account,
    Build,
    Clock,
    make_account,
    make_live,
    make_sub_account,
    make_teammate,
    snapshot_rows,
)
from support.image_server import ImageServer, make_picture
from support.mailing_lists import NO_LIST, NO_SUB_ACCOUNT, ListOwner, field_errors, message
from support.test_client import TestClient
from support.traces import traces

LEAVE_OUT = "An automation chooses whom it mails by itself: leave this out."


@pytest.fixture
def flow(owner: Account, container: Container, clock: Clock) -> AutomationDriver:
    return AutomationDriver(owner, container, clock)


@pytest.fixture
def lists(owner: Account) -> ListOwner:
    return ListOwner(owner)


def test_what_was_made_can_be_read_to_the_letter(owner: Account, lists: ListOwner) -> None:
    visitors = lists.make()
    send = '{"message":"Hi %FIRST_NAME%!","piece":"postcard","metadata":{"b":1.0,"a":12345678901234567890123}}'
    body = json.dumps(plan(visitors, send="SEND")).replace('"SEND"', send)
    made = owner.call("POST", "/automations", content=body, headers={"Content-Type": "application/json"})
    assert made.status_code == 201, made.text
    assert f'"send":{send}' in made.text
    assert made.json() | {"id": 0, "send": {}} == {
        "id": 0,
        "user_id": owner.id,
        "sub_account_id": None,
        "mode": "test",
        "name": "Welcome",
        "trigger": "list_entry",
        "mailing_list_id": visitors,
        "date_field": None,
        "days_offset": 0,
        "send": {},
        "daily_limit": 5000,
        "enabled": True,
        "waiting": 0,
        "held_by": None,
        "held_until": None,
        "sent_count": 0,
        "last_sent_at": None,
        "last_order_id": None,
        "last_error": None,
        "last_error_at": None,
        "created_at": "2026-05-04T12:00:00Z",
        "updated_at": "2026-05-04T12:00:00Z",
    }
    assert owner.get(f"/automations/{made.json()['id']}").text == made.text


def test_it_is_switched_off_unless_someone_says_so(flow: AutomationDriver, lists: ListOwner) -> None:
    visitors = lists.make()
    body = plan(visitors)
    del body["enabled"]
    automation = flow.make(body)
    lists.fill(visitors, "1 Main St")
    flow.work()
    assert (flow.read(automation)["enabled"], flow.orders()) == (False, [])


def test_they_are_listed_newest_first_by_list_and_sub_account(
    flow: AutomationDriver, lists: ListOwner, container: Container
) -> None:
    branch = make_sub_account(container, flow.account)
    visitors, others = lists.make(), lists.make()
    first, second = flow.make(plan(visitors)), flow.make(plan(others))
    third = flow.make(plan(visitors, send=SEND | {"sub_account_id": branch}))
    lists.fill(visitors, "1 Main St")

    def listed(query: str = "") -> list[tuple[int, int]]:
        page = flow.account.get(f"/automations{query}").json()
        assert page["meta"]["total"] == len(page["data"])
        return [(each["id"], each["waiting"]) for each in page["data"]]

    assert listed() == [(third, 1), (second, 0), (first, 1)]
    assert listed(f"?mailing_list_id={visitors}") == [(third, 1), (first, 1)]
    assert listed(f"?sub_account_id={branch}") == [(third, 1)]
    assert message(flow.account.get("/automations?mailing_list_id=999")) == (400, NO_LIST)
    assert message(flow.account.get("/automations?sub_account_id=999")) == (400, NO_SUB_ACCOUNT)
    assert field_errors(flow.account.get("/automations?mailing_list_id=x")).keys() == {"mailing_list_id"}


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"name": " \n "}, {"name": ["Give the automation a name."]}),
        ({"trigger": "moon"}, None),
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
        (
            {"send": {"piece": "giftcard", "message": "Hi"}},
            {"send.giftcard_brand": None, "send.giftcard_amount": None},
        ),
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
    ],
)  # fmt: skip
def test_every_error_is_reported_by_field_and_nothing_is_stored(
    owner: Account, lists: ListOwner, container: Container, changes: dict[str, Any], wrong: dict[str, Any] | None
) -> None:
    body = plan(lists.make()) | changes
    before = traces(container)
    errors = field_errors(owner.post("/automations", body))
    assert errors.keys() == (wrong or {"trigger": None}).keys()
    assert all(sentences == errors[name] for name, sentences in (wrong or {}).items() if sentences)
    assert traces(container) == before


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"mailing_list_id": 999}, NO_LIST),
        ({"send": SEND | {"sub_account_id": 999}}, NO_SUB_ACCOUNT),
        ({"send": SEND | {"message_template": 999}}, "Message Template does not exist"),
        ({"send": SEND | {"image_template": 999}}, "Image Template does not exist"),
    ],
)
def test_what_it_names_must_be_there(
    owner: Account, lists: ListOwner, container: Container, changes: dict[str, Any], error: str
) -> None:
    body = plan(lists.make()) | changes
    before = traces(container)
    assert message(owner.post("/automations", body)) == (400, error)
    assert traces(container) == before


def test_a_list_of_another_home_and_a_suppression_list_are_refused(
    owner: Account, lists: ListOwner, container: Container
) -> None:
    here, there = make_sub_account(container, owner), make_sub_account(container, owner)
    of_there, suppression_list = lists.make(sub_account_id=there), lists.make(is_suppression_list=True)
    for send in (SEND, SEND | {"sub_account_id": here}):
        assert message(owner.post("/automations", plan(of_there, send=send))) == (400, NO_LIST)
    assert field_errors(owner.post("/automations", plan(suppression_list))).keys() == {"mailing_list_id"}


def test_live_mail_needs_a_return_address_here_too(owner: Account, lists: ListOwner, container: Container) -> None:
    refused = make_live(container, owner).post("/automations", plan(lists.make()))
    assert field_errors(refused).keys() == {"send.return_address"}


def test_a_message_must_fit_with_the_longest_values_of_the_list(owner: Account, lists: ListOwner) -> None:
    visitors = lists.make()
    send = SEND | {"message": "%CUSTOM1% " * 9}
    assert owner.post("/automations", plan(visitors, send=send)).status_code == 201
    lists.add(visitors, custom1="very long words " * 15)
    assert field_errors(owner.post("/automations", plan(visitors, send=send))).keys() == {"send.message"}


def test_pictures_are_looked_at_when_it_is_made(build: Build, clock: Clock, art: ImageServer) -> None:
    container = build(allow_private_urls=True)
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        owner = make_account(container, http, "owner@example.com")
        visitors = ListOwner(owner).make()
        made = owner.post("/automations", plan(visitors, send=SEND | {"front_image_url": art.picture()}))
        assert made.status_code == 201, made.text
        gone = owner.post("/automations", plan(visitors, send=SEND | {"front_image_url": art.url("/gone")}))
        assert field_errors(gone).keys() == {"send.front_image_url"}


def test_what_means_nothing_is_named(owner: Account, lists: ListOwner) -> None:
    send = SEND | {"pdf_only_url": "https://example.com/a.pdf", "tipo": 1}
    made = owner.post("/automations", plan(lists.make(), send=send, colour="red"))
    assert (made.status_code, made.headers["X-Ignored-Fields"]) == (201, "colour, send.pdf_only_url, send.tipo")


def test_what_is_not_named_stays(flow: AutomationDriver, lists: ListOwner) -> None:
    friends, others = lists.make(), lists.make()
    automation = flow.make(birthday(friends, days_offset=-3, daily_limit=7))
    before = flow.read(automation)
    assert flow.put(automation, name="Other").json() == before | {"name": "Other"}
    changed = flow.put(automation, send=SEND | {"piece": "letter"}, mailing_list_id=others).json()
    assert changed == before | {"name": "Other", "send": SEND | {"piece": "letter"}, "mailing_list_id": others}
    back = flow.put(automation, trigger="list_entry").json()
    assert (back["trigger"], back["date_field"], back["days_offset"]) == ("list_entry", None, 0)
    for wrong in ({"name": None}, {"trigger": None}, {"send": None}, {"enabled": None}, {"daily_limit": None}):
        assert field_errors(flow.put(automation, **wrong)).keys() == wrong.keys()
    assert field_errors(flow.put(automation, mailing_list_id=None)).keys() == {"mailing_list_id"}
    assert field_errors(flow.put(automation, trigger="date")).keys() == {"date_field"}
    assert field_errors(flow.put(automation, days_offset=2)).keys() == {"days_offset"}


def test_switching_off_clears_the_waiting_people(flow: AutomationDriver, lists: ListOwner) -> None:
    visitors = lists.make()
    automation = flow.make(plan(visitors))
    lists.fill(visitors, "1 Main St")
    assert flow.put(automation, enabled=False).json()["waiting"] == 0
    lists.fill(visitors, "2 Main St")
    assert flow.put(automation, enabled=True).json()["waiting"] == 0
    lists.add(visitors, name="Ann Three", address="3 Main St")
    flow.work()
    assert flow.mailed() == [["Ann Three"]]


def test_whoever_is_due_gets_what_it_says_when_they_are_mailed(flow: AutomationDriver, lists: ListOwner) -> None:
    visitors, others = lists.make(), lists.make()
    automation = flow.make(plan(visitors))
    lists.fill(visitors, "1 Main St")
    assert flow.put(automation, send=SEND | {"message": "Hello again!"}).json()["waiting"] == 1
    flow.work()
    assert flow.orders()[0]["message"] == "Hello again!"
    lists.fill(visitors, "2 Main St")
    assert flow.put(automation, mailing_list_id=others).json()["waiting"] == 0


def test_deleted_it_sends_nothing_more(flow: AutomationDriver, lists: ListOwner) -> None:
    visitors = lists.make()
    automation = flow.make(plan(visitors))
    lists.fill(visitors, "1 Main St")
    assert flow.account.delete(f"/automations/{automation}").json() == {"message": "success"}
    flow.work()
    assert flow.orders() == []
    for call in (flow.account.get, flow.account.delete):
        assert call(f"/automations/{automation}").status_code == 404


def test_what_it_uses_stays_while_it_is_switched_on(
    flow: AutomationDriver, lists: ListOwner, container: Container
) -> None:
    branch = make_sub_account(container, flow.account)
    template = flow.account.post(
        "/message-templates", {"type": "postcard", "name": "Hi", "content": "Hi!", "handwriting_style_id": 1}
    ).json()["id"]
    visitors = lists.make()
    send = {"piece": "postcard", "message": "Hi", "message_template": template, "sub_account_id": branch}
    automation = flow.make(plan(visitors, name="Greet", send=send))
    live = make_live(container, flow.account)

    def tries() -> dict[str, tuple[int, str]]:
        """By a token of the other mode, which does not see the automation."""
        return {
            what: message(call)
            for what, call in {
                "template": live.delete(f"/message-templates/{template}"),
                "list": live.delete(f"/mailing-lists/{visitors}"),
                "list, turned": live.put(f"/mailing-lists/{visitors}", {"is_suppression_list": True}),
                "list, moved": live.put(f"/mailing-lists/{visitors}", {"sub_account_id": branch}),
                "sub account": live.delete(f"/sub-accounts/{branch}"),
            }.items()
        }

    before = snapshot_rows(container)
    for what, error in tries().items():
        sentence = f'Automation {automation} ("Greet") uses this {what.partition(",")[0]}: switch it off first.'
        assert error == (400, sentence)
    assert snapshot_rows(container) == before
    flow.put(automation, enabled=False)
    assert flow.account.delete(f"/message-templates/{template}").status_code == 200
    assert flow.account.delete(f"/mailing-lists/{visitors}").status_code == 200
    assert message(flow.put(automation, enabled=True)) == (400, NO_LIST)
    assert flow.put(automation, name="Still there").status_code == 200
    other = lists.make()
    assert message(flow.put(automation, mailing_list_id=other)) == (400, "Message Template does not exist")
    mended = flow.put(automation, mailing_list_id=other, send=SEND | {"sub_account_id": branch}, enabled=True)
    assert mended.json()["enabled"] is True
    flow.put(automation, enabled=False)
    assert flow.account.delete(f"/sub-accounts/{branch}").status_code == 200
    assert flow.account.get(f"/automations/{automation}").status_code == 404


def test_an_image_template_stays_too(flow: AutomationDriver, lists: ListOwner) -> None:
    made = flow.account.call(
        "POST",
        "/image-templates",
        data={"type": "postcard", "name": "Front"},
        files={"image": ("front.png", make_picture(), "image/png")},
    )
    image = made.json()["id"]
    automation = flow.make(plan(lists.make(), send=SEND | {"image_template_id": image}))
    status, error = message(flow.account.delete(f"/image-templates/{image}"))
    assert (status, error.startswith(f"Automation {automation} ")) == (400, True)
    flow.put(automation, send=SEND)
    assert flow.account.delete(f"/image-templates/{image}").status_code == 200


def test_a_list_is_not_merged_into_one_that_its_automation_cannot_use(
    flow: AutomationDriver, lists: ListOwner, container: Container
) -> None:
    branch = make_sub_account(container, flow.account)
    visitors, of_branch = lists.make(), lists.make(sub_account_id=branch)
    automation = flow.make(plan(visitors))
    status, error = message(flow.account.post(f"/mailing-lists/{visitors}/merge", {"into": of_branch}))
    assert (status, f'Automation {automation} ("Welcome")' in error) == (400, True)
    flow.put(automation, enabled=False)
    assert flow.account.post(f"/mailing-lists/{visitors}/merge", {"into": of_branch}).status_code == 200
    assert flow.read(automation)["mailing_list_id"] == of_branch
    assert message(flow.put(automation, enabled=True)) == (400, NO_LIST)


def calls(account: Account, automation: int) -> list[int]:
    path = f"/automations/{automation}"
    answers = (
        account.get(path),
        account.put(path, {"name": "Mine"}),
        account.post(f"{path}/preview"),
        account.delete(path),
    )
    return [each.status_code for each in answers]


def test_nobody_else_finds_it(
    flow: AutomationDriver, lists: ListOwner, container: Container, owner: Account, stranger: Account
) -> None:
    here, there = make_sub_account(container, owner), make_sub_account(container, owner)
    automation = flow.make(plan(lists.make(sub_account_id=here), send=SEND | {"sub_account_id": here}))
    before = snapshot_rows(container)
    for other in (stranger, make_teammate(container, owner, there), make_live(container, owner)):
        assert calls(other, automation) == [404, 404, 404, 404]
        assert other.get("/automations").json()["data"] == []
    assert snapshot_rows(container) == before
    mate = make_teammate(container, owner, here)
    assert [each["id"] for each in mate.get("/automations").json()["data"]] == [automation]
    assert calls(mate, automation) == [200, 200, 200, 200]


def test_another_s_list_and_template_are_unknown(
    owner: Account, stranger: Account, lists: ListOwner, container: Container
) -> None:
    theirs = ListOwner(stranger).make()
    template = stranger.post(
        "/message-templates", {"type": "postcard", "name": "Hi", "content": "Hi!", "handwriting_style_id": 1}
    ).json()["id"]
    assert message(owner.post("/automations", plan(theirs))) == (400, NO_LIST)
    send = SEND | {"message_template": template}
    refused = owner.post("/automations", plan(lists.make(), send=send))
    assert message(refused) == (400, "Message Template does not exist")


def test_a_teammate_makes_them_for_their_sub_account(owner: Account, container: Container) -> None:
    here, there = make_sub_account(container, owner), make_sub_account(container, owner)
    mate = make_teammate(container, owner, here)
    visitors = ListOwner(mate).make()
    assert mate.post("/automations", plan(visitors)).json()["sub_account_id"] == here
    refused = mate.post("/automations", plan(visitors, send=SEND | {"sub_account_id": there}))
    assert message(refused) == (400, NO_SUB_ACCOUNT)


def test_it_takes_the_scope_of_sending(
    owner: Account, lists: ListOwner, container: Container, http: TestClient
) -> None:
    reader = make_account(container, http, "reader@example.com", scopes=["send:read"])
    sender = make_account(container, http, "sender@example.com", scopes=["send:write", "lists:write"])
    automation = sender.post("/automations", plan(ListOwner(sender).make())).json()["id"]
    assert sender.get(f"/automations/{automation}").status_code == 403
    assert reader.get("/automations").status_code == 200
    assert reader.post("/automations", plan(1)).status_code == 403
    path = f"/automations/{automation}"
    assert [reader.put(path, {}).status_code, reader.delete(path).status_code] == [403, 403]
    assert reader.post(f"{path}/preview").status_code == 403


def test_the_same_key_makes_one(owner: Account, lists: ListOwner) -> None:
    body, key = plan(lists.make()), {"Idempotency-Key": "once"}
    first, second = (owner.post("/automations", body, headers=key) for _ in range(2))
    assert first.text == second.text
    assert owner.get("/automations").json()["meta"]["total"] == 1


def but_files(container: Container) -> dict[str, tuple[int, int]]:
    return {name: rows for name, rows in snapshot_rows(container).items() if name != "files"}


def test_a_preview_shows_the_piece_and_the_next_recipients(
    flow: AutomationDriver, lists: ListOwner, container: Container
) -> None:
    friends = lists.make()
    for n, day in enumerate(("05-04", "05-06", "05-06", "06-03", "06-04"), 1):
        lists.add(friends, name=f"Friend {n}", address=f"{n} Main St", dob=f"1990-{day}")
    lists.add_email(friends, "eve@example.com", dob="1990-05-06")
    automation = flow.make(birthday(friends, send=SEND | {"piece": "windowless-letter"}, enabled=False))
    before = but_files(container)
    shown = flow.account.post(f"/automations/{automation}/preview")
    assert shown.status_code == 200, shown.text
    data = shown.json()["data"]
    assert {"previews", "sides", "envelope"} <= data.keys()
    assert data["coming"] == [
        {"date": "2026-05-04", "recipients": 1},
        {"date": "2026-05-06", "recipients": 2},
        {"date": "2026-06-03", "recipients": 1},
    ]
    assert (data["coming_total"], data["waiting"]) == (4, 0)
    assert flow.account.http.get(data["previews"][0]).headers["Content-Type"] == "image/png"
    assert but_files(container) == before


def test_a_preview_is_drawn_for_whoever_waits(flow: AutomationDriver, lists: ListOwner) -> None:
    visitors = lists.make()
    lists.add(visitors, name="Abe Longago", address="1 Main St")
    automation = flow.make(plan(visitors))

    def back() -> bytes:
        data = flow.account.post(f"/automations/{automation}/preview").json()["data"]
        return flow.account.http.get(data["previews"][1]).content

    nobody_waits = back()
    joan = lists.add(visitors, name="Joan Waits", address="2 Main St").json()["id"]
    for_joan = back()
    assert for_joan != nobody_waits
    lists.put(f"/recipients/{joan}", {"name": "Abe Longago", "address": "1 Main Street"})
    lists.put(f"/recipients/{joan}", {"name": "Joan Waits", "address": "2 Main St"})
    assert back() == for_joan
    flow.work()
    assert back() == nobody_waits, "they have theirs"


@pytest.mark.parametrize("trigger", ["list_entry", "scan"])
def test_a_preview_needs_nobody(flow: AutomationDriver, lists: ListOwner, trigger: str) -> None:
    list_id = lists.make() if trigger == "list_entry" else None
    automation = flow.make(plan(list_id, trigger=trigger))
    for street in ("1 Main St", "2 Main St"):
        data = flow.account.post(f"/automations/{automation}/preview").json()["data"]
        assert (data["sides"], data["coming"]) == (["front", "back"], [])
        if list_id is not None:
            lists.fill(list_id, street)


def test_a_form_changes_single_values(flow: AutomationDriver, lists: ListOwner) -> None:
    automation = flow.make(birthday(lists.make()))
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    path, content = f"/automations/{automation}", "days_offset=-7&enabled=false&daily_limit=10"
    changed = flow.account.call("PUT", path, content=content, headers=form).json()
    assert (changed["days_offset"], changed["enabled"], changed["daily_limit"]) == (-7, False, 10)


def test_a_list_of_scans_is_for_automations_of_its_mode_alone(
    flow: AutomationDriver, lists: ListOwner, container: Container
) -> None:
    scanned = lists.make(type="qrscans")
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(mailing_lists).where(mailing_lists.c.id == scanned).values(kept_for="test"))
    home = {"return_address": "1 Elm St, Austin, TX 78702"}
    refused = make_live(container, flow.account).post("/automations", plan(scanned, send=SEND | home))
    assert field_errors(refused) == {
        "mailing_list_id": ["The service keeps this list of those who scanned test mail: use a test token."]
    }
    flow.make(plan(scanned))
    lists.fill(scanned, "1 Main St")
    flow.work()
    assert flow.mailed() == [["Jane Doe"]]


def test_of_two_concurrent_changes_one_must_try_again(
    flow: AutomationDriver, lists: ListOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    automation = flow.make(plan(lists.make()))
    read = automation_queries.read_automation

    def meanwhile(tx: Tx, automation_id: int, *, locked: bool = False) -> Automation:
        if locked:
            monkeypatch.undo()
            assert flow.put(automation, name="First").status_code == 200
        return read(tx, automation_id, locked=locked)

    monkeypatch.setattr(automation_queries, "read_automation", meanwhile)
    second = flow.put(automation, name="Second")
    assert (second.status_code, second.headers["Retry-After"]) == (409, "1")
    assert flow.read(automation)["name"] == "First"
