"""Sends to saved lists: who is counted, who becomes a piece, and who is told why not."""

from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import ledger_moves, mailing_lists
from support.factories import (
    Account,
    Clock,
    make_sub_account,
    make_teammate,
    people,
    person,
    postcard,
    read_warnings,
    run_due_jobs,
    run_jobs_for,
)
from support.traces import FORM, traces

pytestmark = pytest.mark.usefixtures("clean_database")

SAME = "Another recipient of this order has the same address."
NO_ADDRESS = "There is no mailing address, only an e-mail."
SUPPRESSED = "This address is on a suppression list."
REPEATED = "The same piece went to this address less than 36 hours ago."


def make_list(owner: Account, rows: list[dict[str, Any]], **fields: Any) -> int:
    made = owner.post("/mailing-lists", {"description": "Friends"} | fields)
    assert made.status_code == 201, made.text
    number = int(made.json()["id"])
    added = owner.post("/recipients-utils/create-multiple", [row | {"mailing_list_id": number} for row in rows])
    assert all("error" not in row for row in added.json()), added.text
    return number


def pieces(owner: Account, order: int) -> list[tuple[str, str, str | None]]:
    rows = owner.get(f"/orders/{order}/items?items_per_page=100").json()["data"]
    return [(row["recipient"]["name"], row["status"], row["failure"]) for row in rows]


def test_everyone_on_the_lists_gets_a_piece(owner: Account, container: Container, clock: Clock) -> None:
    first, second = make_list(owner, people(2)), make_list(owner, [person(name="Zoe", address="9 Oak Ave")])
    sent = owner.send(recipients=None, mailing_list_ids=[first, str(second)]).json()
    assert sent["mailing_list_ids_used"] == f"{first},{second}"
    assert (sent["total_estimated_recipients"], sent["authorization_total"], sent["recipients"]) == (3, 327, [])
    before = owner.get(f"/orders/{sent['id']}").json()
    assert (before["recipient_count"], before["total_recipients"]) == (3, 0)
    run_due_jobs(container)
    assert [name for name, *_ in pieces(owner, sent["id"])] == ["Person 1", "Person 2", "Zoe"]
    run_jobs_for(container, clock, seconds=45)
    assert {status for _, status, _ in pieces(owner, sent["id"])} == {"Delivered"}
    read = owner.get(f"/mailing-lists/{first}").json()
    assert (read["total_sends"], read["last_send"] is not None) == (2, True)


@pytest.mark.parametrize("name", ["mailing_list_ids", "mailing_lists"])
def test_the_lists_have_two_names(owner: Account, name: str) -> None:
    number = make_list(owner, [person()])
    assert owner.send(recipients=None, **{name: [number]}).json()["mailing_list_ids_used"] == str(number)


def test_recipients_and_lists_may_be_combined(owner: Account, container: Container) -> None:
    number = make_list(owner, [person(name="Jane again"), person(name="Zoe", address="9 Oak Ave")])
    sent = owner.send(mailing_list_ids=[number]).json()
    assert sent["total_estimated_recipients"] == 2
    assert [row["name"] for row in sent["recipients"]] == ["Jane Doe"]
    run_due_jobs(container)
    assert pieces(owner, sent["id"]) == [
        ("Jane Doe", "Processing", None),
        ("Jane again", "Failed", SAME),
        ("Zoe", "Processing", None),
    ]


def test_people_not_mailed_have_a_reason_and_cost_nothing(owner: Account, container: Container) -> None:
    make_list(owner, [person(address="3 Main St")], is_suppression_list=True)
    number = make_list(
        owner,
        [
            *people(3),
            {"name": "Mail only", "email": "m@example.com"},
            person(name="Far", country="CA", province="ON", postal_code="K1A 0B1"),
        ],
    )
    repeated = owner.send(recipients=[person(address="1 Main St")], allow_duplicates=False).json()
    body = postcard(recipients=None, mailing_list_ids=[number], allow_duplicates=False)
    estimate = owner.post("/estimate/postcard", body).json()["data"]
    expected = {"total_recipients": 2, "suppressed": 1, "duplicates": 1, "undeliverable": 1}
    assert {name: estimate[name] for name in expected} == expected
    assert estimate["authorization_total"] == 109 + 219
    answer = owner.post("/send/postcard", body)
    sent = answer.json()
    assert (sent["total_estimated_recipients"], sent["authorization_total"]) == (2, 328)
    assert "On the lists 1 recipient is not mailed to" in answer.headers["X-Warnings"]
    run_due_jobs(container)
    assert pieces(owner, sent["id"]) == [
        ("Person 1", "Failed", REPEATED),
        ("Person 2", "Processing", None),
        ("Person 3", "Failed", SUPPRESSED),
        ("Mail only", "Failed", NO_ADDRESS),
        ("Far", "Processing", None),
    ]
    read = owner.get(f"/orders/{sent['id']}").json()
    assert (read["recipient_count"], read["order_total"]) == (5, 328)
    assert repeated["total_estimated_recipients"] == 1


