"""Automations on pages: made, changed, looked at, switched and ended, by whoever may and by nobody else."""

import re
from dataclasses import replace
from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.orders.automations import queries as automation_queries
from quillpost.web.dashboard.automations.forms import describe_automation
from quillpost.web.security import create_one_time_key
from support.account_pages import AccountPages
from support.factories import make_live, make_teammate, person
from support.test_client import TestClient

FORM: dict[str, Any] = {
    "name": "Birthdays",
    "trigger": "date",
    "date_field": "dob",
    "days": "7",
    "side": "before",
    "daily_limit": "500",
    "piece": "postcard-6x9",
    "message": "Happy birthday, %FIRST_NAME%!\r\nYours",
    "style": "1",
    "realism": "on",
    "image": "",
}


@pytest.fixture
def house(container: Container, http: TestClient) -> AccountPages:
    return AccountPages(container, http)


def make_list(house: AccountPages, name: str = "Customers") -> int:
    made = int(house.account.post("/mailing-lists", {"description": name}).json()["id"])
    house.account.post("/recipients", person(dob="1980-05-20") | {"mailing_list_id": made})
    return made


def make_automation(house: AccountPages, list_id: int, **fields: Any) -> int:
    send = {"piece": "postcard", "message": "Hi %FIRST_NAME%!"}
    body = {"name": "Welcome", "trigger": "list_entry", "mailing_list_id": list_id, "send": send} | fields
    made = house.account.post("/automations", body)
    assert made.status_code == 201, made.text
    return int(made.json()["id"])


def read(house: AccountPages, automation: int) -> dict[str, Any]:
    found: dict[str, Any] = house.account.get(f"/automations/{automation}").json()
    return found


def test_one_is_made_by_the_form_and_once(house: AccountPages) -> None:
    assert "Mail that sends itself" in house.owner.get("/automations").text
    assert re.search(r'<form class="form automation-form"[^>]* novalidate', house.owner.get("/automations/new").text)
    customers = make_list(house)
    typed = FORM | {"mailing_list_id": customers, "once": create_one_time_key()}
    made = house.member.post("/automations/new", **typed)
    assert "The automation is made." in made.text
    assert house.member.post("/automations/new", **typed).status_code == 409
    [found] = house.account.get("/automations").json()["data"]
    assert (found["trigger"], found["date_field"], found["days_offset"]) == ("date", "dob", -7)
    assert (found["mailing_list_id"], found["daily_limit"], found["enabled"]) == (customers, 500, False)
    assert found["send"] == {
        "piece": "postcard",
        "size": "6x9",
        "message": "Happy birthday, %FIRST_NAME%!\nYours",
        "handwriting_style": 1,
        "handwriting_realism": True,
    }
    listed = house.owner.get("/automations").text
    assert "7 days before somebody on Customers has their birthday: a postcard." in listed


def test_errors_are_shown_beside_their_fields_and_nothing_is_stored(house: AccountPages) -> None:
    before = house.everything()
    wrong = FORM | {"name": " ", "message": "Hi %FISRT_NAME%", "qrcode_url": "nonsense", "daily_limit": "0"}
    first = house.owner.post("/automations/new", **wrong)
    assert first.status_code == 422
    assert re.search(r'id="name-fault"[^>]*>Give the automation a name', first.text)
    assert 'id="daily_limit-fault"' in first.text
    second = house.owner.post("/automations/new", **wrong | {"name": "B", "daily_limit": "5"})
    assert re.search(r'id="mailing_list_id-fault"[^>]*>Choose the list whose people', second.text)
    assert 'id="message-fault"' in second.text
    assert 'id="qrcode_url-fault"' in second.text
    assert "Hi %FISRT_NAME%</textarea>" in second.text
    silent = house.owner.post("/automations/new", **FORM | {"message": ""}).text
    assert re.search(r'id="message-fault"[^>]*>Write a message', silent)
    assert re.findall(r'id="(\w+)-fault"', silent) == ["mailing_list_id", "message"]
    days = house.owner.post("/automations/new", **FORM | {"days": "a week"})
    assert re.search(r'id="days-fault"[^>]*>Give a whole number of days', days.text)
    gone = house.owner.post("/automations/new", **FORM | {"mailing_list_id": 999})
    assert re.search(r'id="mailing_list_id-fault"', gone.text)
    assert house.everything() == before


