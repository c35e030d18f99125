"""Lists on pages: seen, searched, made, filled, changed, merged and ended; and the automations that mail to them."""

import re
from dataclasses import replace
from typing import Any

import pytest

from quillpost.core.database import Tenant
from quillpost.orders.automations import queries as automation_queries
from quillpost.web.dashboard.automations.forms import describe_automation
from quillpost.web.security import create_one_time_key
from support.factories import people, person, run_due_jobs
from support.pages import AccountPages, assert_hides, assert_shows, form_errors

COLUMNS = ("name", "address", "city", "province", "postal_code")
PASTED = """Customer\tStreet\tTown\tST\tZIP code
Jane Doe\t12 Main St\tAustin\tTX\t78701
Nobody\t\tAustin\tTX\t78701
"""


def make_list(house: AccountPages, name: str = "Customers", how_many: int = 0, **fields: object) -> int:
    made = house.account.post("/mailing-lists", {"description": name, **fields}).json()["id"]
    if how_many:
        rows = [each | {"mailing_list_id": made} for each in people(how_many)]
        house.account.post("/recipients-utils/create-multiple", rows)
    return int(made)


def add(house: AccountPages, list_id: int, **fields: object) -> int:
    answer = house.account.post("/recipients", person(**fields) | {"mailing_list_id": list_id})
    assert answer.status_code == 201, answer.text
    return int(answer.json()["id"])


def read(house: AccountPages, list_id: int) -> dict[str, Any]:
    found: dict[str, Any] = house.account.get(f"/mailing-lists/{list_id}").json()
    return found


def test_the_page_shows_all_lists_and_teaches_whoever_has_none(house: AccountPages) -> None:
    assert_shows(house.owner.get("/lists"), "Whom do you write to?")
    first, _ = make_list(house, "Spring customers", 3), make_list(house, "Autumn", 0)
    make_list(house, "Never again", is_suppression_list=True)
    shown = house.owner.get("/lists")
    assert_shows(
        shown, f'href="/lists/{first}">Spring customers<', 'data-label="People">3<', "You have 1 suppression list"
    )
    assert_hides(shown, "Whom do you write to?", "Never again")
    for path, words, not_there in (
        ("/lists?query=SPRING&page=what", "Spring customers", "Autumn"),
        ("/lists?query=%25", "No list is called so", "Autumn"),
        ("/lists/suppression", "Never again", "Autumn"),
    ):
        assert_shows(house.owner.get(path), words, hides=[not_there])


def test_a_list_is_created_once_and_errors_are_shown(house: AccountPages, subtests: pytest.Subtests) -> None:
    good = {"description": "Barred", "is_suppression_list": "on", "suppress_by": "household", "once": "k" * 22}
    wrong = {"is_suppression_list": "", "qrcode_url": "nowhere"}
    house.refuses_forms(
        subtests,
        "/lists/new",
        good,
        [(wrong | {"description": " "}, "description", "Give the list a description."), (wrong, "qrcode_url", "")],
    )
    assert_shows(house.owner.post("/lists/new", description="Mine", qrcode_url="nowhere"), 'value="nowhere"')
    made = house.member.post("/lists/new", follow=False, **good)  # type: ignore[arg-type]
    assert made.status_code == 303
    with house.unchanged():
        assert house.member.post("/lists/new", **good).status_code == 409  # type: ignore[arg-type]
    assert_shows(house.owner.get(made.headers["Location"]), "The list is made.", "Nobody on this list is mailed to.")


