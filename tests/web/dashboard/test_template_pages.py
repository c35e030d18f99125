"""Saved messages and images on pages: what is shown, saved, refused, deleted, and to whom."""

import re
from io import BytesIO
from typing import Any

import pytest
import sqlalchemy as sa
from PIL import Image

from quillpost.app.container import Container
from quillpost.core.database.tables.base import message_templates
from support.account_pages import AccountPages
from support.factories import Build
from support.image_server import ImageServer
from support.test_client import TestClient

SPRING: dict[str, Any] = {"type": "postcard", "name": "Spring", "content": "Hi %FIRST_NAME%, spring is here!"}


@pytest.fixture
def container(build: Build) -> Container:
    """Pictures may be on loopback here."""
    return build(allow_private_urls=True)


@pytest.fixture
def house(container: Container, http: TestClient) -> AccountPages:
    return AccountPages(container, http)


def saved(house: AccountPages) -> list[tuple[str, str, str, int | None]]:
    table = message_templates
    with house.parts.db.system_transaction() as tx:
        rows = tx.execute(
            sa.select(table.c.name, table.c.type, table.c.content, table.c.sub_account_id).order_by(table.c.id)
        )
        return [(row[0], row[1], row[2], row[3]) for row in rows]


class TestMessages:
    def test_one_is_written_found_changed_and_deleted(self, house: AccountPages) -> None:
        page = house.member
        assert "Keep what you write often" in page.get("/templates").text
        made = page.post("/templates/messages/new", **SPRING, handwriting_style_id=3, sub_account_id="")
        assert "The message is saved." in made.text
        assert "Spring" in made.text
        assert saved(house) == [("Spring", "postcard", SPRING["content"], None)]
        house.account.post("/message-templates", {"type": "letter", "name": "Autumn", "content": "Hi"})

        assert "Autumn" not in page.get("/templates?q=SPRI").text
        assert "Spring" not in page.get("/templates?kind=letter&page=nonsense").text
        assert "Nothing found" in page.get("/templates?q=%25").text  # a sign like any other

        number = re.search(r'/templates/messages/(\d+)"', page.get("/templates?q=spring").text)
        assert number is not None
        address = f"/templates/messages/{number[1]}"
        form = page.get(address).text
        assert SPRING["content"] in form
        assert re.search(r'name="handwriting_style_id" value="3" checked', form)
        page.post(address, **SPRING | {"name": "Spring 2", "content": "Hello\r\nyou"}, font_size="small")
        assert saved(house)[0] == ("Spring 2", "postcard", "Hello\nyou", None)

        assert "Delete “Spring 2”?" in page.get(f"{address}/delete").text
        assert "The message is deleted." in page.post(f"{address}/delete").text
        assert [name for name, *_ in saved(house)] == ["Autumn"]

    def test_the_same_form_twice_is_one_message(self, house: AccountPages) -> None:
        once = "a" * 22
        assert house.owner.post("/templates/messages/new", **SPRING, once=once).status_code == 200
        assert house.owner.post("/templates/messages/new", **SPRING, once=once).status_code == 409
        assert len(saved(house)) == 1

    def test_what_is_wrong_stands_beside_its_field_and_nothing_is_kept(self, house: AccountPages) -> None:
        wrong: dict[str, Any] = {"content": "Hi %NOBODY%", "font_color": "own", "qrcode_url": "ftp://example.com"}
        answer = house.owner.post("/templates/messages/new", **SPRING | wrong, font_color_own="mauve-ish")
        assert answer.status_code == 422
        for name in wrong:
            assert f'id="{name}-fault"' in answer.text, name
        assert 'name="font_color" value="own" checked' in answer.text
        assert 'name="font_color_own" value="mauve-ish"' in answer.text
        assert "Hi %NOBODY%" in answer.text
        nameless = house.owner.post("/templates/messages/new", **SPRING | {"name": " "})
        assert 'id="name-fault"' in nameless.text
        gift = house.owner.post("/templates/messages/new", **SPRING | {"type": "giftcard"})
        assert "Choose the gift card that it brings." in gift.text
        assert "giftcard_" not in re.sub(r'value="[^"]*"', "", gift.text)
        assert house.owner.post("/templates/messages/new", **SPRING, gift="brindlewick:x").status_code == 422
        assert house.owner.post("/templates/messages/new", **SPRING, sub_account_id=99).status_code == 422
        assert saved(house) == []

    def test_a_gift_card_is_chosen_from_the_brands(self, house: AccountPages) -> None:
        brands = house.owner.get("/templates/giftcards").text
        link = re.search(r'href="(/templates/messages/new\?gift=brindlewick:500)"', brands)
        assert link is not None
        assert 'value="brindlewick:500" selected' in house.owner.get(link[1]).text
        house.owner.post("/templates/messages/new", **SPRING | {"type": "giftcard"}, gift="brindlewick:500")
        found = house.account.get("/message-templates").json()["data"][0]
        assert (found["giftcard_brand_code"], found["giftcard_amount"]) == ("brindlewick", 500)

    def test_it_is_drawn_in_small_and_while_it_is_written(self, house: AccountPages) -> None:
        number = house.account.post("/message-templates", SPRING).json()["id"]
        address = f"/templates/messages/{number}/small.png"
        drawn = house.owner.get(address)
        assert drawn.headers["Cache-Control"] == "private, no-cache"
        assert Image.open(BytesIO(drawn.content)).size == (480, 320)
        again = house.owner.get(address, headers={"If-None-Match": drawn.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")
        house.account.put(f"/message-templates/{number}", {"content": "Something else"})
        changed = house.owner.get(address, headers={"If-None-Match": drawn.headers["ETag"]})
        assert changed.status_code == 200
        assert changed.content != drawn.content
        house.account.put(f"/message-templates/{number}", {"content": "word " * 900})
        assert house.owner.get(address).status_code == 200

        part = {"HX-Request": "true"}
        look = house.owner.post("/templates/messages/preview", **SPRING | {"name": ""}, headers=part)
        assert "data:image/png;base64," in look.text
        assert "<html" not in look.text
        whole = house.owner.post("/templates/messages/preview", **SPRING)
        assert "data:image/png;base64," in whole.text
        assert "img-src 'self' data:" in whole.headers["Content-Security-Policy"]
        too_long = SPRING | {"content": "word " * 900}
        response = house.owner.post("/templates/messages/preview", **too_long, headers=part)
        assert "too long for a 4x6 postcard" in response.text

    def test_what_an_order_waits_for_is_not_deleted_and_the_page_says_why(self, house: AccountPages) -> None:
        number = house.account.post("/message-templates", SPRING).json()["id"]
        assert house.account.send(message_template=number).status_code == 200
        address = f"/templates/messages/{number}/delete"
        assert "It cannot be deleted yet. Order" in house.owner.get(address).text
        refused = house.owner.post(address)
        assert refused.status_code == 400
        assert "cancel it first" in refused.text
        assert len(saved(house)) == 1


class TestImages:
    def test_one_is_fetched_drawn_changed_and_deleted(self, house: AccountPages, art: ImageServer) -> None:
        page = house.member
        assert "The picture on the front" in page.get("/templates/images").text
        new = "/templates/images/new"
        refused = page.post(new, type="postcard", name="Sea")
        assert refused.status_code == 422
        assert 'id="image-fault"' in refused.text
        gone = page.post(new, type="postcard", name="Sea", image=art.url("/gone"))
        assert gone.status_code == 422
        assert 'id="image-fault"' in gone.text
        assert "could not be fetched" in gone.text
        once = "b" * 22
        made = page.post(new, type="postcard", name="Sea", image=art.picture("teal"), once=once)
        assert "The image is saved." in made.text
        assert page.post(new, type="postcard", name="Sea", image=art.picture(), once=once).status_code == 409
        (template,) = house.account.get("/image-templates").json()["data"]
        address = f"/templates/images/{template['id']}"
        small = Image.open(BytesIO(page.get(f"{address}/small.png").content)).convert("RGB")
        assert small.size == (480, 320)
        assert small.getpixel((240, 160)) == (0, 128, 128)
        page.post(address, type="postcard", name="Lake", image="")
        (template,) = house.account.get("/image-templates").json()["data"]
        assert template["name"] == "Lake"
        assert "The image is deleted." in page.post(f"{address}/delete").text
        assert house.account.get("/image-templates").json()["data"] == []


def test_what_is_another_s_is_as_if_unknown(house: AccountPages, art: ImageServer) -> None:
    message = house.account.post("/message-templates", SPRING).json()["id"]
    body = {"type": "postcard", "name": "Sea", "image": art.picture()}
    image = house.account.post("/image-templates", body).json()["id"]
    others = house.stranger, house.limited
    before = house.everything()
    for browser in others:
        for kind, number in (("messages", message), ("images", image)):
            for page in ("", "/delete", "/small.png"):
                path = f"/templates/{kind}/{number}{page}"
                assert house.is_as_if_unknown(browser, path, number), path
            for act in ("", "/delete"):
                answer = browser.post(f"/templates/{kind}/{number}{act}", **SPRING)
                assert answer.status_code == 404, (kind, act)
        for page in ("/templates", "/templates/images"):
            assert "Spring" not in browser.get(page).text
            assert "Sea" not in browser.get(page).text
    assert house.everything() == before


def test_what_a_limited_teammate_saves_is_their_sub_account_s(house: AccountPages) -> None:
    house.limited.post("/templates/messages/new", **SPRING)
    assert [home for *_, home in saved(house)] == [house.branch]
    assert "Dallas" in house.owner.get("/templates").text
    assert "sub_account_id" not in house.limited.get("/templates/messages/new").text
    number = house.account.get("/message-templates").json()["data"][0]["id"]
    house.limited.post(f"/templates/messages/{number}", **SPRING | {"name": "Ours"})
    assert [(name, home) for name, _, _, home in saved(house)] == [("Ours", house.branch)]
