"""Lists on pages: seen, searched, made, changed, merged and ended, by whoever may and by nobody else."""

import re
from typing import Any

import pytest

from quillpost.accounts.audit.service import list_audit_entries
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from support.account_pages import AccountPages
from support.factories import make_teammate, people, person, run_due_jobs
from support.test_client import TestClient

PASTED = """Customer\tStreet\tTown\tST\tZIP code
Jane Doe\t12 Main St\tAustin\tTX\t78701
Nobody\t\tAustin\tTX\t78701
"""


@pytest.fixture
def house(container: Container, http: TestClient) -> AccountPages:
    return AccountPages(container, http)


def make_list(house: AccountPages, name: str = "Customers", how_many: int = 0, **fields: object) -> int:
    made = house.account.post("/mailing-lists", {"description": name, **fields}).json()["id"]
    rows = [each | {"mailing_list_id": made} for each in people(how_many)]
    if rows:
        house.account.post("/recipients-utils/create-multiple", rows)
    return int(made)


def add(house: AccountPages, list_id: int, **fields: object) -> int:
    answer = house.account.post("/recipients", person(**fields) | {"mailing_list_id": list_id})
    assert answer.status_code == 201, answer.text
    return int(answer.json()["id"])


def acts(house: AccountPages) -> list[str]:
    with house.parts.db.transaction(Tenant(house.account.id, None)) as tx:
        return [entry.act for entry in list_audit_entries(tx, house.account.id, limit=50)]


def test_the_page_shows_all_lists_and_teaches_whoever_has_none(house: AccountPages) -> None:
    assert "Whom do you write to?" in house.owner.get("/lists").text
    first, _ = make_list(house, "Spring customers", 3), make_list(house, "Autumn", 0)
    make_list(house, "Never again", is_suppression_list=True)
    shown = house.owner.get("/lists").text
    assert "Whom do you write to?" not in shown
    assert f'href="/lists/{first}">Spring customers<' in shown
    assert re.search(r'data-label="People">3<', shown)
    assert "Never again" not in shown
    assert "You have 1 suppression list" in shown
    found = house.owner.get("/lists?query=SPRING&page=what").text
    assert ("Spring customers" in found, "Autumn" in found) == (True, False)
    assert "No list is called so" in house.owner.get("/lists?query=%25").text
    suppression_page = house.owner.get("/lists/suppression").text
    assert ("Never again" in suppression_page, "Autumn" in suppression_page) == (True, False)


def test_a_list_is_created_once_and_errors_are_shown_beside_their_fields(house: AccountPages) -> None:
    before = house.everything()["mailing_lists"]
    refused = house.owner.post("/lists/new", description=" ", qrcode_url="nowhere", is_suppression_list="")
    assert refused.status_code == 422
    assert "Give the list a description." in refused.text
    assert 'id="description-fault"' in refused.text
    refused = house.owner.post("/lists/new", description="Mine", qrcode_url="nowhere")
    assert (refused.status_code, 'id="qrcode_url-fault"' in refused.text) == (422, True)
    assert 'value="nowhere"' in refused.text
    assert house.everything()["mailing_lists"] == before
    how: dict[str, Any] = {
        "description": "Barred",
        "is_suppression_list": "on",
        "suppress_by": "household",
        "once": "k" * 22,
    }
    made = house.member.post("/lists/new", follow=False, **how)
    assert made.status_code == 303
    assert house.member.post("/lists/new", **how).status_code == 409
    assert house.everything()["mailing_lists"] == before + 1
    page = house.owner.get(made.headers["Location"]).text
    assert "The list is made." in page
    assert "Nobody on this list is mailed to." in page


