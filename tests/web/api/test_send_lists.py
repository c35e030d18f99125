"""Sends to saved lists: who is counted, who becomes a piece, and who is not mailed, for what reason."""

from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import ledger_moves, mailing_lists
from quillpost.orders import service as order_service
from quillpost.orders.service import OrderFiles
from support import factories
from support.factories import Account, Clock, make_sub_account, people, person, postcard, read_warnings, run_due_jobs
from support.rows import execute
from support.traces import FORM, assert_refused, unchanged

pytestmark = pytest.mark.usefixtures("clean_database")

SAME = "Another recipient of this order has the same address."
NO_ADDRESS = "There is no mailing address, only an e-mail."
SUPPRESSED = "This address is on a suppression list."
REPEATED = "The same piece went to this address less than 36 hours ago."
ZOE = person(name="Zoe Zed", address="9 Oak Ave")


def make_list(owner: Account, *rows: dict[str, Any], **fields: Any) -> int:
    made = owner.post("/mailing-lists", {"description": "Friends"} | fields)
    assert made.status_code == 201, made.text
    number = int(made.json()["id"])
    added = owner.post("/recipients-utils/create-multiple", [row | {"mailing_list_id": number} for row in rows])
    assert all("error" not in row for row in added.json()), added.text
    return number


def send_to(owner: Account, *list_ids: object, **changes: Any) -> dict[str, Any]:
    """To these lists alone; the answer."""
    sent = owner.send(**{"recipients": None, "mailing_list_ids": list_ids} | changes)
    assert sent.status_code == 200, sent.text
    found: dict[str, Any] = sent.json()
    return found


def pieces(owner: Account, order: int) -> list[tuple[str, str, str | None]]:
    rows = owner.get(f"/orders/{order}/items?items_per_page=100").json()["data"]
    return [(row["recipient"]["name"], row["status"], row["failure"]) for row in rows]


def test_everyone_on_lists_is_mailed_but_the_suppressed(owner: Account, container: Container, clock: Clock) -> None:
    first, second = make_list(owner, *people(2)), make_list(owner, ZOE)
    sent = send_to(owner, first, str(second))
    assert sent["mailing_list_ids_used"] == f"{first},{second}"
    assert (sent["total_estimated_recipients"], sent["authorization_total"], sent["recipients"]) == (3, 327, [])
    before = owner.get(f"/orders/{sent['id']}").json()
    assert (before["recipient_count"], before["total_recipients"]) == (3, 0)
    suppression_list = make_list(owner, is_suppression_list=True)
    ann, bob = person(name="Ann", address="71 Elm St"), person(name="Bob", address="72 Elm St")
    inline = owner.send(recipients=[ann, bob], message="Hello!").json()["id"]
    owner.post("/recipients", bob | {"mailing_list_id": suppression_list})
    run_due_jobs(container)
    assert [name for name, *_ in pieces(owner, sent["id"])] == ["Person 1", "Person 2", "Zoe Zed"]
    factories.run_jobs_for(container, clock, seconds=45)
    assert {status for _, status, _ in pieces(owner, sent["id"])} == {"Delivered"}
    assert pieces(owner, inline) == [("Ann", "Delivered", None), ("Bob", "Failed", SUPPRESSED)]
    read = owner.get(f"/mailing-lists/{first}").json()
    assert (read["total_sends"], read["last_send"] is not None) == (2, True)


