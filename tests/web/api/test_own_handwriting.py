"""Styles made of a person's own sheet: read, accepted, written in, private, and deleted."""

from functools import cache
from typing import Any

import pypdfium2 as pdfium
import pytest
from httpx2 import Response

from quillpost.app.container import Container
from quillpost.fulfillment.batches.files import PRINT_FILE
from quillpost.privacy.service import delete_removed_handwriting
from quillpost.rendering.handwriting.words import NaturalHand
from support.factories import Account, Clock, make_sub_account, make_teammate, read_warnings, run_jobs_for
from support.handwriting_sheets import fill_in
from support.own_handwriting import make_style
from support.production import files_of
from support.rows import scalar
from support.traces import assert_refused
from support.uploads import png

STYLES = "/handwriting-styles"
WRITER = 27  # of our styles, one that does not join: whose hand the sheet is written in


@cache
def scanned_sheet(hand: NaturalHand, skip: tuple[tuple[str, int], ...] = ()) -> bytes:
    """Both pages, as a scanner makes them."""
    return fill_in(hand, skip=skip)


def sheet(container: Container, **how: Any) -> bytes:
    hand = container.renderer.hands.hand(WRITER)
    assert isinstance(hand, NaturalHand)
    return scanned_sheet(hand, **how)


def upload_sheet(account: Account, pdf: bytes, **fields: Any) -> Response:
    data = {"name": "Dana"} | fields
    return account.call("POST", STYLES, data=data, files={"page_1": ("sheet.pdf", pdf, "application/pdf")})


def numbers(account: Account) -> set[int]:
    return {style["handwriting_style_id"] for style in account.get(STYLES).json()["data"]}


def test_a_sheet_becomes_a_style_for_the_mail_of_its_account_alone(
    owner: Account, stranger: Account, container: Container
) -> None:
    read = upload_sheet(owner, sheet(container)).json()
    number = read["id"]
    assert (number >= 1_000, read["name"], read["is_ready"], read["sample"]) == (True, "Dana", False, None)
    assert (read["missing"], read["problems"]) == ([], [])
    assert number not in numbers(owner)
    assert "handwriting_style" in owner.send(handwriting_style=number).json()["errors"], "its letters are not accepted"

    accepted = owner.post(f"{STYLES}/{number}/accept", {}).json()
    assert accepted["is_ready"] is True
    assert owner.get(f"{STYLES}/{number}").json() == accepted
    listed = [style for style in owner.get(STYLES).json()["data"] if style["handwriting_style_id"] == number]
    assert [(style["name"], style["type"], style["sample"]) for style in listed] == [("Dana", "AI", accepted["sample"])]
    picture = owner.http.get(accepted["sample"])
    assert (picture.headers["content-type"], picture.content[:4]) == ("image/png", b"\x89PNG")

    sent = owner.send(handwriting_style=number, handwriting_manner="lively")
    assert (sent.status_code, sent.json()["style"], read_warnings(sent)) == (200, number, [])
    template = {"type": "postcard", "name": "Thanks", "content": "Hi!", "handwriting_style_id": number}
    assert owner.post("/message-templates", template).status_code == 201

    assert number not in numbers(stranger)
    assert [
        stranger.get(f"{STYLES}/{number}").status_code,
        stranger.post(f"{STYLES}/{number}/accept", {}).status_code,
        stranger.delete(f"{STYLES}/{number}").status_code,
    ] == [404, 404, 404]
    assert f"There is no handwriting style {number}." in stranger.send(handwriting_style=number).text
    assert "handwriting_style_id" in stranger.post("/message-templates", template).json()["errors"]


@pytest.mark.usefixtures("clean_database")
def test_an_order_in_ones_own_hand_is_previewed_changed_printed_and_replayed(
    owner: Account, container: Container, clock: Clock
) -> None:
    number = make_style(container, owner)
    drawn = owner.post("/preview", {"piece": "postcard", "message": "Hi!", "handwriting_style": number})
    assert drawn.status_code == 200, drawn.text
    order_id = owner.send(handwriting_style=number, message="Hello %FIRST_NAME%, this is me.").json()["id"]
    changed = owner.put(f"/orders/{order_id}", {"message": "Hello %FIRST_NAME%, it is really me."})
    assert changed.status_code == 200, changed.text
    run_jobs_for(container, clock, seconds=45)
    assert owner.get(f"/orders/{order_id}").json()["status"] == "Fulfilled"
    assert "really me" in printed_text(container)
    again = owner.post(f"/orders/{order_id}/replay").json()
    assert again["style"] == number


def printed_text(container: Container) -> str:
    batch_id = scalar(container, "select max(id) from batches")
    [pdf] = [data for name, data in files_of(container, batch_id).items() if name.endswith(PRINT_FILE)]
    return " ".join(" ".join(page.get_textpage().get_text_range().split()) for page in pdfium.PdfDocument(pdf))