def test_a_change_keeps_what_the_form_does_not_show(house: AccountPages) -> None:
    customers = make_list(house)
    send = {
        "piece": "postcard",
        "message": "Hi!",
        "handwriting_style_id": 2,
        "handwriting_realism": False,
        "metadata": {"flow": 1.5},
    }
    automation = make_automation(house, customers, send=send)
    shown = house.owner.get(f"/automations/{automation}/change").text
    assert re.search(r'<option value="2" selected>', shown)
    assert not re.search(r'name="realism" value="on" checked', shown)
    assert re.search(r'id="trigger-list_entry"[^>]* checked', shown)
    typed = FORM | {"trigger": "list_entry", "mailing_list_id": customers, "piece": "notecard", "style": "1"}
    assert "The automation is changed." in house.owner.post(f"/automations/{automation}/change", **typed).text
    found = read(house, automation)
    assert (found["name"], found["date_field"], found["days_offset"]) == ("Birthdays", None, 0)
    assert found["send"] == {
        "piece": "notecard",
        "metadata": {"flow": 1.5},
        "message": FORM["message"].replace("\r\n", "\n"),
        "handwriting_style": 1,
        "handwriting_realism": True,
    }


def test_it_is_looked_at_switched_and_ended(house: AccountPages) -> None:
    automation = make_automation(house, make_list(house))
    page = f"/automations/{automation}"
    assert "When somebody joins Customers: a postcard." in house.owner.get(page).text
    before = house.everything()
    part = house.owner.post(f"{page}/preview", headers={"HX-Request": "true"}).text
    assert "As Jane Doe would get it" in part
    assert part.count("data:image/png;base64,") == 2
    whole = house.owner.post(f"{page}/preview")
    assert "img-src 'self' data:" in whole.headers["Content-Security-Policy"]
    assert "data:image/png" in whole.text
    assert house.everything() == before
    assert "Switch on “Welcome”?" in house.owner.get(f"{page}/on").text
    assert not read(house, automation)["enabled"]
    house.owner.post(f"{page}/on")
    assert read(house, automation)["enabled"]
    house.owner.post(f"{page}/off")
    assert not read(house, automation)["enabled"]
    assert "Whoever is due gets nothing." in house.owner.get(f"{page}/delete").text
    house.owner.post(f"{page}/delete")
    assert house.account.get(f"/automations/{automation}").status_code == 404


def test_nobody_elses_are_there(house: AccountPages, container: Container) -> None:
    customers = make_list(house)
    automation = make_automation(house, customers, name="Whole account")
    dallas = make_teammate(container, house.account, house.branch)
    theirs = dallas.post("/mailing-lists", {"description": "Dallas"}).json()["id"]
    body = {"trigger": "list_entry", "send": {"piece": "postcard", "message": "Hi!"}}
    dallas.post("/automations", body | {"name": "For Dallas", "mailing_list_id": theirs})
    live = make_live(container, house.account)
    in_live = live.post(
        "/automations",
        body
        | {
            "name": "In live",
            "mailing_list_id": customers,
            "send": body["send"] | {"return_address": "12 Main St, Austin, TX 78701"},  # type: ignore[operator]
        },
    ).json()["id"]
    for rest in ("", "/change", "/on", "/delete"):
        for browser in (house.stranger, house.limited):
            assert browser.get(f"/automations/{automation}{rest}").status_code == 404, rest
        assert "This automation is in live mode" in house.owner.get(f"/automations/{in_live}{rest}").text
    assert house.is_as_if_unknown(house.stranger, f"/automations/{automation}", automation)
    before = house.everything()
    for act in ("change", "preview", "on", "off", "delete"):
        assert house.stranger.post(f"/automations/{automation}/{act}", **FORM).status_code == 404, act
    refused = house.stranger.post("/automations/new", **FORM | {"mailing_list_id": customers})
    assert refused.status_code == 422
    assert house.everything() == before
    limited, owner = house.limited.get("/automations").text, house.owner.get("/automations").text
    assert ("For Dallas" in limited, "Whole account" in limited) == (True, False)
    assert ("For Dallas" in owner, "In live" in owner) == (True, False)


def test_every_trigger_is_described_in_a_sentence(house: AccountPages) -> None:
    automation = make_automation(house, make_list(house))
    with house.parts.db.transaction(Tenant(house.account.id, None)) as tx:
        plain = automation_queries.read_automation(tx, automation)
    date = replace(plain, trigger="date", date_field="anniversary")
    assert describe_automation(replace(plain, trigger="scan"), None) == (
        "When somebody scans the QR code of any of your mail: a postcard."
    )
    assert describe_automation(replace(date, days_offset=1), "Friends") == (
        "1 day after somebody on Friends has their anniversary: a postcard."
    )
    assert describe_automation(date, "Friends").startswith("On the day that somebody on Friends")
