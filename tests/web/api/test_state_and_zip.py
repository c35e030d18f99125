"""`state` and `zip` beside `province` and `postal_code`, in every body that has a recipient."""

from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.web.api.responses import IGNORED_HEADER
from support.factories import Account, Clock, postcard, run_jobs_for
from support.mailing_lists import ListOwner

THEIRS = {"name": "Jane Doe", "address": "12 Main St", "city": "Austin", "state": "TX", "zip": "78701"}
OURS = {"province": "TX", "postal_code": "78701"}


def shown(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in OURS}


def test_a_send_takes_them(owner: Account) -> None:
    sent = owner.send(recipients=[THEIRS])
    assert (sent.status_code, sent.headers.get(IGNORED_HEADER)) == (200, None)
    assert shown(sent.json()["recipients"][0]) == OURS
    [item] = owner.get(f"/orders/{sent.json()['id']}/items").json()["data"]
    assert shown(item["recipient"]) == OURS
    assert owner.post("/estimate/postcard", postcard(recipients=[THEIRS])).json()["data"]["total_recipients"] == 1
    wrong = owner.send(recipients=[THEIRS | {"zip": "7870"}])
    assert "recipients.0.postal_code" in wrong.json()["errors"]


def test_the_specified_names_win_and_the_others_are_named(owner: Account) -> None:
    both = THEIRS | OURS | {"state": "CA", "zip": "90210"}
    sent = owner.send(recipients=[both])
    assert shown(sent.json()["recipients"][0]) == OURS
    assert sent.headers[IGNORED_HEADER] == "recipients.*.state, recipients.*.zip"
    lister = ListOwner(owner)
    made = owner.post("/recipients", both | {"mailing_list_id": lister.make()})
    assert (shown(made.json()), made.headers[IGNORED_HEADER]) == (OURS, "state, zip")


def test_null_beside_another_name_is_as_good_as_left_out(owner: Account) -> None:
    nulls = THEIRS | {"province": None, "postal_code": None}
    sent = owner.send(recipients=[nulls])
    assert (sent.status_code, sent.headers.get(IGNORED_HEADER)) == (200, None)
    assert shown(sent.json()["recipients"][0]) == OURS
    list_id = ListOwner(owner).make()
    made = owner.post("/recipients", nulls | {"mailing_list_id": list_id})
    assert (shown(made.json()), made.headers.get(IGNORED_HEADER)) == (OURS, None)
    other = {"mailing_list_id": None, "mailing_list": list_id, "address": "9 Oak Ave"}
    many = owner.post("/recipients_multi", [nulls | other])
    assert (shown(many.json()[0]), many.headers.get(IGNORED_HEADER)) == (OURS, None)
    moved = owner.put(f"/recipients/{made.json()['id']}", {"province": None, "state": "CA"})
    assert (moved.status_code, moved.json()["province"]) == (200, "CA")
    assert owner.put(f"/recipients/{made.json()['id']}", {"province": None}).json()["province"] is None


def test_recipients_are_made_changed_and_removed_with_them(owner: Account) -> None:
    lister = ListOwner(owner)
    list_id = lister.make()
    made = owner.post("/recipients", THEIRS | {"mailing_list_id": list_id})
    assert (made.status_code, shown(made.json()), made.headers.get(IGNORED_HEADER)) == (201, OURS, None)
    moved = owner.put(
        f"/recipients/{made.json()['id']}", {"address": "9 Oak Ave", "city": "Dallas", "state": "TX", "zip": "75201"}
    )
    assert shown(moved.json()) == {"province": "TX", "postal_code": "75201"}
    rows = [THEIRS | {"mailing_list": list_id}, THEIRS | {"mailing_list_id": list_id, "zip": "1"}]
    many = owner.post("/recipients_multi", rows)
    assert (shown(many.json()[0]), many.headers.get(IGNORED_HEADER)) == (OURS, None)
    assert (many.json()[1]["zip"], "error" in many.json()[1]) == ("1", True)
    gone = owner.post("/recipients-utils/delete-by-address", THEIRS | {"mailing_list_id": list_id})
    assert (gone.status_code, gone.headers.get(IGNORED_HEADER)) == (200, "name")
    whole = {name: THEIRS[name] for name in THEIRS if name != "name"}
    erased = owner.post("/recipients/erase", whole)
    assert (erased.status_code, erased.headers.get(IGNORED_HEADER)) == (200, None)


def test_a_hook_prefers_the_specified_names(owner: Account) -> None:
    lister = ListOwner(owner)
    key = lister.read(lister.make())["api_key"]
    both = THEIRS | OURS | {"state": "CA", "zip": "90210"}
    [row] = owner.http.post(f"/hooks/lists/{key}", json=both).json()
    assert shown(row) == OURS
    [other] = owner.http.post(f"/hooks/lists/{key}", json=THEIRS | {"address": "14 Main St"}).json()
    assert shown(other) == OURS


@pytest.mark.usefixtures("clean_database")
def test_a_replay_takes_them(owner: Account, container: Container, clock: Clock) -> None:
    order = owner.send().json()["id"]
    run_jobs_for(container, clock, seconds=45)
    again = owner.post(f"/orders/{order}/replay", {"recipients": [THEIRS | {"address": "3 Elm St"}]})
    assert (again.status_code, shown(again.json()["recipients"][0])) == (200, OURS)