def test_inline_recipients_are_suppressed_and_not_mailed_twice(owner: Account, clock: Clock) -> None:
    make_list(owner, [person(address="2 Main St")], is_suppression_list=True)
    body = postcard(recipients=people(3), allow_duplicates=False, message="Hello!")
    first = owner.post("/send/postcard", body)
    assert first.json()["total_estimated_recipients"] == 2
    assert read_warnings(first) == [f"1 recipient is not mailed to: {SUPPRESSED}"]
    again = owner.post("/send/postcard", body)
    assert (again.json()["total_estimated_recipients"], again.json()["authorization_total"]) == (0, 0)
    assert [why for *_, why in pieces(owner, again.json()["id"])] == [REPEATED, SUPPRESSED, REPEATED]
    assert "Set allow_duplicates" in again.headers["X-Warnings"]
    assert owner.post("/send/postcard", body | {"message": "Other words"}).json()["total_estimated_recipients"] == 2
    assert owner.post("/send/postcard", body | {"handwriting_color": "red"}).json()["total_estimated_recipients"] == 0
    assert owner.post("/send/postcard", body | {"allow_duplicates": True}).json()["total_estimated_recipients"] == 2
    clock.advance(hours=36, seconds=1)
    assert owner.post("/send/postcard", body).json()["total_estimated_recipients"] == 2


def test_a_piece_that_was_never_mailed_is_not_repeated(owner: Account) -> None:
    body = postcard(allow_duplicates=False)
    cancelled = owner.post("/send/postcard", body).json()["id"]
    owner.put(f"/orders/{cancelled}/cancel")
    assert owner.post("/send/postcard", body).json()["total_estimated_recipients"] == 1


def test_orders_scheduled_far_apart_repeat_nothing(owner: Account) -> None:
    body = postcard(allow_duplicates=False)
    owner.post("/send/postcard", body)
    later = owner.post("/send/postcard", body | {"schedule_for": "2026-06-04T12:00:00Z"}).json()
    assert later["total_estimated_recipients"] == 1
    soon = owner.post("/send/postcard", body | {"schedule_for": "2026-06-05T12:00:00Z"}).json()
    assert soon["total_estimated_recipients"] == 0


def test_whoever_joins_a_suppression_list_before_the_order_is_due_is_not_mailed(
    owner: Account, container: Container, clock: Clock
) -> None:
    suppression_list = make_list(owner, [], is_suppression_list=True)
    order = owner.send(recipients=people(2), message="Hello!").json()["id"]
    owner.post("/recipients", person(address="2 Main St") | {"mailing_list_id": suppression_list})
    run_jobs_for(container, clock, seconds=45)
    assert pieces(owner, order) == [("Person 1", "Delivered", None), ("Person 2", "Failed", SUPPRESSED)]


def test_a_list_that_is_unknown_or_a_strangers_is_refused(
    owner: Account, stranger: Account, container: Container
) -> None:
    theirs = make_list(stranger, [person()])
    before = traces(container)
    for number in (theirs, 10**9):
        refused = owner.send(mailing_list_ids=[number])
        assert (refused.status_code, refused.json()) == (400, {"message": "Mailing List Does Not Exist"})
    assert traces(container) == before


