"""What published clients read of sub accounts, templates and orders, and expect to find there."""

from typing import Any

import pytest

from quillpost.app.container import Container
from support.factories import Account, Build, Clock
from support.image_server import ImageServer


@pytest.fixture
def container(build: Build) -> Container:
    return build(allow_private_urls=True)


def test_a_sub_account_has_its_title_for_a_name(owner: Account) -> None:
    made = owner.post("/sub-accounts", {"title": "Austin office"}).json()
    assert made["name"] == made["title"] == "Austin office"
    changed = owner.put(f"/sub-accounts/{made['id']}", {"name": "Dallas office"}).json()
    assert changed["name"] == changed["title"] == "Dallas office"
    assert [each["name"] for each in owner.get("/sub-accounts").json()["data"]] == ["Dallas office"]
    sent = owner.send(sub_account_id=made["id"]).json()
    assert sent["sub_account"]["name"] == "Dallas office"


def saved_image(owner: Account, art: ImageServer, **fields: Any) -> dict[str, Any]:
    body = {"type": "postcard", "name": "Saved", "image": art.picture()} | fields
    made = owner.post("/image-templates", body)
    assert made.status_code == 201, made.text
    return dict(made.json())


def test_a_template_and_its_orders_show_one_address(owner: Account, art: ImageServer, clock: Clock) -> None:
    saved = saved_image(owner, art)
    clock.advance(hours=5)
    sent = owner.send(image_template=saved["id"]).json()
    order = owner.get(f"/orders/{sent['id']}").json()
    read = owner.get(f"/image-templates/{saved['id']}").json()
    assert saved["image"] == read["image"] == sent["front_image"] == order["front_image"]
    [listed] = owner.get("/orders").json()["data"]
    assert listed["front_image"] == saved["image"]


def test_that_address_opens_for_as_long_as_it_is_shown(owner: Account, art: ImageServer, clock: Clock) -> None:
    saved = saved_image(owner, art)
    sent = owner.send(image_template=saved["id"]).json()
    picture = owner.http.get(saved["image"])
    assert (picture.status_code, picture.headers["Content-Type"]) == (200, "image/png")
    clock.advance(days=40 * 365)
    assert owner.http.get(saved["image"]).content == picture.content
    assert sent["front_image"] == saved["image"]


def test_an_order_keeps_the_address_of_the_image_that_it_was_sent_with(owner: Account, art: ImageServer) -> None:
    saved = saved_image(owner, art)
    sent = owner.send(image_template=saved["id"]).json()
    changed = owner.put(f"/image-templates/{saved['id']}", {"image": art.picture("gold")}).json()
    assert changed["image"] != saved["image"]
    assert owner.get(f"/orders/{sent['id']}").json()["front_image"] == saved["image"]
    assert owner.http.get(saved["image"]).status_code == 200


def test_a_message_template_always_says_how_it_is_written(owner: Account) -> None:
    made = owner.post("/message-templates", {"type": "postcard", "name": "Hi", "content": "Hi!"}).json()
    as_a_send = owner.send(message="Hi!").json()
    assert made["font_size"] == as_a_send["font_size"] == "auto"
    assert made["font_color"] == as_a_send["handwriting_color"] == "rgba(20,42,130,1)"
    assert made["handwriting_realism"] is True
    assert made["handwriting_style_id"] == as_a_send["style"]
    own = {"font_size": "small", "font_color": "#123456", "handwriting_realism": False}
    changed = owner.put(f"/message-templates/{made['id']}", own).json()
    assert {name: changed[name] for name in own} == own
    cleared = owner.put(f"/message-templates/{made['id']}", dict.fromkeys(own)).json()
    assert {name: cleared[name] for name in own} == {name: made[name] for name in own}