def test_people_are_found_by_any_part_or_by_beginnings(house: AccountPages, monkeypatch: pytest.MonkeyPatch) -> None:
    list_id = make_list(house, how_many=2)
    add(house, list_id, name="Zoë O'Hara", address="7 North-Gate Rd", email="Zoe@Example.com")
    add(house, make_list(house, "Elsewhere"), name="Zoltan", address="9 North-Gate Rd", email="zoe@example.com")

    def found(query: str) -> set[str]:
        shown = house.owner.get(f"/lists/{list_id}", params={"query": query}).text
        return {name for name in ("Zoë O", "Zoltan", "Person 1", "Person 2") if f">{name}" in shown}

    for query in ("hara", "zoë", "example.com", "7 north-gate rd, austin, tx 78701", "7 north gate"):
        assert found(query) == {"Zoë O"}, query
    assert (found("1 MAIN"), found("%")) == ({"Person 1"}, set())
    monkeypatch.setattr("quillpost.recipients.queries.SHORT_LIST_LENGTH", 1)
    for query in ("ZOË o", "zoe@example.COM", "7 North-Gate Rd, Austin, TX 78701", "7 north"):
        assert found(query) == {"Zoë O"}, query
    assert (found("1 Main"), found("person")) == ({"Person 1"}, {"Person 1", "Person 2"})
    for query in ("hara", "zoe@example", "north", "%"):
        assert found(query) == set(), query
    assert_shows(house.owner.get(f"/lists/{list_id}"), "type how a name or a street address begins")


def test_somebody_is_added_changed_and_taken_off_with_every_field(house: AccountPages) -> None:
    list_id = make_list(house)
    new = f"/lists/{list_id}/people/new"
    half = house.owner.post(new, name="Jane", postal_code="12", address="12 Main St", city="Austin", province="TX")
    assert (half.status_code, "postal_code" in form_errors(half)) == (422, True)
    assert form_errors(house.owner.post(new, name="Jane", dob="tomorrow")).keys() >= {"address", "dob"}
    fields = person(email="jane@example.com", dob="1980-02-29", anniversary="2001-05-04", custom10="a blue door")
    added = house.owner.post(new, follow=False, **fields, then="another")
    assert added.headers["Location"] == f"{new}?said=recipient_added"
    assert_shows(house.owner.post(new, **fields), "already on this mailing list", status=422)
    [one] = house.account.get(f"/mailing-lists/{list_id}/recipients").json()["data"]
    assert (one["custom10"], one["dob"], one["anniversary"]) == ("a blue door", "1980-02-29", "2001-05-04")
    page = f"/lists/{list_id}/people/{one['id']}"
    assert_shows(house.owner.get(page), 'value="a blue door"')
    house.owner.post(page, name="Jane Roe", address="9 Oak Ave, Dallas, TX 75201", email="jane@example.com")
    [changed] = house.account.get(f"/mailing-lists/{list_id}/recipients").json()["data"]
    assert (changed["name"], changed["city"], changed["custom10"]) == ("Jane Roe", "Dallas", None)
    assert house.owner.get(f"{page}/remove").status_code == 200
    assert house.account.get(f"/recipients/{one['id']}").status_code == 200
    house.owner.post(f"{page}/remove")
    assert house.account.get(f"/recipients/{one['id']}").status_code == 404
    bad = add(house, list_id, name="Half", address="12 Main St", city=None, province=None, postal_code=None)
    for path in (f"/lists/{list_id}", f"/lists/{list_id}/people/{bad}"):
        assert_shows(house.owner.get(path), "Not deliverable", "The address lacks its city, state or ZIP code.")


def test_erasing_asks_by_what_and_takes_the_person_off_every_list(house: AccountPages) -> None:
    one, other = make_list(house, "One"), make_list(house, "Other")
    jane = add(house, one, email="jane@example.com")
    add(house, other, address="99 Elm St", email="JANE@example.com")
    stays = add(house, other, address="98 Elm St", email="rick@example.com")
    page = f"/lists/{one}/people/{jane}/erase"
    assert_shows(house.owner.get(page), "2 entries on lists")
    with house.unchanged():
        assert house.owner.post(page).status_code == 422
    house.member.post(page, by=["address", "email"])
    assert [each["id"] for each in house.account.get("/recipients").json()["data"]] == [stays]
    assert house.acts()[0] == "person.erased"