def test_a_list_of_another_sub_account_is_refused(owner: Account, container: Container) -> None:
    here, there = make_sub_account(container, owner), make_sub_account(container, owner)
    shared, own = make_list(owner, [person()]), make_list(owner, [person()], sub_account_id=here)
    for allowed in ({"sub_account_id": here, "mailing_list_ids": [shared, own]}, {"mailing_list_ids": [shared]}):
        assert owner.send(recipients=None, **allowed).status_code == 200
    for refused in ({"sub_account_id": there, "mailing_list_ids": [own]}, {"mailing_list_ids": [own]}):
        assert owner.send(recipients=None, **refused).status_code == 400


def test_a_limited_token_cannot_mail_past_the_accounts_suppression(owner: Account, container: Container) -> None:
    branch = make_sub_account(container, owner)
    make_list(owner, [person()], is_suppression_list=True)
    teammate = make_teammate(container, owner, branch)
    number = make_list(teammate, [person(), person(address="9 Oak Ave")])
    assert teammate.send().json()["total_estimated_recipients"] == 0
    sent = teammate.send(recipients=None, mailing_list_ids=[number]).json()
    assert (sent["total_estimated_recipients"], sent["sub_account_id"]) == (1, branch)
    run_due_jobs(container)
    assert [why for *_, why in pieces(teammate, sent["id"])] == [SUPPRESSED, None]


def test_a_suppression_list_is_no_audience(owner: Account, container: Container) -> None:
    number = make_list(owner, [person()], is_suppression_list=True)
    before = traces(container)
    refused = owner.send(recipients=None, mailing_list_ids=[number])
    assert refused.status_code == 422
    assert refused.json()["errors"] == {
        "mailing_list_ids": [f"List {number} is a suppression list: nobody on it is mailed to."]
    }
    assert traces(container) == before


def test_the_message_must_fit_with_the_longest_values_that_the_lists_hold(owner: Account) -> None:
    number = make_list(owner, [person(custom1="short"), person(address="9 Oak Ave", custom1="word " * 58)])
    message = "%CUSTOM1%" + " and so on" * 70
    refused = owner.send(recipients=None, mailing_list_ids=[number], message=message)
    assert refused.status_code == 422
    assert refused.json()["errors"]["message"][0].endswith("(with the longest values on the lists)")
    short = owner.send(recipients=None, mailing_list_ids=[number], message="%CUSTOM1% and so on")
    assert short.status_code == 200


def test_a_preview_shows_the_first_mailable_person_of_the_lists(owner: Account) -> None:
    number = make_list(owner, [{"email": "m@example.com"}, person(name="Zoe Zed")])
    nobody = make_list(owner, [{"email": "m@example.com"}])
    shown = owner.send(recipients=None, mailing_list_ids=[number], preview=True)
    to_zoe = owner.send(recipients=[person(name="Zoe Zed")], preview=True)
    pictures = [owner.http.get(url).content for url in shown.json()["data"]["previews"]]
    assert pictures == [owner.http.get(url).content for url in to_zoe.json()["data"]["previews"]]
    first = owner.send(recipients=None, mailing_list_ids=[number], preview=True, preview_recipient=0)
    assert first.status_code == 200
    second = owner.send(recipients=None, mailing_list_ids=[number], preview=True, preview_recipient=1)
    assert "people of lists are not" in second.json()["errors"]["preview_recipient"][0]
    refused = owner.send(recipients=None, mailing_list_ids=[nobody], preview=True)
    assert list(refused.json()["errors"]) == ["mailing_list_ids"]


def test_a_preview_is_drawn_again_after_the_piece_was_sent(owner: Account) -> None:
    number = make_list(owner, [person()])
    body = postcard(recipients=None, mailing_list_ids=[number], allow_duplicates=False)
    assert owner.post("/send/postcard", body).status_code == 200
    assert owner.post("/send/postcard", body | {"preview": True}).json()["success"] is True


def test_a_preview_does_not_show_whom_a_suppression_list_bars(owner: Account) -> None:
    make_list(owner, [person()], is_suppression_list=True)
    zoe = person(name="Zoe Zed", address="9 Oak Ave")
    shown = owner.send(recipients=[person(), zoe], preview=True).json()["data"]["previews"]
    alone = owner.send(recipients=[zoe], preview=True).json()["data"]["previews"]
    assert owner.http.get(shown[1]).content == owner.http.get(alone[1]).content