@pytest.mark.usefixtures("clean_database")
def test_a_deleted_style_is_gone_at_once_and_its_letters_when_the_last_order_has_ended(
    owner: Account, container: Container, clock: Clock
) -> None:
    number = make_style(container, owner)
    order_id = owner.send(handwriting_style=number, message="One more time.").json()["id"]
    template = {"type": "postcard", "name": "Thanks", "content": "Hi!", "handwriting_style_id": number}
    template_id = owner.post("/message-templates", template).json()["id"]
    assert "Thanks" in owner.delete(f"{STYLES}/{number}").json()["message"]
    owner.delete(f"/message-templates/{template_id}")
    assert owner.delete(f"{STYLES}/{number}").status_code == 200
    assert (number in numbers(owner), owner.get(f"{STYLES}/{number}").status_code) == (False, 404)
    assert "handwriting_style" in owner.send(handwriting_style=number).json()["errors"]

    delete_removed_handwriting(container.db)
    assert scalar(container, "select count(*) from own_hands") == 1, "an order waits"
    run_jobs_for(container, clock, seconds=45)
    assert owner.get(f"/orders/{order_id}").json()["status"] == "Fulfilled"
    assert "One more time." in printed_text(container)
    delete_removed_handwriting(container.db)
    assert scalar(container, "select count(*) from own_hands") == 0
    assert "handwriting_style" in owner.post(f"/orders/{order_id}/replay").json()["errors"]
    assert owner.get(f"/orders/{order_id}").status_code == 200


def test_a_style_of_a_sub_account_is_for_its_mail(owner: Account, container: Container) -> None:
    branch, other = make_sub_account(container, owner), make_sub_account(container, owner, "Other")
    teammate = make_teammate(container, owner, branch)
    number, shared = make_style(container, teammate), make_style(container, owner)
    assert (number in numbers(teammate), shared in numbers(teammate)) == (True, False)
    assert owner.send(handwriting_style=number, sub_account_id=branch).status_code == 200
    assert "handwriting_style" in owner.send(handwriting_style=number, sub_account_id=other).json()["errors"]
    assert "handwriting_style" in owner.send(handwriting_style=number).json()["errors"]
    # An order of theirs may have the whole account's style, and they may change it.
    order_id = owner.send(handwriting_style=shared, sub_account_id=branch).json()["id"]
    assert teammate.put(f"/orders/{order_id}", {"message": "Hi, it is still me!"}).status_code == 200
    for order in owner.get("/orders/list").json()["data"]:
        owner.post(f"/orders/{order['id']}/cancel")
    assert "1 handwriting style" in owner.delete(f"/sub-accounts/{branch}").json()["message"]


def test_letters_may_be_left_out_but_not_too_many(owner: Account, container: Container) -> None:
    skip = (("a", 1), ("a", 2), ("a", 3), ("a", 4), ("q", 2))
    read = upload_sheet(owner, sheet(container, skip=skip)).json()
    assert {(each["character"], each["instance"]) for each in read["missing"]} == set(skip)
    path = f"{STYLES}/{read['id']}/accept"
    few = [{"character": char, "instance": instance} for char in "bcde" for instance in range(1, 5)]
    refused = owner.post(path, {"rejected": few})
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["letters"])
    assert "a, b, c, d and e" in refused.json()["errors"]["letters"][0]
    assert owner.post(path, {"rejected": few[:1]}).json()["is_ready"] is True
    assert owner.post(path, {}).status_code == 409, "a style stays as it is"


def test_what_is_no_sheet_is_refused_with_the_reason(
    subtests: pytest.Subtests, owner: Account, container: Container
) -> None:
    good = sheet(container)
    assert_refused(
        subtests,
        container,
        lambda how: owner.call("POST", STYLES, **how),
        [
            ({"data": {"name": "Dana"}, "files": {"page_2": ("a.pdf", good)}}, "page_1"),
            ({"data": {"name": " "}, "files": {"page_1": ("a.pdf", good)}}, "name"),
            ({"data": {"name": "D" * 61}, "files": {"page_1": ("a.pdf", good)}}, "name", "60"),
            ({"data": {"name": "Dana"}, "files": {"page_1": ("a.png", png())}}, "files"),
            ({"data": {"name": "Dana"}, "files": {"page_1": ("a.pdf", b"%PDF-1.7 cut")}}, "files"),
            ({"data": {"name": "Dana"}, "files": {"page_1": ("a.txt", b"Hello")}}, "files"),
            ({"json": {"name": "Dana", "page_1": "https://example.com/a.pdf"}}, "page_1", "Upload"),
        ],
    )


def test_the_sheet_is_a_pdf_that_anybody_may_print(owner: Account) -> None:
    found = owner.http.get("/handwriting-sheet.pdf")
    assert (found.status_code, found.headers["content-type"]) == (200, "application/pdf")
    assert len(pdfium.PdfDocument(found.content)) == 2