def test_a_list_is_changed_exported_merged_and_ended(house: AccountPages) -> None:
    list_id, other = make_list(house, "Spring", 2), make_list(house, "All")
    at = f"/lists/{list_id}"
    page, key = house.owner.get(f"{at}/settings"), read(house, list_id)["api_key"]
    assert_shows(page, "write it into no page that visitors open", f"/hooks/lists/{key}")
    wrong = house.owner.post(f"{at}/settings", description="x", is_suppression_list="on", suppress_by="email")
    assert (wrong.status_code, "2 on this list have no e-mail" in wrong.text) == (422, True)
    changed = {"description": "Spring 2026", "qrcode_url": "https://example.com/w", "is_suppression_list": False}
    house.owner.post(f"{at}/settings", **changed | {"is_suppression_list": ""})  # type: ignore[arg-type]
    assert changed.items() <= read(house, list_id).items()
    assert house.owner.get(f"{at}/key").status_code == 200
    assert read(house, list_id)["api_key"] == key
    house.owner.post(f"{at}/key")
    assert read(house, list_id)["api_key"] != key
    assert house.acts()[0] == "list.key"
    exported = house.owner.get(f"{at}/export.csv")
    assert exported.text == house.account.get(f"/mailing-lists/{list_id}/export").text
    assert exported.headers["Cache-Control"] == "no-store"
    assert house.acts()[:3] == ["list.exported", "list.exported", "list.key"]
    assert_shows(house.owner.post(f"{at}/dedupe"), "There were no doubles.")
    assert house.owner.post(f"{at}/merge", into=list_id).status_code == 422
    merged = house.owner.post(f"{at}/merge", into=other, follow=False)
    assert merged.headers["Location"].startswith(f"/lists/{other}?")
    assert house.owner.get(at).status_code == 404
    sent = house.account.send(recipients=None, mailing_list_ids=[other], schedule_for="2026-06-04T12:00:00Z")
    assert sent.status_code == 200, sent.text
    assert_shows(house.owner.post(f"/lists/{other}/delete"), "waits to be sent to this list", status=400)
    house.account.call("DELETE", f"/orders/{sent.json()['id']}")
    assert_shows(house.owner.get(f"/lists/{other}/delete"), "The 2 people on it")


@pytest.mark.usefixtures("clean_database")
def test_pasted_rows_are_imported_and_a_page_says_how_it_went(house: AccountPages, subtests: pytest.Subtests) -> None:
    assert house.owner.post("/lists/paste", rows=" ").status_code == 422
    looked = house.owner.post("/lists/paste", description="Pasted", rows=PASTED, step="look")
    assert looked.status_code == 200
    assert re.search(r'name="column-1".*?value="address" selected', looked.text, re.DOTALL)
    chosen: dict[str, Any] = {f"column-{n}": name for n, name in enumerate(COLUMNS)}
    good = {"description": "Pasted", "rows": PASTED, "step": "import", "header": "on", **chosen}
    house.refuses_forms(
        subtests, "/lists/paste", good,
        [
            (dict.fromkeys(chosen, "address"), "column-1", "Another column is “Street address” already."),
            (dict.fromkeys(chosen, ""), "mapping", "Choose which column is the street, or at least the e-mail."),
            ({"description": ""}, "description", ""),
        ],
    )  # fmt: skip
    page = house.owner.post("/lists/paste", follow=False, **good).headers["Location"]
    assert_shows(house.owner.get(page), "Waiting for its turn", f'data-live="{page}/live"')
    assert_hides(house.owner.get(f"{page}/live"), "event: over")
    run_due_jobs(house.parts)
    assert_shows(house.owner.get(page), "Give an address, or at least an email.", hides=["data-live"])
    assert_shows(house.owner.get(f"{page}/live"), "event: state", "event: over\ndata: done")
    assert_shows(house.owner.get(f"{page}/rejected.csv"), "Nobody")
    assert house.owner.get(f"{page}/cancel", follow=False).headers["Location"] == page
    [made] = house.account.get("/mailing-lists").json()["data"]
    assert (made["description"], made["total_recipients"]) == ("Pasted", 1)
    assert_shows(house.owner.get(f"/lists/{made['id']}/imports"), page)
    row: dict[str, Any] = {"list": made["id"], "rows": "Jane,3 Oak St,Austin,TX,78701", "step": "import"}
    more = house.owner.post("/lists/paste", follow=False, **row, **chosen)
    assert_shows(house.owner.post(f"{more.headers['Location']}/cancel"), "The import is stopped.")
    run_due_jobs(house.parts)
    assert read(house, made["id"])["total_recipients"] == 1