def test_a_form_names_lists_with_commas(owner: Account) -> None:
    first, second = make_list(owner, [person()]), make_list(owner, [person(address="9 Oak Ave")])
    form = f"message=Hi&mailing_list_ids={first},{second}"
    sent = owner.call("POST", "/send/postcard", content=form, headers={"Content-Type": FORM})
    assert (sent.status_code, sent.json()["mailing_list_ids_used"]) == (200, f"{first},{second}")


def test_a_picture_for_each_needs_recipients_in_the_call(owner: Account) -> None:
    number = make_list(owner, [person()])
    refused = owner.send(recipients=None, mailing_list_ids=[number], front_image_url="https://example.com/~CITY~.png")
    assert list(refused.json()["errors"]) == ["front_image_url"]


def test_a_radius_search_stands_alone(owner: Account) -> None:
    near = {"address": "12 Main St, Austin, TX 78701", "record_count": 5}
    assert "stands alone" in owner.send(radius_search=near).json()["errors"]["radius_search"][0]
    with_list = owner.send(recipients=None, mailing_list_ids=[make_list(owner, [person()])], radius_search=near)
    assert (with_list.status_code, list(with_list.json()["errors"])) == (422, ["radius_search"])


def test_the_code_of_a_list_is_printed_when_the_call_has_none(owner: Account, container: Container) -> None:
    number = make_list(owner, [person()], qrcode_url="https://example.com/list")
    sent = owner.send(recipients=None, mailing_list_ids=[number]).json()
    assert sent["qrcode_url"] == "https://example.com/list"
    own = owner.send(recipients=None, mailing_list_ids=[number], qrcode_url="https://example.com/own").json()
    assert own["qrcode_url"] == "https://example.com/own"


@pytest.mark.parametrize("url", ["https://example.com/%FRISTNAME%", "http://127.0.0.1/"])
def test_the_error_for_a_qr_code_of_a_list_names_the_list(owner: Account, container: Container, url: str) -> None:
    """Such as one that was kept before codes were checked as they are now."""
    good, bad = make_list(owner, [person()]), make_list(owner, [person()])
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(mailing_lists).where(mailing_lists.c.id == bad).values(qrcode_url=url))
    refused = owner.send(recipients=None, mailing_list_ids=[good, bad])
    assert refused.status_code == 422
    [[field, [error]]] = refused.json()["errors"].items()
    assert (field, error.endswith(f" (the qrcode_url of list {bad})")) == ("mailing_list_ids", True)


def test_the_code_of_a_list_may_hold_variables(owner: Account) -> None:
    url = "https://example.com/~FIRST_NAME~"
    number = make_list(owner, [person()], qrcode_url=url)
    assert owner.send(recipients=None, mailing_list_ids=[number]).json()["qrcode_url"] == url


def test_a_cancelled_order_makes_no_pieces_of_its_lists_and_gives_the_money_back(
    owner: Account, container: Container
) -> None:
    number = make_list(owner, people(2))
    order = owner.send(recipients=None, mailing_list_ids=[number]).json()["id"]
    owner.put(f"/orders/{order}/cancel")
    run_due_jobs(container)
    assert pieces(owner, order) == []
    with container.db.system_transaction() as tx:
        moves = tx.execute(sa.select(ledger_moves.c.kind, ledger_moves.c.cents).order_by(ledger_moves.c.id)).all()
    assert [tuple(move) for move in moves] == [("authorise", 218), ("release", 218)]


def test_a_list_that_a_waiting_order_uses_cannot_be_deleted(owner: Account) -> None:
    number = make_list(owner, [person()])
    order = owner.send(recipients=None, mailing_list_ids=[number]).json()["id"]
    refused = owner.delete(f"/mailing-lists/{number}")
    assert refused.status_code == 400
    assert str(order) in refused.json()["message"]


def test_a_list_does_not_move_away_from_an_order_that_waits(owner: Account, container: Container) -> None:
    branch, number = make_sub_account(container, owner), make_list(owner, [person()])
    order = owner.send(recipients=None, mailing_list_ids=[number]).json()["id"]
    refused = owner.put(f"/mailing-lists/{number}", {"sub_account_id": branch})
    assert (refused.status_code, str(order) in refused.json()["message"]) == (400, True)
    owner.put(f"/orders/{order}/cancel")
    assert owner.put(f"/mailing-lists/{number}", {"sub_account_id": branch}).status_code == 200
