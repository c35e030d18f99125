"""Saved messages, images and sub accounts on pages: what is shown, drawn, saved, refused and deleted."""

import re
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest
import sqlalchemy as sa
from PIL import Image

from quillpost.core.database.tables.base import message_templates, sub_accounts
from quillpost.web.application import create_app
from support.factories import Build
from support.images import ImageServer
from support.pages import ADDRESS, AccountPages, assert_hides, assert_shows, form_errors
from support.test_client import TestClient

SPRING: dict[str, Any] = {"type": "postcard", "name": "Spring", "content": "Hi %FIRST_NAME%, spring is here!"}
MESSAGES, IMAGES = "/templates/messages", "/templates/images"
HOME: dict[str, Any] = {"return_name": "Dana", **ADDRESS}
PART = {"HX-Request": "true"}
LONG = "word " * 900


@pytest.fixture
def with_pictures(build: Build) -> Iterator[AccountPages]:
    """Pictures may be on loopback here."""
    container = build(allow_private_urls=True)
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        yield AccountPages(container, http)


def saved(house: AccountPages) -> list[tuple[str, str, str, int | None]]:
    c = message_templates.c
    own = sa.select(c.name, c.type, c.content, c.sub_account_id).where(c.account_id == house.account.id)
    return [(row.name, row.type, row.content, row.sub_account_id) for row in house.rows(own.order_by(c.id))]


def save(house: AccountPages, **changes: Any) -> str:
    """The page of a saved message."""
    return f"{MESSAGES}/{house.account.post('/message-templates', SPRING | changes).json()['id']}"


def test_a_message_is_written_once_found_changed_and_deleted(house: AccountPages) -> None:
    page = house.member
    assert_shows(page.get("/templates"), "Keep what you write often")
    typed = SPRING | {"handwriting_style_id": 3, "sub_account_id": "", "once": "a" * 22}
    assert_shows(page.post(f"{MESSAGES}/new", **typed), "The message is saved.", "Spring")
    assert page.post(f"{MESSAGES}/new", **typed).status_code == 409
    assert saved(house) == [("Spring", "postcard", SPRING["content"], None)]
    save(house, type="letter", name="Autumn")
    assert_hides(page.get("/templates?q=SPRI"), "Autumn")
    assert_hides(page.get("/templates?kind=letter&page=nonsense"), "Spring")
    assert_shows(page.get("/templates?q=%25"), "Nothing found")  # a sign like any other
    [address] = set(re.findall(rf'({MESSAGES}/\d+)"', page.get("/templates?q=spring").text))
    form = page.get(address).text
    assert_shows(form, SPRING["content"])
    assert re.search(r'name="handwriting_style_id" value="3" checked', form)
    page.post(address, **SPRING | {"name": "Spring 2", "content": "Hello\r\nyou"}, font_size="small")
    assert saved(house)[0] == ("Spring 2", "postcard", "Hello\nyou", None)
    assert_shows(page.get(f"{address}/delete"), "Delete “Spring 2”?")
    assert_shows(page.post(f"{address}/delete"), "The message is deleted.")
    assert [name for name, *_ in saved(house)] == ["Autumn"]


def test_what_is_wrong_is_beside_its_field_and_not_kept(house: AccountPages, subtests: pytest.Subtests) -> None:
    wrong: dict[str, Any] = {"content": "Hi %NOBODY%", "font_color": "own", "qrcode_url": "ftp://example.com"}
    colored = wrong | {"font_color_own": "mauve-ish"}
    house.refuses_forms(
        subtests, f"{MESSAGES}/new", SPRING,
        [
            *((colored, name, "") for name in wrong), ({"name": " "}, "name", ""),
            ({"gift": "brindlewick:x"}, "gift", ""),
            ({"type": "giftcard"}, "gift", "Choose the gift card that it brings."),
            ({"sub_account_id": 999_999}, "sub_account_id", ""),
        ],
    )  # fmt: skip
    assert_shows(
        house.owner.post(f"{MESSAGES}/new", **SPRING | colored), 'name="font_color" value="own" checked',
        'name="font_color_own" value="mauve-ish"', "Hi %NOBODY%",
    )  # fmt: skip
    gift = house.owner.post(f"{MESSAGES}/new", **SPRING | {"type": "giftcard"}).text
    assert_hides(re.sub(r'value="[^"]*"', "", gift), "giftcard_")
    assert saved(house) == []