@pytest.mark.usefixtures("clean_database")
def test_an_import_without_streets_warns_that_nobody_can_be_mailed(house: AccountPages) -> None:
    rows = "Vorname;Strasse;E-Mail\nJana;Lindenweg;jana@example.com\nUwe;Am Markt;uwe@example.com"
    form: dict[str, Any] = {"description": "Kunden", "rows": rows}
    warning = "No column is the street: nobody of these can be mailed to."
    assert_shows(house.owner.post("/lists/paste", **form, step="look"), warning)
    suppression_list = make_list(house, "Never again", is_suppression_list=True)
    assert_hides(house.owner.post("/lists/paste", **form, list=suppression_list, step="look"), warning)
    begun = house.owner.post("/lists/paste", **form, step="import", follow=False)
    run_due_jobs(house.parts)
    done = house.owner.get(begun.headers["Location"])
    assert_shows(done, "None of these 2 people can be mailed to", hides=["Write to this list"])


def test_the_page_says_whether_somebody_is_suppressed(house: AccountPages) -> None:
    suppression_list = make_list(house, "Never again", is_suppression_list=True)
    add(house, suppression_list)
    here, elsewhere = "12 main street, Austin TX 78701", "13 Main St, Austin, TX 78701"
    yes = house.owner.post("/lists/suppression", address=here)
    assert_shows(yes.text.split('class="verdict"')[1], f'<a href="/lists/{suppression_list}">Never again</a>')
    for browser, address, words in (
        (house.owner, here, "Yes: nothing is mailed to them."), (house.owner, elsewhere, "No: mail to them goes out."),
        (house.limited, here, "Yes: nothing"), (house.stranger, here, "No: mail"),
    ):  # fmt: skip
        assert_shows(browser.post("/lists/suppression", address=address), words)
    wrong = house.owner.post("/lists/suppression", email="jane")
    assert (wrong.status_code, set(form_errors(wrong))) == (422, {"email"})
    assert_hides(house.limited.get("/lists/suppression"), "Never again")


def test_addresses_nearby_are_counted_and_bought_once_for_the_price_that_was_shown(house: AccountPages) -> None:
    search: dict[str, Any] = {
        "address": "1100 Congress Ave, Austin, TX 78701", "record_count": "3", "condos": "on", "businesses": "on",
    }  # fmt: skip
    refused = house.owner.post("/lists/radius", **search | {"record_count": "no"})
    assert (refused.status_code, set(form_errors(refused))) == (422, {"record_count"})
    counted = house.owner.post("/lists/radius", **search).text
    assert_shows(counted, "3 addresses for $0.15")
    buying = counted.split('action="/lists/radius/buy"')[1].split("</form>")[0]
    assert_shows(buying, f'name="address" value="{search["address"]}"')
    assert_shows(house.owner.post("/lists/radius/buy", **search, shown="10"), "The price has changed")
    assert house.account.get("/mailing-lists").json()["data"] == []
    order: dict[str, Any] = search | {"shown": "15", "once": "b" * 22}
    assert house.owner.post("/lists/radius/buy", follow=False, **order).status_code == 303
    assert house.owner.post("/lists/radius/buy", **order).status_code == 409
    [made] = house.account.get("/mailing-lists").json()["data"]
    assert (made["type"], made["total_recipients"]) == ("map", 3)


FORM: dict[str, Any] = {
    "name": "Birthdays", "trigger": "date", "date_field": "dob", "days": "7", "side": "before", "daily_limit": "500",
    "piece": "postcard-6x9", "message": "Happy birthday, %FIRST_NAME%!\r\nYours", "style": "1", "manner": "natural",
    "image": "",
}  # fmt: skip
MADE = {"message": "Happy birthday, %FIRST_NAME%!\nYours", "handwriting_style": 1, "handwriting_manner": "natural"}