def test_lists_have_two_names_and_a_code_and_go_beside_recipients(owner: Account, container: Container) -> None:
    first, second = make_list(owner, person(name="Jane again"), ZOE), make_list(owner, ZOE)
    assert send_to(owner, mailing_list_ids=None, mailing_lists=[first])["mailing_list_ids_used"] == str(first)
    form = f"message=Hi&mailing_list_ids={first},{second}"
    answer = owner.call("POST", "/send/postcard", content=form, headers={"Content-Type": FORM})
    assert (answer.status_code, answer.json()["mailing_list_ids_used"]) == (200, f"{first},{second}")
    for url in ("https://example.com/list", "https://example.com/~FIRST_NAME~"):
        number, own = make_list(owner, person(), qrcode_url=url), "https://example.com/own"
        assert [send_to(owner, number, **how)["qrcode_url"] for how in ({}, {"qrcode_url": own})] == [url, own]
    sent = owner.send(mailing_list_ids=[first]).json()
    assert (sent["total_estimated_recipients"], [row["name"] for row in sent["recipients"]]) == (2, ["Jane Doe"])
    run_due_jobs(container)
    assert pieces(owner, sent["id"]) == [
        ("Jane Doe", "Processing", None), ("Jane again", "Failed", SAME), ("Zoe Zed", "Processing", None),
    ]  # fmt: skip


def test_people_not_mailed_have_a_reason_and_cost_nothing(owner: Account, container: Container) -> None:
    make_list(owner, person(address="3 Main St"), is_suppression_list=True)
    only_email = {"name": "Mail only", "email": "m@example.com"}
    far = person(name="Far", country="CA", province="ON", postal_code="K1A 0B1")
    number = make_list(owner, *people(3), only_email, far)
    repeated = owner.send(recipients=[person(address="1 Main St")], allow_duplicates=False).json()
    assert repeated["total_estimated_recipients"] == 1
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
        ("Person 1", "Failed", REPEATED), ("Person 2", "Processing", None), ("Person 3", "Failed", SUPPRESSED),
        ("Mail only", "Failed", NO_ADDRESS), ("Far", "Processing", None),
    ]  # fmt: skip
    read = owner.get(f"/orders/{sent['id']}").json()
    assert (read["recipient_count"], read["order_total"]) == (5, 328)


def test_inline_recipients_are_suppressed_and_not_mailed_twice(owner: Account, clock: Clock) -> None:
    make_list(owner, person(address="2 Main St"), is_suppression_list=True)
    body = {"recipients": people(3), "allow_duplicates": False, "message": "Hello!"}
    first, again = owner.send(**body), owner.send(**body)
    assert first.json()["total_estimated_recipients"] == 2
    assert read_warnings(first) == [f"1 recipient is not mailed to: {SUPPRESSED}"]
    assert (again.json()["total_estimated_recipients"], again.json()["authorization_total"]) == (0, 0)
    assert [why for *_, why in pieces(owner, again.json()["id"])] == [REPEATED, SUPPRESSED, REPEATED]
    assert "Set allow_duplicates" in again.headers["X-Warnings"]

    def mailed(**changes: Any) -> int:
        return int(owner.send(**body | changes).json()["total_estimated_recipients"])

    assert (mailed(message="Other words"), mailed(handwriting_color="red"), mailed(allow_duplicates=True)) == (2, 0, 2)
    # What was never mailed is not repeated, nor what is mailed long after.
    cancelled = owner.send(**body | {"message": "Never"}).json()["id"]
    owner.put(f"/orders/{cancelled}/cancel")
    assert mailed(message="Never") == 2
    assert mailed(message="Later") == 2
    assert mailed(message="Later", schedule_for="2026-06-04T12:00:00Z") == 2
    assert mailed(message="Later", schedule_for="2026-06-05T12:00:00Z") == 0
    clock.advance(hours=36, seconds=1)
    assert mailed() == 2