def test_people_are_found_by_any_part_on_a_short_list_and_by_beginnings_on_a_long_one(
    house: AccountPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_id = make_list(house, how_many=2)
    add(house, list_id, name="Zoë O'Hara", address="7 North-Gate Rd", email="Zoe@Example.com")
    elsewhere = make_list(house, "Elsewhere")
    add(house, elsewhere, name="Zoltan", address="9 North-Gate Rd", email="zoe@example.com")

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
    assert "type how a name or a street address begins" in house.owner.get(f"/lists/{list_id}").text


def test_somebody_is_added_changed_and_taken_off_with_every_field(house: AccountPages) -> None:
    list_id = make_list(house)
    new = f"/lists/{list_id}/people/new"
    half = house.owner.post(new, name="Jane", postal_code="12", address="12 Main St", city="Austin", province="TX")
    assert (half.status_code, 'id="postal_code-fault"' in half.text) == (422, True)
    nothing = house.owner.post(new, name="Jane", dob="tomorrow")
    assert {'id="address-fault"' in nothing.text, 'id="dob-fault"' in nothing.text} == {True}
    fields = person(email="jane@example.com", dob="1980-02-29", anniversary="2001-05-04", custom10="a blue door")
    added = house.owner.post(new, follow=False, **fields, then="another")
    assert added.headers["Location"] == f"{new}?said=recipient_added"
    again = house.owner.post(new, **fields)
    assert (again.status_code, "already on this mailing list" in again.text) == (422, True)
    [one] = house.account.get(f"/mailing-lists/{list_id}/recipients").json()["data"]
    assert (one["custom10"], one["dob"], one["anniversary"]) == ("a blue door", "1980-02-29", "2001-05-04")
    page = f"/lists/{list_id}/people/{one['id']}"
    shown = house.owner.get(page).text
    assert 'value="a blue door"' in shown
    house.owner.post(page, name="Jane Roe", address="9 Oak Ave, Dallas, TX 75201", email="jane@example.com")
    [changed] = house.account.get(f"/mailing-lists/{list_id}/recipients").json()["data"]
    assert (changed["name"], changed["city"], changed["custom10"]) == ("Jane Roe", "Dallas", None)
    assert house.owner.get(f"{page}/remove").status_code == 200
    assert house.account.get(f"/recipients/{one['id']}").status_code == 200
    house.owner.post(f"{page}/remove")
    assert house.account.get(f"/recipients/{one['id']}").status_code == 404


def test_a_bad_address_says_why_on_its_list_and_on_its_page(house: AccountPages) -> None:
    list_id = make_list(house)
    half = add(house, list_id, name="Half", address="12 Main St", city=None, province=None, postal_code=None)
    for page in (f"/lists/{list_id}", f"/lists/{list_id}/people/{half}"):
        shown = house.owner.get(page).text
        assert "Not deliverable" in shown
        assert "The address lacks its city, state or ZIP code." in shown


def test_erasing_asks_by_what_and_takes_the_person_off_every_list(house: AccountPages) -> None:
    one, other = make_list(house, "One"), make_list(house, "Other")
    jane = add(house, one, email="jane@example.com")
    add(house, other, address="99 Elm St", email="JANE@example.com")
    stays = add(house, other, address="98 Elm St", email="rick@example.com")
    page = f"/lists/{one}/people/{jane}/erase"
    assert "2 entries on lists" in house.owner.get(page).text
    before = house.everything()
    assert house.owner.post(page).status_code == 422
    assert house.everything() == before
    house.member.post(page, by=["address", "email"])
    left = house.account.get("/recipients").json()["data"]
    assert [each["id"] for each in left] == [stays]
    assert acts(house)[0] == "person.erased"


def test_settings_keep_what_was_typed_merge_and_end(house: AccountPages) -> None:
    list_id, other = make_list(house, "Spring", 2), make_list(house, "All")
    settings = f"/lists/{list_id}/settings"
    page = house.owner.get(settings).text
    assert "write it into no page that visitors open" in page
    key = house.account.get(f"/mailing-lists/{list_id}").json()["api_key"]
    assert f"/hooks/lists/{key}" in page
    wrong = house.owner.post(settings, description="x", is_suppression_list="on", suppress_by="email")
    assert wrong.status_code == 422
    assert "2 on this list have no e-mail" in wrong.text
    house.owner.post(settings, description="Spring 2026", qrcode_url="https://example.com/w", is_suppression_list="")
    now = house.account.get(f"/mailing-lists/{list_id}").json()
    assert (now["description"], now["qrcode_url"], now["is_suppression_list"]) == (
        "Spring 2026", "https://example.com/w", False,
    )  # fmt: skip
    assert house.owner.get(f"/lists/{list_id}/key").status_code == 200
    assert house.account.get(f"/mailing-lists/{list_id}").json()["api_key"] == key
    house.owner.post(f"/lists/{list_id}/key")
    assert house.account.get(f"/mailing-lists/{list_id}").json()["api_key"] != key
    assert acts(house)[0] == "list.key"
    assert "There were no doubles." in house.owner.post(f"/lists/{list_id}/dedupe").text
    assert house.owner.post(f"/lists/{list_id}/merge", into=list_id).status_code == 422
    merged = house.owner.post(f"/lists/{list_id}/merge", into=other, follow=False)
    assert merged.headers["Location"].startswith(f"/lists/{other}?")
    assert house.owner.get(f"/lists/{list_id}").status_code == 404
    sent = house.account.send(recipients=None, mailing_list_ids=[other], schedule_for="2026-06-04T12:00:00Z")
    assert sent.status_code == 200, sent.text
    refused = house.owner.post(f"/lists/{other}/delete")
    assert (refused.status_code, "waits to be sent to this list" in refused.text) == (400, True)
    house.account.call("DELETE", f"/orders/{sent.json()['id']}")
    assert "The 2 people on it" in house.owner.get(f"/lists/{other}/delete").text


def test_a_list_is_exported_as_the_api_does_and_that_is_noted(house: AccountPages) -> None:
    list_id = make_list(house, how_many=2)
    answer = house.owner.get(f"/lists/{list_id}/export.csv")
    assert answer.text == house.account.get(f"/mailing-lists/{list_id}/export").text
    assert answer.headers["Cache-Control"] == "no-store"
    assert acts(house)[:2] == ["list.exported", "list.exported"]


@pytest.mark.usefixtures("conninfo")
def test_rows_are_pasted_looked_at_and_imported_with_a_page_that_says_how_it_went(house: AccountPages) -> None:
    rows = PASTED
    assert house.owner.post("/lists/paste", rows=" ").status_code == 422
    looked = house.owner.post("/lists/paste", description="Pasted", rows=rows, step="look")
    assert looked.status_code == 200
    assert re.search(r'name="column-1".*?value="address" selected', looked.text, re.DOTALL)
    before = house.everything()
    twice: dict[str, Any] = {f"column-{n}": "address" for n in range(5)}
    wrong = house.owner.post("/lists/paste", description="P", rows=rows, step="import", header="on", **twice)
    assert wrong.status_code == 422
    assert 'id="column-1-fault" role="alert">Another column is “Street address” already.<' in wrong.text
    nowhere: dict[str, Any] = dict.fromkeys(twice, "")
    vague = house.owner.post("/lists/paste", description="P", rows=rows, step="import", header="on", **nowhere)
    assert "Choose which column is the street, or at least the e-mail." in vague.text
    chosen: dict[str, Any] = dict(
        zip((f"column-{n}" for n in range(5)), ("name", "address", "city", "province", "postal_code"), strict=True)
    )
    unnamed = house.owner.post("/lists/paste", rows=rows, step="import", header="on", **chosen)
    assert (unnamed.status_code, 'id="description-fault"' in unnamed.text) == (422, True)
    assert house.everything() == before
    begun = house.owner.post(
        "/lists/paste", description="Pasted", rows=rows, step="import", header="on", follow=False, **chosen
    )
    page = begun.headers["Location"]
    waits = house.owner.get(page).text
    assert "Waiting for its turn" in waits
    assert f'data-live="{page}/live"' in waits
    assert "event: over" not in house.owner.get(f"{page}/live").text
    run_due_jobs(house.parts)
    done = house.owner.get(page).text
    assert "Give an address, or at least an email." in done
    assert "data-live" not in done
    live = house.owner.get(f"{page}/live").text
    assert ("event: state" in live, "event: over\ndata: done" in live) == (True, True)
    assert "Nobody" in house.owner.get(f"{page}/rejected.csv").text
    assert house.owner.get(f"{page}/cancel", follow=False).headers["Location"] == page
    [made] = house.account.get("/mailing-lists").json()["data"]
    assert (made["description"], made["total_recipients"]) == ("Pasted", 1)
    assert page in house.owner.get(f"/lists/{made['id']}/imports").text
    more = house.owner.post(
        "/lists/paste", list=made["id"], rows="Jane,3 Oak St,Austin,TX,78701", step="import", follow=False, **chosen
    )
    stopped = house.owner.post(f"{more.headers['Location']}/cancel").text
    assert "The import is stopped." in stopped
    run_due_jobs(house.parts)
    assert house.account.get(f"/mailing-lists/{made['id']}").json()["total_recipients"] == 1


@pytest.mark.usefixtures("conninfo")
def test_an_import_without_streets_warns_that_nobody_can_be_mailed(house: AccountPages) -> None:
    rows = "Vorname;Strasse;E-Mail\nJana;Lindenweg;jana@example.com\nUwe;Am Markt;uwe@example.com"
    form: dict[str, Any] = {"description": "Kunden", "rows": rows}
    warning = "No column is the street: nobody of these can be mailed to."
    assert warning in house.owner.post("/lists/paste", **form, step="look").text
    suppression_list = make_list(house, "Never again", is_suppression_list=True)
    assert warning not in house.owner.post("/lists/paste", **form, list=suppression_list, step="look").text
    begun = house.owner.post("/lists/paste", **form, step="import", follow=False)
    run_due_jobs(house.parts)
    done = house.owner.get(begun.headers["Location"]).text
    assert "None of these 2 people can be mailed to" in done
    assert "Write to this list" not in done


def test_the_page_says_whether_somebody_is_suppressed(house: AccountPages) -> None:
    suppression_list = make_list(house, "Never again", is_suppression_list=True)
    add(house, suppression_list)
    yes = house.owner.post("/lists/suppression", address="12 main street, Austin TX 78701").text
    assert "Yes: nothing is mailed to them." in yes
    assert f'<a href="/lists/{suppression_list}">Never again</a>' in yes.split('class="verdict"')[1]
    no = house.owner.post("/lists/suppression", address="13 Main St, Austin, TX 78701").text
    assert "No: mail to them goes out." in no
    wrong = house.owner.post("/lists/suppression", email="jane")
    assert (wrong.status_code, 'id="email-fault"' in wrong.text) == (422, True)
    assert "Yes: nothing" in house.limited.post("/lists/suppression", address="12 Main St, Austin, TX 78701").text
    assert "Never again" not in house.limited.get("/lists/suppression").text
    assert "No: mail" in house.stranger.post("/lists/suppression", address="12 Main St, Austin, TX 78701").text


def test_addresses_nearby_are_counted_and_bought_once_for_the_price_that_was_shown(house: AccountPages) -> None:
    order_request: dict[str, Any] = {
        "address": "1100 Congress Ave, Austin, TX 78701",
        "record_count": "3",
        "condos": "on",
        "businesses": "on",
    }
    refused = house.owner.post("/lists/radius", **order_request | {"record_count": "no"})
    assert (refused.status_code, 'id="record_count-fault"' in refused.text) == (422, True)
    counted = house.owner.post("/lists/radius", **order_request).text
    assert "3 addresses for $0.15" in counted
    buying = counted.split('action="/lists/radius/buy"')[1].split("</form>")[0]
    assert f'name="address" value="{order_request["address"]}"' in buying
    before = house.everything()["mailing_lists"]
    dearer = house.owner.post("/lists/radius/buy", **order_request, shown="10")
    assert "The price has changed" in dearer.text
    assert house.everything()["mailing_lists"] == before
    how: dict[str, Any] = order_request | {"shown": "15", "once": "b" * 22}
    bought = house.owner.post("/lists/radius/buy", follow=False, **how)
    assert bought.status_code == 303
    assert house.owner.post("/lists/radius/buy", **how).status_code == 409
    [made] = house.account.get("/mailing-lists").json()["data"]
    assert (made["type"], made["total_recipients"]) == ("map", 3)


def test_whoever_is_another_or_limited_sees_nothing_of_it(house: AccountPages) -> None:
    list_id = make_list(house, "Secret customers", 1)
    [one] = house.account.get(f"/mailing-lists/{list_id}/recipients").json()["data"]
    work = house.account.post(
        f"/mailing-lists/{list_id}/import",
        headers={"Content-Type": "text/csv"},
        content=b"Name,Email\nA,a@example.com\n",
    ).json()["id"]
    pages = [
        *(f"/lists/{list_id}{tab}" for tab in ("", "/imports", "/settings", "/merge", "/key", "/delete", "/dedupe")),
        *(f"/lists/{list_id}{tab}" for tab in ("/export.csv", "/people/new")),
        *(f"/lists/{list_id}/people/{one['id']}{act}" for act in ("", "/remove", "/erase")),
    ]
    imports = [f"/lists/imports/{work}{act}" for act in ("", "/live", "/cancel", "/rejected.csv")]
    others = (house.stranger, house.limited)
    before = house.everything()
    for browser in others:
        for page in pages:
            assert house.is_as_if_unknown(browser, page, list_id), page
        for page in imports:
            assert house.is_as_if_unknown(browser, page, work), page
        for page in ("/lists/import", "/lists/paste", "/lists/radius"):
            assert browser.get(f"{page}?list={list_id}").status_code == 404
        for act in ("settings", "merge", "key", "delete", "dedupe", "people/new", f"people/{one['id']}/remove"):
            assert browser.post(f"/lists/{list_id}/{act}", description="x", into="1", name="x").status_code == 404
        assert browser.post(f"/lists/imports/{work}/cancel").status_code == 404
        assert "Secret customers" not in browser.get("/lists").text
    assert house.everything() == before
    own = make_list(house, "Empty")
    assert house.is_as_if_unknown(house.owner, f"/lists/{own}/people/{one['id']}", one["id"])
    teammate = make_teammate(house.parts, house.account, house.branch)
    theirs = teammate.post("/mailing-lists", {"description": "Dallas customers"}).json()["id"]
    assert "Dallas customers" in house.limited.get("/lists").text
    assert house.limited.get(f"/lists/{theirs}").status_code == 200
