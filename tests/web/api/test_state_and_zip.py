"""`state` and `zip` beside `province` and `postal_code`, in every body that has a recipient."""

import pytest
from httpx2 import Response

from quillpost.app.container import Container
from quillpost.web.api.responses import IGNORED_HEADER
from support.factories import Account, Clock, postcard, run_jobs_for
from support.mailing_lists import ListOwner

THEIRS = {"name": "Jane Doe", "address": "12 Main St", "city": "Austin", "state": "TX", "zip": "78701"}
OURS = {"province": "TX", "postal_code": "78701"}
BOTH = THEIRS | OURS | {"state": "CA", "zip": "90210"}
NULLS = THEIRS | {"province": None, "postal_code": None}


def taken(answer: Response, *path: str | int) -> tuple[dict[str, str], str | None]:
    """The recipient's place as we call it, and what the answer says was not needed."""
    row = answer.json()
    for step in path:
        row = row[step]
    return {name: row[name] for name in OURS}, answer.headers.get(IGNORED_HEADER)


def test_sends_take_them_unless_the_specified_names_are_there(owner: Account) -> None:
    """Null beside another name is as good as left out."""
    both = "recipients.*.state, recipients.*.zip"
    for whom, ignored in ((THEIRS, None), (NULLS, None), (BOTH, both)):
        sent = owner.send(recipients=[whom])
        assert (sent.status_code, taken(sent, "recipients", 0)) == (200, (OURS, ignored))
        items = owner.get(f"/orders/{sent.json()['id']}/items")
        assert taken(items, "data", 0, "recipient") == (OURS, None)
    assert owner.post("/estimate/postcard", postcard(recipients=[THEIRS])).json()["data"]["total_recipients"] == 1
    wrong = owner.send(recipients=[THEIRS | {"zip": "7870"}])
    assert "recipients.0.postal_code" in wrong.json()["errors"]


def test_recipients_are_made_changed_and_removed_with_them(owner: Account, lists: ListOwner) -> None:
    here = {"mailing_list_id": lists.make()}
    assert taken(owner.post("/recipients", BOTH | {"mailing_list_id": lists.make()})) == (OURS, "state, zip")
    made = owner.post("/recipients", THEIRS | here)
    assert (made.status_code, taken(made)) == (201, (OURS, None))
    path = f"/recipients/{made.json()['id']}"
    dallas = {"address": "9 Oak Ave", "city": "Dallas", "state": "TX", "zip": "75201"}
    assert taken(owner.put(path, dallas))[0] == {"province": "TX", "postal_code": "75201"}
    moved = owner.put(path, {"province": None, "state": "CA"})
    assert (moved.status_code, moved.json()["province"]) == (200, "CA")
    assert owner.put(path, {"province": None}).json()["province"] is None
    assert taken(owner.post("/recipients", NULLS | here)) == (OURS, None)
    elsewhere = {"mailing_list_id": None, "mailing_list": here["mailing_list_id"], "address": "11 Oak Ave"}
    many = owner.post("/recipients_multi", [NULLS | elsewhere, THEIRS | here | {"zip": "1"}])
    assert taken(many, 0) == (OURS, None)
    assert (many.json()[1]["zip"], "error" in many.json()[1]) == ("1", True)
    gone = owner.post("/recipients-utils/delete-by-address", THEIRS | here)
    assert (gone.status_code, gone.headers.get(IGNORED_HEADER)) == (200, "name")
    erased = owner.post("/recipients/erase", {name: THEIRS[name] for name in THEIRS if name != "name"})
    assert (erased.status_code, erased.headers.get(IGNORED_HEADER)) == (200, None)


def test_a_hook_prefers_the_specified_names(owner: Account, lists: ListOwner) -> None:
    hook = f"/hooks/lists/{lists.read(lists.make())['api_key']}"
    for whom in (BOTH, THEIRS | {"address": "14 Main St"}):
        assert taken(owner.http.post(hook, json=whom), 0)[0] == OURS


@pytest.mark.usefixtures("clean_database")
def test_a_replay_takes_them(owner: Account, container: Container, clock: Clock) -> None:
    order = owner.send().json()["id"]
    run_jobs_for(container, clock, seconds=45)
    again = owner.post(f"/orders/{order}/replay", {"recipients": [THEIRS | {"address": "3 Elm St"}]})
    assert (again.status_code, taken(again, "recipients", 0)[0]) == (200, OURS)