def make_birthday_list(house: AccountPages) -> int:
    made = int(house.account.post("/mailing-lists", {"description": "Customers"}).json()["id"])
    house.account.post("/recipients", person(dob="1980-05-20") | {"mailing_list_id": made})
    return made


def make_automation(house: AccountPages, list_id: int, **fields: Any) -> int:
    send = {"piece": "postcard", "message": "Hi %FIRST_NAME%!"}
    body = {"name": "Welcome", "trigger": "list_entry", "mailing_list_id": list_id, "send": send} | fields
    made = house.account.post("/automations", body)
    assert made.status_code == 201, made.text
    return int(made.json()["id"])


def read_automation(house: AccountPages, automation: int) -> dict[str, Any]:
    found: dict[str, Any] = house.account.get(f"/automations/{automation}").json()
    return found


def test_one_is_made_by_the_form_and_once(house: AccountPages) -> None:
    assert_shows(house.owner.get("/automations"), "Mail that sends itself")
    assert re.search(r'<form class="form automation-form"[^>]* novalidate', house.owner.get("/automations/new").text)
    customers = make_birthday_list(house)
    typed = FORM | {"mailing_list_id": customers, "once": create_one_time_key()}
    assert_shows(house.member.post("/automations/new", **typed), "The automation is made.")
    assert house.member.post("/automations/new", **typed).status_code == 409
    [found] = house.account.get("/automations").json()["data"]
    assert (found["trigger"], found["date_field"], found["days_offset"]) == ("date", "dob", -7)
    assert (found["mailing_list_id"], found["daily_limit"], found["enabled"]) == (customers, 500, False)
    assert found["send"] == {"piece": "postcard", "size": "6x9"} | MADE
    assert_shows(house.owner.get("/automations"), "7 days before somebody on Customers has their birthday: a postcard.")


def test_errors_are_beside_their_fields_and_nothing_is_stored(house: AccountPages, subtests: pytest.Subtests) -> None:
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
    assert (
        house.stranger.post("/automations/new", **FORM | {"mailing_list_id": make_birthday_list(house)}).status_code
        == 422
    )


def test_a_change_keeps_what_the_form_does_not_show(house: AccountPages) -> None:
    customers = make_birthday_list(house)
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
    found = read_automation(house, automation)
    assert (found["name"], found["date_field"], found["days_offset"]) == ("Birthdays", None, 0)
    assert found["send"] == {"piece": "notecard", "metadata": {"flow": 1.5}} | MADE


def test_it_is_looked_at_switched_and_ended(house: AccountPages) -> None:
    automation = make_automation(house, make_birthday_list(house))
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
    assert not read_automation(house, automation)["enabled"]
    for act, is_enabled in (("on", True), ("off", False)):
        house.owner.post(f"{page}/{act}")
        assert read_automation(house, automation)["enabled"] is is_enabled
    assert_shows(house.owner.get(f"{page}/delete"), "Whoever is due gets nothing.")
    house.owner.post(f"{page}/delete")
    assert house.account.get(page).status_code == 404


def test_every_trigger_is_described_in_a_sentence(house: AccountPages) -> None:
    automation = make_automation(house, make_birthday_list(house))
    with house.parts.db.transaction(Tenant(house.account.id, None)) as tx:
        plain = automation_queries.read_automation(tx, automation)
    date = replace(plain, trigger="date", date_field="anniversary")
    for which, list_name, sentence in (
        (replace(plain, trigger="scan"), None, "When somebody scans the QR code of any of your mail: a postcard."),
        (replace(date, days_offset=1), "Friends", "1 day after somebody on Friends has their anniversary: a postcard."),
        (date, "Friends", "On the day that somebody on Friends has their anniversary: a postcard."),
    ):
        assert describe_automation(which, list_name) == sentence