def test_a_suppressed_email_does_not_suppress_the_address(owner: Account, container: Container) -> None:
    """Of several people at one address one is mailed, and it is the first who may be."""
    make_list(owner, {"email": "never@example.com"}, is_suppression_list=True)
    never, ada, bob = person(name="Never", email="never@example.com"), person(name="Ada"), person(name="Bob")
    suppressed, adas, bobs = (make_list(owner, someone) for someone in (never, ada, bob))
    for audience in (
        {"recipients": [never, ada, bob]},
        {"recipients": None, "mailing_list_ids": [suppressed, adas, bobs]},
        {"recipients": [never], "mailing_list_ids": [adas, bobs]},
        {"recipients": [never, ada], "mailing_list_ids": [bobs]},
    ):
        found = owner.post("/estimate/postcard", postcard(**audience)).json()["data"]
        assert (found["total_recipients"], found["suppressed"], found["duplicates"]) == (1, 1, 1)
        sent = owner.send(**audience).json()
        assert (sent["total_estimated_recipients"], sent["authorization_total"]) == (1, 109)
        run_due_jobs(container)
        assert {name: why for name, _, why in pieces(owner, sent["id"])} == {
            "Never": SUPPRESSED, "Ada": None, "Bob": SAME,
        }  # fmt: skip


def test_a_list_that_cannot_be_mailed_to_is_refused(
    subtests: pytest.Subtests, owner: Account, stranger: Account, container: Container
) -> None:
    here, there = make_sub_account(container, owner), make_sub_account(container, owner)
    theirs, shared = make_list(stranger), make_list(owner, person())
    own = make_list(owner, person(), sub_account_id=here)
    for allowed in ({"sub_account_id": here, "mailing_list_ids": [shared, own]}, {"mailing_list_ids": [shared]}):
        send_to(owner, **allowed)
    with unchanged(container):
        cases: dict[str, dict[str, Any]] = {
            "a stranger's": {"mailing_list_ids": [theirs]},
            "unknown": {"mailing_list_ids": [10**9]},
            "of another sub account": {"sub_account_id": there, "mailing_list_ids": [own]},
            "of a sub account, and the order of none": {"mailing_list_ids": [own]},
        }
        for name, changes in cases.items():
            with subtests.test(name):
                refused = owner.send(recipients=None, **changes)
                assert (refused.status_code, refused.json()) == (400, {"message": "Mailing List Does Not Exist"})


def test_what_no_list_can_have_names_its_field(subtests: pytest.Subtests, owner: Account, container: Container) -> None:
    good, suppression_list = make_list(owner, person()), make_list(owner, person(), is_suppression_list=True)
    long = make_list(owner, person(custom1="short"), person(address="9 Oak Ave", custom1="word " * 58))
    typo, private = make_list(owner, person()), make_list(owner, person())
    with container.db.system_transaction() as tx:  # such as were stored before codes were checked as they are now
        for bad, url in ((typo, "https://example.com/%FRISTNAME%"), (private, "http://127.0.0.1/")):
            tx.execute(sa.update(mailing_lists).where(mailing_lists.c.id == bad).values(qrcode_url=url))
    near = {"address": "12 Main St, Austin, TX 78701", "record_count": 5}
    not_mailed = f"List {suppression_list} is a suppression list: nobody on it is mailed to."
    cases: list[tuple[Any, ...]] = [
        ({"mailing_list_ids": [suppression_list]}, "mailing_list_ids", not_mailed),
        ({"mailing_list_ids": [good, typo]}, "mailing_list_ids", f" (the qrcode_url of list {typo})"),
        ({"mailing_list_ids": [good, private]}, "mailing_list_ids", f" (the qrcode_url of list {private})"),
        ({"mailing_list_ids": [long], "message": "%CUSTOM1%" + " and so on" * 70}, "message",
         "(with the longest values on the lists)"),
        ({"mailing_list_ids": [good], "front_image_url": "https://example.com/~CITY~.png"}, "front_image_url"),
        ({"mailing_list_ids": [good], "radius_search": near}, "radius_search", "stands alone"),
        ({"recipients": [person()], "radius_search": near}, "radius_search", "stands alone"),
    ]  # fmt: skip
    assert_refused(subtests, container, lambda changes: owner.send(**{"recipients": None} | changes), cases)
    send_to(owner, long, message="%CUSTOM1% and so on")


