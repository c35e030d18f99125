"""`POST /preview`: how a piece would look, without an audience and without an order."""

import pytest

from quillpost.web.api.responses import IGNORED_HEADER
from support.factories import GIFT, Account, person

TYPES = {
    "postcard": ["front", "back"],
    "postcard6x9": ["front", "back"],
    "6x11-postcard": ["front", "back"],
    "letter": ["cover"],
    "letter/windowed": ["cover"],
    "windowless-letter": ["cover"],
    "notecard": ["front", "back"],
    "magnacard": ["front", "back"],
}


@pytest.mark.parametrize("kind", TYPES)
def test_a_piece_is_named_by_its_type_and_drawn_for_a_sample(owner: Account, kind: str) -> None:
    shown = owner.post("/preview", {"type": kind, "message": "Hi %FIRST_NAME%!"})
    assert (shown.status_code, shown.headers.get(IGNORED_HEADER)) == (200, None), shown.text
    data = shown.json()["data"]
    assert (data["sides"], len(data["previews"])) == (TYPES[kind], len(TYPES[kind]))
    assert owner.http.get(data["previews"][0]).headers["content-type"] == "image/png"
    assert owner.get("/orders").json()["meta"]["total"] == 0


def test_each_piece_has_an_address_of_its_own(owner: Account) -> None:
    for path in ("postcard", "letter/windowed", "letter/windowless", "windowedletter", "notecard"):
        shown = owner.post(f"/preview/{path}", {"message": "Hi!"})
        assert (shown.status_code, bool(shown.json()["data"]["previews"])) == (200, True), path
    gift = owner.post("/preview/giftcard", {"message": "Hi!", **GIFT})
    assert gift.json()["data"]["sides"] == ["front", "back"]


def test_the_size_comes_from_the_type_unless_given(owner: Account) -> None:
    by_name = owner.post("/preview", {"type": "postcard6x9", "message": "Hi!", "recipients": [person()]})
    by_size = owner.post("/preview/postcard", {"size": "6x9", "message": "Hi!", "recipients": [person()]})
    nulls = {"type": None, "piece": "postcard6x9", "size": None}
    by_piece = owner.post("/preview", {**nulls, "message": "Hi!", "recipients": [person()]})
    assert by_piece.headers.get(IGNORED_HEADER) is None
    all_three = (by_name, by_size, by_piece)
    pictures = [owner.http.get(each.json()["data"]["previews"][0]).content for each in all_three]
    assert pictures[0] == pictures[1] == pictures[2]


def test_what_is_wrong_is_named(owner: Account) -> None:
    for body in ({"message": "Hi!"}, {"type": "poster", "message": "Hi!"}, {"type": None}):
        refused = owner.post("/preview", body)
        [error] = refused.json()["errors"]["type"]
        assert (refused.status_code, "postcard6x9" in error) == (422, True)
    assert "message" in owner.post("/preview", {"piece": "postcard"}).json()["errors"]
    unknown = owner.post("/preview", {"piece": "postcard", "message": "Hi!", "colour": 1, "pdf_only_url": "x"})
    assert unknown.headers[IGNORED_HEADER] == "colour, pdf_only_url"
    assert owner.post("/preview", [1]).status_code == 422
