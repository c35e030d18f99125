"""What the description requires of a body, the service requires; and files have the types that it names."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jsonschema_rs
import pytest

from quillpost.app.container import Container
from quillpost.fulfillment.print_room.queries import BatchFileInfo
from quillpost.web.api.print_room.endpoints import FILE_CONTENT
from support.described_operations import DESCRIPTION, OPERATIONS
from support.factories import GIFT, Account, make_sub_account, person
from support.uploads import upload

Body = dict[str, Any]
AUDIENCE: Body = {"recipients": [person()], "allow_duplicates": True}
HOME = {"return_address": "1 Orchard Rd", "return_city": "Austin", "return_state": "TX", "return_postal_code": "78701"}
CARDS = ("postcard", "notecard", "magnacard")
LETTERS = ("windowed-letter", "windowless-letter")
PIECES = (*CARDS, *LETTERS, "giftcard")


@cache
def accepts(path: str) -> Callable[[Body], bool]:
    """Whether a body is one as the description has them."""
    operation = next(each for each in OPERATIONS if each.label == f"POST /api/v2{path}")
    schema = operation.described["requestBody"]["content"]["application/json"]["schema"]
    whole = {"$ref": "#/wanted", "wanted": schema, "components": DESCRIPTION["components"]}
    found: Callable[[Body], bool] = jsonschema_rs.validator_for(whole).is_valid
    return found


def both(owner: Account, path: str, body: Body) -> tuple[bool, bool]:
    """What the description says of a body, and what the service says."""
    answer = owner.post(path, body)
    assert answer.status_code in (200, 201, 404, 422), answer.text
    return accepts(path)(body), answer.status_code != 422


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("verb", ["estimate", "stored_send"])
def test_what_a_send_requires_is_described(owner: Account, container: Container, piece: str, verb: str) -> None:
    path = f"/{verb}/{piece}"
    gift = GIFT if piece == "giftcard" else {}
    good: Body = AUDIENCE | {"message": "Hi!"} | gift
    front = upload(owner).json()["id"]
    accepted: list[Body] = [good, good | HOME, good | {"return_address": "1 Orchard Rd, Austin, TX 78701"}]
    accepted += [good | {"radius_search": None, "mailing_list_ids": []}]
    refused: list[Body] = [
        {},
        gift,
        {"message": "Hi!"} | gift,
        good | {"recipients": []},
        good | {"recipients": None},
        AUDIENCE | gift,
        AUDIENCE | {"message": " "} | gift,
        good | {"return_city": "Austin"},
        good | {"return_address": "1 Orchard Rd"},
        good | {"radius_search": {"address": "12 Main St, Austin, TX 78701", "record_count": 5}},
    ]
    if piece == "giftcard":
        refused += [AUDIENCE | {"message": "Hi!"}, good | {"giftcard_amount": None}]
    if piece == "postcard":
        words = owner.post("/message-templates", {"type": piece, "name": "Hi", "content": "Hi!"}).json()["id"]
        accepted += [AUDIENCE | {"message_template": words, "image_template": front}]
        refused += [AUDIENCE | {"message_template": words}]
    assert [both(owner, path, body) for body in accepted] == [(True, True)] * len(accepted)
    assert [both(owner, path, body) for body in refused] == [(False, False)] * len(refused)


def test_a_blank_message_is_described_where_it_may_be(owner: Account, container: Container) -> None:
    blank = AUDIENCE | {"message": ""}
    may_be = accepts("/send/postcard")
    assert not may_be(blank)
    assert may_be(blank | {"custom_background_image": "https://example.com/a.png"})
    assert may_be(blank | {"sub_account_id": make_sub_account(container, owner)})
    assert not accepts("/send/giftcard")(blank | GIFT)


def test_a_letter_of_a_pdf_alone_is_described() -> None:
    for piece in LETTERS:
        assert accepts(f"/send/{piece}")(AUDIENCE | {"pdf_only_url": "https://example.com/a.pdf"})
        assert accepts(f"/send/{piece}")(AUDIENCE | {"message_template": 12})


@pytest.mark.parametrize(
    ("path", "good", "bad"),
    [
        ("/recipients", {"email": "jane@example.com"}, {"name": "Jane"}),
        ("/recipients", {"address": "12 Main St, Austin, TX 78701"}, {"address": " "}),
        ("/recipients-utils/delete-by-address", {"email": "jane@example.com"}, {"city": "Austin"}),
        ("/recipients/erase", {"email": "jane@example.com"}, {}),
        ("/message-templates", {"type": "postcard", "content": "Hi!"}, {"type": "postcard"}),
        (
            "/message-templates",
            {"type": "notecard", "custom_background_url": "https://example.com/a.png"},
            {"type": "letter", "content": ""},
        ),
        (
            "/message-templates",
            {"type": "giftcard", "content": "Hi!", "giftcard_brand_code": "brindlewick", "giftcard_amount": 2_500},
            {"type": "giftcard", "content": "Hi!"},
        ),
        ("/automations", {"send": {"piece": "postcard", "message": "Hi!"}}, {"send": {"message": "Hi!"}}),
    ],
)
def test_other_bodies_say_what_they_need(owner: Account, path: str, good: Body, bad: Body) -> None:
    list_id = owner.post("/mailing-lists", {"description": "Friends"}).json()["id"]
    common: Body = {"mailing_list_id": list_id, "name": "Saved", "trigger": "list_entry"}
    assert both(owner, path, common | good)[0]
    assert both(owner, path, common | bad) == (False, False)


@pytest.mark.parametrize("name", ["print.pdf", "manifest.csv", "manifest.json", "ticket.xjdf"])
def test_files_of_batches_have_the_types_that_are_described(name: str) -> None:
    assert BatchFileInfo(name, 1, "").content_type.partition(";")[0] in FILE_CONTENT


def test_files_have_the_types_that_are_described(owner: Account) -> None:
    order = owner.send().json()["id"]
    list_id = owner.post("/mailing-lists", {"description": "Friends"}).json()["id"]
    for path, pattern in (
        (f"/orders/{order}/proof", "/orders/{order_id}/proof"),
        (f"/mailing-lists/{list_id}/export", "/mailing-lists/{mailing_list_id}/export"),
    ):
        described = DESCRIPTION["paths"][f"/api/v2{pattern}"]["get"]["responses"]["200"]["content"]
        answer = owner.get(path)
        assert answer.status_code == 200
        assert [answer.headers["Content-Type"].partition(";")[0]] == list(described)


EMPTY = [b"", b" \n", b",", b",,\n,,\n", b'""', b'"",""\n"",""', b";;", b"\xef\xbb\xbf,,", b"\0", b"\xff\xfe\n\0"]


@pytest.mark.parametrize("empty", EMPTY)
def test_an_empty_file_has_no_preview(owner: Account, empty: bytes) -> None:
    whole = owner.call("POST", "/imports/preview", content=empty, headers={"Content-Type": "text/csv"})
    form = owner.call("POST", "/imports/preview", files={"file": ("a.csv", empty, "text/csv")})
    for refused in (whole, form):
        assert (refused.status_code, list(refused.json()["errors"])) == (422, ["file"]), refused.text