def test_a_gift_card_is_chosen_from_the_brands(house: AccountPages) -> None:
    brands = house.owner.get("/templates/giftcards").text
    [link] = re.findall(rf'href="({MESSAGES}/new\?gift=brindlewick:500)"', brands)
    assert_shows(house.owner.get(link), 'value="brindlewick:500" selected')
    house.owner.post(f"{MESSAGES}/new", **SPRING | {"type": "giftcard"}, gift="brindlewick:500")
    found = house.account.get("/message-templates").json()["data"][0]
    assert (found["giftcard_brand_code"], found["giftcard_amount"]) == ("brindlewick", 500)


def test_a_message_is_drawn_in_small_and_while_it_is_written(house: AccountPages) -> None:
    page = save(house)
    address, at = f"{page}/small.png", page.replace(MESSAGES, "/message-templates")
    drawn = house.owner.get(address)
    assert drawn.headers["Cache-Control"] == "private, no-cache"
    assert Image.open(BytesIO(drawn.content)).size == (480, 320)
    known = {"If-None-Match": drawn.headers["ETag"]}
    again = house.owner.get(address, headers=known)
    assert (again.status_code, again.content) == (304, b"")
    house.account.put(at, {"content": "Something else"})
    changed = house.owner.get(address, headers=known)
    assert (changed.status_code, changed.content == drawn.content) == (200, False)
    house.account.put(at, {"content": LONG})
    assert house.owner.get(address).status_code == 200
    look = house.owner.post(f"{MESSAGES}/preview", **SPRING | {"name": ""}, headers=PART)
    assert_hides(look, "<html")
    whole = house.owner.post(f"{MESSAGES}/preview", **SPRING)
    assert "img-src 'self' data:" in whole.headers["Content-Security-Policy"]
    for shown in (look, whole):
        assert_shows(shown, "data:image/png;base64,")
    too_long = house.owner.post(f"{MESSAGES}/preview", **SPRING | {"content": LONG}, headers=PART)
    assert_shows(too_long, "too long for a 4x6 postcard")


def test_what_an_order_waits_for_is_not_deleted_and_the_page_says_why(house: AccountPages) -> None:
    page = save(house)
    assert house.account.send(message_template=int(page.rpartition("/")[2])).status_code == 200
    assert_shows(house.owner.get(f"{page}/delete"), "It cannot be deleted yet. Order")
    assert_shows(house.owner.post(f"{page}/delete"), "cancel it first", status=400)
    assert len(saved(house)) == 1


def test_what_a_limited_teammate_saves_is_their_sub_account_s(house: AccountPages) -> None:
    house.limited.post(f"{MESSAGES}/new", **SPRING)
    assert [home for *_, home in saved(house)] == [house.branch]
    assert_shows(house.owner.get("/templates"), "Dallas")
    assert_hides(house.limited.get(f"{MESSAGES}/new"), "sub_account_id")
    number = house.account.get("/message-templates").json()["data"][0]["id"]
    house.limited.post(f"{MESSAGES}/{number}", **SPRING | {"name": "Ours"})
    assert [(name, home) for name, _, _, home in saved(house)] == [("Ours", house.branch)]


def test_an_image_is_fetched_drawn_changed_and_deleted(with_pictures: AccountPages, art: ImageServer) -> None:
    house, page = with_pictures, with_pictures.member
    assert_shows(page.get(IMAGES), "The picture on the front")
    sea: dict[str, Any] = {"type": "postcard", "name": "Sea", "once": "b" * 22}
    for image, words in (None, ""), (art.url("/gone"), "could not be fetched"):
        refused = page.post(f"{IMAGES}/new", **sea, image=image)
        assert (refused.status_code, words in form_errors(refused)["image"]) == (422, True)
    assert_shows(page.post(f"{IMAGES}/new", **sea, image=art.picture("teal")), "The image is saved.")
    assert page.post(f"{IMAGES}/new", **sea, image=art.picture()).status_code == 409
    (template,) = house.account.get("/image-templates").json()["data"]
    address = f"{IMAGES}/{template['id']}"
    small = Image.open(BytesIO(page.get(f"{address}/small.png").content)).convert("RGB")
    assert (small.size, small.getpixel((240, 160))) == ((480, 320), (0, 128, 128))
    page.post(address, type="postcard", name="Lake", image="")
    (template,) = house.account.get("/image-templates").json()["data"]
    assert template["name"] == "Lake"
    assert_shows(page.post(f"{address}/delete"), "The image is deleted.")
    assert house.account.get("/image-templates").json()["data"] == []


