"""A stored send is checked when it is stored, exactly as the send is."""

from typing import Any

import pytest

from quillpost.app.container import Container
from support.factories import GIFT, Account, Build, person, postcard, read_warnings
from support.image_server import ImageServer
from support.traces import traces


@pytest.fixture
def container(build: Build) -> Container:
    return build(allow_private_urls=True)


def refusals(art: ImageServer) -> dict[str, tuple[str, dict[str, Any]]]:
    """A body for each way in which a send is refused: of its form, ids, pictures, words, prices and gift."""
    abroad = person(country="FR", province=None, postal_code="75001")
    return {
        "address": ("postcard", {"recipients": [person(postal_code="1")]}),
        "nobody": ("postcard", {"recipients": []}),
        "no words": ("notecard", {"message": None}),
        "list": ("postcard", {"mailing_list_ids": [999]}),
        "sub account": ("postcard", {"sub_account_id": 999}),
        "message template": ("postcard", {"message_template": 999}),
        "image template": ("postcard", {"image_template": 999}),
        "style": ("postcard", {"handwriting_style": 999}),
        "variable": ("postcard", {"message": "Hi %NOBODY%"}),
        "color": ("postcard", {"handwriting_color": "invisible"}),
        "too long": ("postcard", {"message": "word " * 900}),
        "no picture": ("postcard", {"front_image_url": art.url("/gone")}),
        "no image": ("postcard", {"custom_background_image": art.letter()}),
        "no PDF": ("windowed-letter", {"pdf_only_url": art.picture()}),
        "brand": ("giftcard", {"giftcard_brand": "nobody's"}),
        "amount": ("giftcard", {"giftcard_amount": 7}),
        "no price": ("postcard", {"recipients": [abroad], "send_standard_mail": True}),
        "schedule": ("postcard", {"schedule_for": "2020-01-01"}),
        "radius": ("postcard", {"radius_search": {"address": "12 Main St, Austin, TX 78701", "record_count": 5}}),
    }


def test_whatever_refuses_the_send_refuses_to_store_it(owner: Account, container: Container, art: ImageServer) -> None:
    before = traces(container)
    for why, (piece, changes) in refusals(art).items():
        body = postcard(**(GIFT if piece == "giftcard" else {}) | changes)
        sent, stored = (owner.post(f"/{verb}/{piece}", body) for verb in ("send", "stored_send"))
        assert sent.status_code in (400, 422), (why, sent.text)
        assert (stored.status_code, stored.json()) == (sent.status_code, sent.json()), why
    assert traces(container) == before


def test_what_is_stored_is_warned_of_and_its_unused_fields_are_named(owner: Account, art: ImageServer) -> None:
    body = postcard(pdf_only_url=art.letter())
    sent, stored = (owner.post(f"/{verb}/letter", body) for verb in ("send", "stored_send"))
    assert read_warnings(stored) == read_warnings(sent) != []
    assert stored.headers["X-Ignored-Fields"] == sent.headers["X-Ignored-Fields"] == "message"


def test_pictures_are_fetched_again_when_it_is_sent(owner: Account, art: ImageServer) -> None:
    stored = owner.post("/stored_send/postcard", postcard(front_image_url=art.picture("plum")))
    fetched = sum(b"/plum.png" in request for request in art.requests)
    sent = owner.get(stored.json()["stored_send_url"].partition("/api/v2")[2])
    assert sent.status_code == 200
    assert sum(b"/plum.png" in request for request in art.requests) == fetched + 1
