"""Automations on pages: made, changed, looked at, switched and ended."""

import re
from dataclasses import replace
from typing import Any

import pytest

from quillpost.core.database import Tenant
from quillpost.orders.automations import queries as automation_queries
from quillpost.web.dashboard.automations.forms import describe_automation
from quillpost.web.security import create_one_time_key
from support.factories import person
from support.pages import AccountPages, assert_shows, form_errors

FORM: dict[str, Any] = {
    "name": "Birthdays", "trigger": "date", "date_field": "dob", "days": "7", "side": "before", "daily_limit": "500",
    "piece": "postcard-6x9", "message": "Happy birthday, %FIRST_NAME%!\r\nYours", "style": "1", "realism": "on",
    "image": "",
}  # fmt: skip
MADE = {"message": "Happy birthday, %FIRST_NAME%!\nYours", "handwriting_style": 1, "handwriting_realism": True}


def make_list(house: AccountPages) -> int:
    made = int(house.account.post("/mailing-lists", {"description": "Customers"}).json()["id"])
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
    assert_shows(house.owner.get("/automations"), "Mail that sends itself")
    assert re.search(r'<form class="form automation-form"[^>]* novalidate', house.owner.get("/automations/new").text)
    customers = make_list(house)
    typed = FORM | {"mailing_list_id": customers, "once": create_one_time_key()}
    assert_shows(house.member.post("/automations/new", **typed), "The automation is made.")
    assert house.member.post("/automations/new", **typed).status_code == 409
    [found] = house.account.get("/automations").json()["data"]
    assert (found["trigger"], found["date_field"], found["days_offset"]) == ("date", "dob", -7)
    assert (found["mailing_list_id"], found["daily_limit"], found["enabled"]) == (customers, 500, False)
    assert found["send"] == {"piece": "postcard", "size": "6x9"} | MADE
    assert_shows(house.owner.get("/automations"), "7 days before somebody on Customers has their birthday: a postcard.")


def test_errors_are_shown_beside_their_fields_and_nothing_is_stored(
    house: AccountPages, subtests: pytest.Subtests
) -> None:
    unlisted = "Choose the list whose people"
    wrong: dict[str, Any] = {"message": "Hi %FISRT_NAME%", "qrcode_url": "nonsense"}
    house.refuses_forms(
        subtests, "/automations/new", FORM,
        [
            (wrong | {"name": " ", "daily_limit": "0"}, "name", "Give the automation a name"),
            (wrong | {"name": " ", "daily_limit": "0"}, "daily_limit", ""),
            (wrong, "mailing_list_id", unlisted), (wrong, "message", ""), (wrong, "qrcode_url", ""),
            ({"message": ""}, "message", "Write a message"),
            ({"days": "a week"}, "days", "Give a whole number of days"),
            ({"mailing_list_id": 999_999}, "mailing_list_id", ""),
        ],
    )  # fmt: skip
    assert_shows(house.owner.post("/automations/new", **FORM | wrong), "Hi %FISRT_NAME%</textarea>")
    silent = house.owner.post("/automations/new", **FORM | {"message": ""})
    assert list(form_errors(silent)) == ["mailing_list_id", "message"]
    assert house.stranger.post("/automations/new", **FORM | {"mailing_list_id": make_list(house)}).status_code == 422


def test_a_change_keeps_what_the_form_does_not_show(house: AccountPages) -> None:
    customers = make_list(house)
    send = {"piece": "postcard", "message": "Hi!", "handwriting_style_id": 2, "handwriting_realism": False,
            "metadata": {"flow": 1.5}}  # fmt: skip
    automation = make_automation(house, customers, send=send)
    page = f"/automations/{automation}/change"
    shown = house.owner.get(page).text
    assert_shows(shown, '<option value="2" selected>')
    assert not re.search(r'name="realism" value="on" checked', shown)
    assert re.search(r'id="trigger-list_entry"[^>]* checked', shown)
    typed = FORM | {"trigger": "list_entry", "mailing_list_id": customers, "piece": "notecard", "style": "1"}
    assert_shows(house.owner.post(page, **typed), "The automation is changed.")
    found = read(house, automation)
    assert (found["name"], found["date_field"], found["days_offset"]) == ("Birthdays", None, 0)
    assert found["send"] == {"piece": "notecard", "metadata": {"flow": 1.5}} | MADE


def test_it_is_looked_at_switched_and_ended(house: AccountPages) -> None:
    automation = make_automation(house, make_list(house))
    page = f"/automations/{automation}"
    assert_shows(house.owner.get(page), "When somebody joins Customers: a postcard.")
    with house.unchanged():
        part = house.owner.post(f"{page}/preview", headers={"HX-Request": "true"}).text
        whole = house.owner.post(f"{page}/preview")
    assert_shows(part, "As Jane Doe would get it")
    assert part.count("data:image/png;base64,") == 2
    assert "img-src 'self' data:" in whole.headers["Content-Security-Policy"]
    assert_shows(whole, "data:image/png")
    assert_shows(house.owner.get(f"{page}/on"), "Switch on “Welcome”?")
    assert not read(house, automation)["enabled"]
    for act, is_enabled in (("on", True), ("off", False)):
        house.owner.post(f"{page}/{act}")
        assert read(house, automation)["enabled"] is is_enabled
    assert_shows(house.owner.get(f"{page}/delete"), "Whoever is due gets nothing.")
    house.owner.post(f"{page}/delete")
    assert house.account.get(page).status_code == 404


def test_every_trigger_is_described_in_a_sentence(house: AccountPages) -> None:
    automation = make_automation(house, make_list(house))
    with house.parts.db.transaction(Tenant(house.account.id, None)) as tx:
        plain = automation_queries.read_automation(tx, automation)
    date = replace(plain, trigger="date", date_field="anniversary")
    for which, list_name, sentence in (
        (replace(plain, trigger="scan"), None, "When somebody scans the QR code of any of your mail: a postcard."),
        (replace(date, days_offset=1), "Friends", "1 day after somebody on Friends has their anniversary: a postcard."),
        (date, "Friends", "On the day that somebody on Friends has their anniversary: a postcard."),
    ):
        assert describe_automation(which, list_name) == sentence