def test_a_sub_account_is_made_looked_at_changed_and_deleted(house: AccountPages) -> None:
    company: dict[str, Any] = {"company": "Whitfield Homes", "accentColor": "#1f4e79", **HOME}
    made = house.owner.post("/sub-accounts/new", title="Austin", once="c" * 22, **company)
    assert_shows(made, "The sub account is made.", "500 Congress Ave")
    assert house.owner.post("/sub-accounts/new", title="Austin", once="c" * 22, **company).status_code == 409
    address = f"/sub-accounts/{house.account.get('/sub-accounts').json()['data'][-1]['id']}"
    house.account.put(address, {"branding_fields": {"set": 7}})
    assert_shows(house.owner.get(f"{address}/edit"), 'value="Whitfield Homes"')
    house.owner.post(f"{address}/edit", title="Waco", **company | {"company": ""})
    now = house.account.get(address).json()
    assert (now["title"], now["branding_fields"]["company"]) == ("Waco", None)
    assert now["branding_fields"]["set"] == 7  # a program's own mark, of which the form knows nothing
    assert_shows(house.owner.get(f"{address}/delete"), "Delete “Waco”?")
    assert_shows(house.owner.post(f"{address}/delete"), "The sub account is deleted.")
    assert house.account.get(address).status_code == 404
    assert house.acts()[:2] == ["sub_account.deleted", "sub_account.created"]
    # What it still has keeps it.
    save(house, sub_account_id=house.branch)
    assert_shows(house.owner.post(f"/sub-accounts/{house.branch}/delete"), "still has 1 message template", status=400)
    assert house.account.get(f"/sub-accounts/{house.branch}").status_code == 200


def test_what_is_wrong_with_one_is_beside_its_field(house: AccountPages, subtests: pytest.Subtests) -> None:
    odd: dict[str, Any] = {"title": " ", "accentColor": "mauve-ish", "return_city": "Austin", "logo": "ftp://x.example"}
    known: dict[str, Any] = {"title": "Dallas", "return_city": "Austin", "logo": "ftp://x.example"}
    house.refuses_forms(
        subtests, "/sub-accounts/new", odd, [({}, "title", ""), ({}, "accentColor", "write it as #1f4e79.")]
    )
    edit = f"/sub-accounts/{house.branch}/edit"
    house.refuses_forms(subtests, edit, known, [({}, "return_address", ""), ({}, "logo", "")])
    assert_shows(house.owner.post(edit, **known), 'value="ftp://x.example"')
    for path in ("/sub-accounts/new", "/sub-accounts/preview"):
        assert_hides(house.owner.post(path, **odd), "rgba")
    assert house.stranger.post("/sub-accounts/preview", sub_account_id=house.branch).status_code == 404


def test_the_front_of_a_sub_account_is_drawn_as_it_would_print(with_pictures: AccountPages, art: ImageServer) -> None:
    house = with_pictures

    def preview(**fields: Any) -> str:
        return house.owner.post("/sub-accounts/preview", headers=PART, **fields).text

    bare, named, logo = preview(), preview(company="Whitfield"), preview(logo=art.picture("teal"))
    assert_shows(named, "data:image/png;base64,")
    assert len({bare, named, logo}) == 3
    assert_shows(preview(logo=art.url("/gone")), "could not be fetched")
    assert_shows(preview(accentColor="mauve-ish"), "This is no color that we know.")
    whole = house.owner.post("/sub-accounts/preview", title="Kept", company="Whitfield")
    assert_shows(whole, 'value="Kept"', "data:image/png;base64,")
    address = f"/sub-accounts/{house.branch}/front.png"
    first = house.member.get(address)
    assert Image.open(BytesIO(first.content)).size == (900, 600)
    assert first.headers["Cache-Control"] == "private, no-cache"
    known = {"If-None-Match": first.headers["ETag"]}
    assert house.member.get(address, headers=known).status_code == 304
    house.account.put(f"/sub-accounts/{house.branch}", {"branding_fields": {"company": "Whitfield"}})
    assert house.member.get(address, headers=known).content != first.content


def test_the_list_of_sub_accounts_tells_what_each_has_sent(house: AccountPages) -> None:
    now = house.parts.clock()
    common = {"account_id": house.account.id, "branding": {}, "backgrounds": {}, "created_at": now, "updated_at": now}
    house.execute(sa.insert(sub_accounts).values([common | {"title": f"Branch {n:02}"} for n in range(60)]))
    for _ in range(3):
        assert house.account.send(sub_account_id=house.branch).status_code == 200
    page = house.owner.get("/sub-accounts?q=dALL")
    assert_shows(page, f'<a href="/orders?sub_account={house.branch}">3</a>', hides=["Branch 07"])
    assert_shows(house.owner.get("/sub-accounts?page=2"), "Branch 59")
    assert_hides(house.limited.get("/sub-accounts"), "Branch 07")
    assert_hides(house.member.get("/sub-accounts"), "/sub-accounts/new")