def test_a_limited_token_cannot_mail_past_the_accounts_suppression(owner: Account, container: Container) -> None:
    branch = make_sub_account(container, owner)
    make_list(owner, person(), is_suppression_list=True)
    teammate = factories.make_teammate(container, owner, branch)
    number = make_list(teammate, person(), ZOE)
    assert teammate.send().json()["total_estimated_recipients"] == 0
    sent = send_to(teammate, number)
    assert (sent["total_estimated_recipients"], sent["sub_account_id"]) == (1, branch)
    run_due_jobs(container)
    assert [why for *_, why in pieces(teammate, sent["id"])] == [SUPPRESSED, None]


def test_a_preview_shows_the_first_person_of_the_lists_to_be_mailed(owner: Account) -> None:
    number, nobody = make_list(owner, {"email": "m@example.com"}, ZOE), make_list(owner, {"email": "m@example.com"})

    def shown(**changes: Any) -> list[bytes]:
        links = owner.send(preview=True, **changes).json()["data"]["previews"]
        return [owner.http.get(url).content for url in links]

    to_zoe = shown(recipients=[ZOE])
    of_list: dict[str, Any] = {"recipients": None, "mailing_list_ids": [number]}
    assert shown(**of_list) == shown(**of_list, preview_recipient=0) == to_zoe
    second = owner.send(**of_list, preview=True, preview_recipient=1)
    assert "people of lists are not" in second.json()["errors"]["preview_recipient"][0]
    refused = owner.send(recipients=None, mailing_list_ids=[nobody], preview=True)
    assert list(refused.json()["errors"]) == ["mailing_list_ids"]
    # It is drawn again after the piece was sent, and of nobody who is suppressed.
    send_to(owner, number, allow_duplicates=False)
    assert shown(**of_list, allow_duplicates=False) == to_zoe
    make_list(owner, person(), is_suppression_list=True)
    assert shown(recipients=[person(), ZOE]) == to_zoe


def test_a_list_stays_where_an_order_waits_for_it_until_that_is_cancelled(owner: Account, container: Container) -> None:
    branch, number = make_sub_account(container, owner), make_list(owner, *people(2))
    order = send_to(owner, number)["id"]
    path = f"/mailing-lists/{number}"
    for refused in (owner.delete(path), owner.put(path, {"sub_account_id": branch})):
        assert (refused.status_code, str(order) in refused.json()["message"]) == (400, True)
    owner.put(f"/orders/{order}/cancel")
    run_due_jobs(container)
    assert pieces(owner, order) == []
    moves = execute(container, sa.select(ledger_moves.c.kind, ledger_moves.c.cents).order_by(ledger_moves.c.id))
    assert [tuple(move) for move in moves] == [("authorise", 218), ("release", 218)]
    assert owner.put(path, {"sub_account_id": branch}).status_code == 200


def test_a_list_that_changes_while_a_send_is_prepared_is_refused_as_if_it_came_later(
    owner: Account, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_files = order_service.store_files
    number, change = 0, dict[str, Any]()
    branch = make_sub_account(container, owner)

    def change_meanwhile(*what: Any, **how: Any) -> OrderFiles:
        changed = owner.put(f"/mailing-lists/{number}", {"description": "Friends", **change})
        assert changed.status_code == 200, changed.text
        return store_files(*what, **how)

    for field, value in (("sub_account_id", branch), ("is_suppression_list", True)):
        number, change = make_list(owner, person()), {field: value}
        with monkeypatch.context() as patch:
            patch.setattr(order_service, "store_files", change_meanwhile)
            crossed = owner.send(recipients=None, mailing_list_ids=[number])
        later = owner.send(recipients=None, mailing_list_ids=[number])
        assert (crossed.status_code, crossed.json()) == (later.status_code, later.json())
        assert later.status_code in (400, 422)
    assert owner.get("/orders").json()["meta"]["total"] == 0
