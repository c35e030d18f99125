"""Saved images and messages: made, read, changed by the rules of their kind, and deleted."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response
from PIL import Image

from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.base import files, image_templates, orders
from quillpost.core.errors import Refused
from quillpost.orders.templates.service import IMAGE_TEMPLATES, MESSAGE_TEMPLATES
from support.factories import Account, Clock, make_sub_account, make_teammate, read_warnings
from support.images import ImageServer
from support.rows import execute, run_as
from support.test_client import TestClient
from support.traces import assert_refused, unchanged
from support.uploads import BLUE, RED, form_of, jpeg, png, print_sized, upload

PDF = "https://example.com/letter.pdf"
URL = "https://example.com/a"
NEEDED: dict[str, dict[str, Any]] = {"giftcard": {"giftcard_brand_code": "brindlewick", "giftcard_amount": 2_500}}


def save(account: Account, **changes: Any) -> Response:
    """A good message template of its type, but for the changes."""
    kind = changes.get("type", "postcard")
    good = {"type": kind, "name": "Thanks", "content": "Hi %FIRST_NAME%!"} | NEEDED.get(str(kind), {})
    return account.post("/message-templates", good | changes)


def change(account: Account, template: int, **changes: Any) -> Response:
    return account.put(f"/message-templates/{template}", changes)


@dataclass(frozen=True)
class Kind:
    path: str
    make: Callable[..., Response]
    stored: Any
    column: str
    """Of an order that goes with it."""


IMAGES = Kind("/image-templates", upload, IMAGE_TEMPLATES, "image_template_id")
MESSAGES = Kind("/message-templates", save, MESSAGE_TEMPLATES, "message_template_id")
of_both_kinds = pytest.mark.parametrize("kind", [IMAGES, MESSAGES], ids=["images", "messages"])


@of_both_kinds
def test_a_template_that_an_order_waits_with_is_not_deleted(owner: Account, container: Container, kind: Kind) -> None:
    order = owner.send().json()["id"]
    for mode, status in (("test", "reviewing"), ("live", "paused")):
        path = f"{kind.path}/{(template := kind.make(owner).json()['id'])}"
        waits = {kind.column: template, "mode": mode, "status": status}
        execute(container, sa.update(orders).where(orders.c.id == order).values(waits))
        refused = owner.delete(path)
        assert (refused.status_code, f"Order {order} " in refused.json()["message"]) == (400, True)
        ended = "fulfilled" if mode == "test" else "cancelled"
        execute(container, sa.update(orders).where(orders.c.id == order).values(status=ended))
        deleted = owner.delete(path)
        assert (deleted.status_code, deleted.json()) == (200, {"message": "success"})
        assert owner.delete(path).status_code == owner.get(path).status_code == 404


@of_both_kinds
def test_the_list_is_filtered_and_newest_first(owner: Account, container: Container, kind: Kind) -> None:
    branch = make_sub_account(container, owner)
    made: list[dict[str, Any]] = [{}, {"type": "letter"}, {"sub_account": branch}, {"type": "letter"}]
    ids = [kind.make(owner, **how).json()["id"] for how in made]

    def listed(query: str = "") -> list[int]:
        return [row["id"] for row in owner.get(f"{kind.path}{query}").json()["data"]]

    assert listed() == ids[::-1]
    assert listed("?type=letter") == [ids[3], ids[1]]
    assert listed(f"?sub_account_id={branch}") == listed(f"?sub_account={branch}") == [ids[2]]
    assert listed("?type=magnacard") == []
    assert owner.get(f"{kind.path}?type=poster").status_code == 422
    page = owner.get(f"{kind.path}?items_per_page=3&page=2").json()
    assert ([row["id"] for row in page["data"]], page["meta"]["total"]) == ([ids[0]], 4)


@of_both_kinds
def test_a_strangers_template_is_unknown(owner: Account, stranger: Account, container: Container, kind: Kind) -> None:
    template = kind.make(owner).json()["id"]
    for method in ("GET", "PUT", "DELETE"):
        for n in (template, 10**9, "x", 2**63):
            answer = stranger.call(method, f"{kind.path}/{n}", json={} if method == "PUT" else None)
            assert (answer.status_code, answer.text) == (404, '{"message":"Not Found"}')
    assert stranger.get(kind.path).json()["data"] == []
    branch = make_sub_account(container, owner)
    refused = kind.make(stranger, sub_account_id=branch)
    assert (refused.status_code, refused.json()) == (400, {"message": "Sub Account ID does not exist"})
    assert stranger.get(f"{kind.path}?sub_account_id={branch}").status_code == 400
    message = "Image Template does not exist" if kind is IMAGES else "Message Template does not exist"
    with container.db.transaction(Tenant(stranger.id)) as tx, pytest.raises(Refused, match=message):
        kind.stored.find(tx, template)


@of_both_kinds
def test_a_limited_token_leaves_a_template_in_its_sub_account(owner: Account, container: Container, kind: Kind) -> None:
    mine, other = make_sub_account(container, owner), make_sub_account(container, owner)
    teammate = make_teammate(container, owner, mine)
    path = f"{kind.path}/{kind.make(teammate).json()['id']}"
    assert teammate.put(path, {"sub_account_id": other}).status_code == 400
    assert teammate.put(path, {"sub_account_id": None}).json()["sub_account_id"] == mine
    assert owner.put(path, {"sub_account_id": None}).json()["sub_account_id"] is None


def color_of(http: TestClient, url: str) -> tuple[int, ...]:
    """What the picture behind a link shows to someone without a token."""
    shown = http.get(url)
    assert shown.status_code == 200
    pixel = Image.open(io.BytesIO(shown.content)).convert("RGB").getpixel((4, 4))
    assert isinstance(pixel, tuple)
    return pixel


def test_an_uploaded_images_link_stays(owner: Account, http: TestClient, container: Container, clock: Clock) -> None:
    stored = set(container.storage.store.keys("creative/"))
    made = upload(owner, design_tool_id="design-7")
    assert made.status_code == 201, made.text
    body = made.json()
    at = dict.fromkeys(("created_at", "updated_at"), "2026-05-04 12:00:00")
    known = {"id": body["id"], "user_id": owner.id, "sub_account_id": None, "type": "postcard", "name": "Spring"}
    assert body == known | {"image": body["image"], "design_tool_id": "design-7"} | at
    assert body["image"].startswith("http://quillpost.test/files/")
    clock.advance(hours=1)
    path = f"/image-templates/{body['id']}"
    renamed = owner.put(path, {"name": "Summer", "type": "notecard"})
    changed = body | {"name": "Summer", "type": "notecard", "updated_at": "2026-05-04 13:00:00"}
    assert (renamed.status_code, renamed.json()) == (200, changed)
    cleared = owner.put(path, {"design_tool_id": None}).json()
    assert (cleared["design_tool_id"], cleared["name"]) == (None, "Summer")
    again = upload(owner, name="Again").json()
    assert (again["id"] != body["id"], again["image"]) == (True, body["image"])
    assert len(set(container.storage.store.keys("creative/")) - stored) == 1, "it is kept once"
    replaced = upload(owner, image=png(BLUE), method="PUT", path=path).json()
    clock.advance(days=3_000)
    assert owner.get(path).json() == replaced
    assert owner.get("/image-templates").json()["data"] == [again, replaced]
    assert owner.delete(f"/image-templates/{again['id']}").status_code == 200
    assert [color_of(http, image) for image in (body["image"], replaced["image"])] == [RED, BLUE]
    branch = make_sub_account(container, owner)
    moved = owner.put(path, {"sub_account_id": branch})
    assert (moved.status_code, moved.json()["sub_account_id"]) == (200, branch)
    assert color_of(http, moved.json()["image"]) == BLUE
    with container.db.transaction(Tenant(owner.id, branch)) as tx:  # who sees the sub account's files alone
        found = sa.select(files.c.id).join(image_templates, image_templates.c.image_file_id == files.c.id)
        assert len(tx.execute(found).all()) == 1


@pytest.mark.usefixtures("loopback_urls")
def test_an_image_comes_by_its_url_in_json_or_in_a_form(owner: Account, http: TestClient, art: ImageServer) -> None:
    needed, url = {"type": "postcard", "name": "Spring"}, art.picture("blue")
    ways = [
        owner.post("/image-templates", needed | {"image": url}),
        owner.post("/image-templates", needed | {"image_url": url}),
        owner.call("POST", "/image-templates", data=needed | {"image": url}),
    ]
    assert [made.status_code for made in ways] == [201] * 3, [made.text for made in ways]
    assert len({made.json()["image"] for made in ways}) == 1
    assert color_of(http, ways[0].json()["image"]) == (0, 0, 255)


def test_the_type_of_a_file_depends_only_on_its_bytes(
    subtests: pytest.Subtests, owner: Account, http: TestClient, container: Container
) -> None:
    made = upload(owner, image=jpeg(), filename="../../etc/passwd\x00.svg").json()
    assert http.get(made["image"]).headers["Content-Type"] == "image/jpeg"
    fakes = [(fake, "image") for fake in (b"<svg/>", b"GIF89a" + b"\0" * 50, b"", png()[:40])]
    assert_refused(subtests, container, lambda fake: upload(owner, image=fake), fakes)
    converted = upload(owner, image=print_sized(), colour="red")
    assert (converted.status_code, converted.headers["X-Ignored-Fields"]) == (201, "colour")
    assert read_warnings(converted)[0].startswith("image: The image was converted from CMYK")


BAD_IMAGES: list[tuple[dict[str, Any], str]] = [
    ({"image": None}, "image"), ({"image": ""}, "image"), ({"image": 5}, "image"),
    ({"image": ["https://example.com/a.png"]}, "image"), ({"image": "ftp://example.com/a.png"}, "image"),
    ({"image": "http://user:secret@example.com/a.png"}, "image"), ({"type": "magnacard"}, "type"),
    ({"type": None}, "type"), ({"name": " "}, "name"), ({"name": "x" * 256}, "name"), ({"name": "\x00"}, "name"),
    ({"design_tool_id": 7}, "design_tool_id"), ({"sub_account_id": "x"}, "sub_account_id"),
]  # fmt: skip
BAD_CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "name"), ({"name": None}, "name"), ({"type": "bad"}, "type"), ({"type": None}, "type"),
    ({"image": None}, "image"),
]  # fmt: skip


@pytest.mark.usefixtures("loopback_urls")
def test_a_wrong_value_of_an_image_is_named(subtests: pytest.Subtests, owner: Account, container: Container) -> None:
    make = partial(owner.post, "/image-templates")
    needed = {"type": "postcard", "name": "Spring", "image": "https://example.com/a.png"}
    assert_refused(subtests, container, make, [(needed | wrong, field) for wrong, field in BAD_IMAGES])
    unfetched = needed | {"image": "http://127.0.0.1:1/a.png"}
    assert_refused(subtests, container, make, [(unfetched, "image", "could not be fetched")])
    assert set(make({}).json()["errors"]) == {"type", "name", "image"}
    for path in ("/image-templates/1", f"/image-templates/{upload(owner).json()['id']}"):
        assert_refused(subtests, container, partial(owner.put, path), BAD_CHANGES)
    assert len(owner.put(path, {"name": None}).json()["errors"]["name"]) == 1


def test_a_repeated_upload_is_saved_once(owner: Account) -> None:
    """Every client divides a form by signs of its own, anew on each try."""
    parts_of_it = (('name="type"', b"postcard"), ('name="name"', b"Spring"), ('name="image"; filename="a"', png()))

    def post(boundary: str, *changes: tuple[str, bytes]) -> Response:
        kind = {"Content-Type": f"multipart/form-data; boundary={boundary}", "Idempotency-Key": "k"}
        content = form_of(boundary, *parts_of_it, *changes)
        return owner.call("POST", "/image-templates", content=content, headers=kind)

    first, again = post("aaaa"), post("bbbb")
    assert (first.status_code, again.content) == (201, first.content)
    assert post("cccc", ('name="design_tool_id"', b"7")).status_code == 409
    assert owner.get("/image-templates").json()["meta"]["total"] == 1


def test_a_message_reads_as_it_was_saved(owner: Account, clock: Clock) -> None:
    given: dict[str, Any] = {
        "handwriting_style_id": 1, "font_size": "large", "font_color": "RGBA( 1, 2, 3, 0.9 )",
        "handwriting_realism": False, "custom_background_url": "https://example.com/~CUSTOM1|plain~.png",
        "qrcode_url": "https://example.com/?who=~FIRST_NAME~", "cc_emails": ["dana@example.com", "+15125550100@sms"],
    }  # fmt: skip
    unused = (
        "sub_account_id", "additional_pages", "giftcard_brand_code", "giftcard_brand_image", "giftcard_amount",
        "landing_page_url",
    )  # fmt: skip
    made = save(owner, **given)
    assert (made.status_code, "X-Ignored-Fields" in made.headers) == (201, False), made.text
    body = made.json()
    assert body == given | dict.fromkeys(unused) | {
        "id": body["id"], "user_id": owner.id, "type": "postcard", "name": "Thanks", "content": "Hi %FIRST_NAME%!",
        "skip_creative_generation": 0, "share_uuid": body["share_uuid"], "created_at": "2026-05-04T12:00:00Z",
        "updated_at": "2026-05-04T12:00:00Z",
    }  # fmt: skip
    assert owner.get(f"/message-templates/{body['id']}").json() == body
    clock.advance(hours=1)
    changed = change(owner, body["id"], name="Thank you", handwriting_realism=None, cc_emails=None)
    news = {"name": "Thank you", "handwriting_realism": True, "cc_emails": [], "updated_at": "2026-05-04T13:00:00Z"}
    assert (changed.status_code, changed.json()) == (200, body | news)
    assert save(owner).json()["share_uuid"] != body["share_uuid"]


def test_a_form_of_single_values_is_taken_and_a_rightful_oddity_kept_as_it_is_written(owner: Account) -> None:
    fields = {
        "type": "giftcard", "name": "Thanks", "content": "Hi", "handwriting_style": "1", "handwriting_realism": "true",
        "cc_emails": "a@example.com, b@example.com", "giftcard_brand_code": "brindlewick", "giftcard_amount": "2500",
        "qrcode_url": "",
    }  # fmt: skip
    shown = owner.call("POST", "/message-templates", data=fields).json()
    assert shown["cc_emails"] == ["a@example.com", "b@example.com"]
    assert (shown["handwriting_style_id"], shown["handwriting_realism"]) == (1, True)
    assert (shown["giftcard_amount"], shown["qrcode_url"]) == (2_500, None)
    odd = {"qrcode_url": URL + "/caf%C3%A9", "landing_page_url": URL + "/caf%C3%A9", "font_color": " #abc "}
    assert odd.items() <= save(owner, type="giftcard", **odd).json().items()
    # An older name of the amount changes nothing where there is none.
    made = save(owner, giftcard_amount_in_cents=500)
    assert (made.status_code, made.headers["X-Ignored-Fields"]) == (201, "giftcard_amount_in_cents")


def test_a_pdf_makes_the_whole_letter_until_it_is_taken_away(owner: Account, container: Container) -> None:
    made = save(owner, type="windowlessletter", pdf_only_url=PDF).json()
    assert (made["skip_creative_generation"], "pdf_only_url" in made) == (1, False)
    assert change(owner, made["id"], name="Same").json()["skip_creative_generation"] == 1
    assert change(owner, made["id"], pdf_only_url=None).json()["skip_creative_generation"] == 0
    assert change(owner, made["id"], pdf_only_url=PDF, content="").json()["content"] == ""
    refused = change(owner, made["id"], pdf_only_url=None)
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["content"])
    saved = save(owner, type="letter", pdf_only_url=PDF, content=None, cc_emails=["d@example.com"]).json()
    found = run_as(container, Tenant(owner.id), MESSAGE_TEMPLATES.find, saved["id"])
    assert (found.type, found.content, found.pdf_only_url) == ("letter", "", PDF)
    assert (found.skip_creative_generation, found.cc_emails) == (True, ("d@example.com",))
    assert (found.handwriting_style_id, found.handwriting_realism) == (None, None)


def test_what_a_type_has_no_use_for_is_ignored_and_another_must_be_right_as_a_whole(owner: Account) -> None:
    letters, gifts = {"additional_pages", "pdf_only_url"}, {"giftcard_amount", "landing_page_url"}
    unused = dict.fromkeys(("postcard", "postcard6x11", "notecard", "magnacard"), letters | gifts) | {
        "letter": {"custom_background_url"} | gifts, "windowlessletter": {"custom_background_url"} | gifts,
        "giftcard": letters,
    }  # fmt: skip
    given = dict.fromkeys(("additional_pages", "pdf_only_url", "custom_background_url", "landing_page_url"), URL)
    for kind, ignored in unused.items():
        made = save(owner, type=kind, **given, giftcard_amount=500, share_uuid="mine")
        assert made.status_code == 201, made.text
        assert set(made.headers["X-Ignored-Fields"].split(", ")) == ignored | {"share_uuid"}
        shown = made.json()
        kept = {*given, "giftcard_amount"} - {"pdf_only_url"}
        assert {name for name in kept if shown[name] is None} == ignored - {"pdf_only_url"}
        assert shown["skip_creative_generation"] == int("pdf_only_url" not in ignored)
    card = save(owner, custom_background_url=URL + ".png").json()
    refused = change(owner, card["id"], type="giftcard")
    assert set(refused.json()["errors"]) == {"giftcard_brand_code", "giftcard_amount"}
    letter = change(owner, card["id"], type="letter", additional_pages=PDF)
    assert letter.json() == card | {"type": "letter", "additional_pages": PDF, "custom_background_url": None}
    assert read_warnings(letter) == ["A template of type letter has no custom_background_url: removed."]
    assert "X-Ignored-Fields" not in letter.headers
    for wrong in ({"type": None}, {"name": None}, {"content": None}):
        assert change(owner, card["id"], **wrong).status_code == 422, wrong
    assert owner.get(f"/message-templates/{card['id']}").json() == letter.json()


def test_a_gift_card_shows_its_brands_picture_and_has_an_amount_of_its_brand(owner: Account) -> None:
    made = save(owner, type="giftcard", giftcard_amount=1_500).json()
    picture = "http://quillpost.test/giftcards/{}.png"
    assert made["giftcard_brand_image"] == picture.format("brindlewick")
    assert owner.get(f"/message-templates/{made['id']}").json() == made
    refused = change(owner, made["id"], giftcard_brand_code="inkwell-otter")
    assert list(refused.json()["errors"]) == ["giftcard_amount"]
    both = change(owner, made["id"], giftcard_brand_code="inkwell-otter", giftcard_amount=10_000).json()
    assert (both["giftcard_brand_code"], both["giftcard_amount"]) == ("inkwell-otter", 10_000)
    assert both["giftcard_brand_image"] == picture.format("inkwell-otter")
    assert save(owner).json()["giftcard_brand_image"] is None


NOT_BLANK, NO_ADDRESS = "Give the content, or a custom_background_url.", "neither an e-mail address nor of the form"
BAD_MESSAGES: list[tuple[dict[str, Any], str, str]] = [
    ({"type": "poster"}, "type", "Input should be"), ({"name": ""}, "name", "blank"),
    ({"content": None}, "content", NOT_BLANK), ({"content": " "}, "content", NOT_BLANK),
    ({"type": "letter", "content": ""}, "content", "or a pdf_only_url."),
    ({"content": "x" * 5_001}, "content", "At most 5,000 characters"),
    ({"content": "Hi %FIRSTNAME%"}, "content", "Unknown variable %FIRSTNAME%. Known variables: %FIRST"),
    ({"handwriting_style_id": 999}, "handwriting_style_id", "There is no handwriting style 999. Known:"),
    ({"handwriting_style_id": 10**30}, "handwriting_style_id", "There is no handwriting style"),
    ({"font_size": "huge"}, "font_size", "Input should be"), ({"font_color": "mauve"}, "font_color", "is not a color"),
    ({"handwriting_realism": "yes"}, "handwriting_realism", "true or false"),
    ({"type": "letter", "additional_pages": "a.pdf"}, "additional_pages", "http"),
    ({"type": "letter", "additional_pages": URL + "/~CITY~"}, "additional_pages", "same for everyone"),
    ({"type": "letter", "pdf_only_url": "http://10.0.0.1/a"}, "pdf_only_url", "not a public address"),
    ({"custom_background_url": "~CITY~/a.png"}, "custom_background_url", "http"),
    ({"qrcode_url": URL + "/~NOBODY_S~"}, "qrcode_url", "Unknown variable %NOBODY_S%"),
    ({"qrcode_url": "https://example.com/" + "a" * 2_048}, "qrcode_url", "2,048"),
    ({"cc_emails": ["dana"]}, "cc_emails.0", NO_ADDRESS), ({"cc_emails": ["<d@a.b>"]}, "cc_emails.0", NO_ADDRESS),
    ({"cc_emails": ["d@example.com", "+1@sms"]}, "cc_emails.1", "neither an e-mail address nor"),
    ({"cc_emails": ["d@example.com"] * 101}, "cc_emails", "At most 100 items"),
    ({"sub_account_id": 0}, "sub_account_id", "greater than or equal to 1"),
]  # fmt: skip
BAD_AMOUNTS = {
    None: "needs giftcard_amount", 0: "greater than or equal to 1", 9.5: "integer", 10**30: "less than or equal",
    2_501: "500, 1000, 1500, 2500, 5000",
}  # fmt: skip
BAD_GIFTS: list[tuple[dict[str, Any], str, str]] = [
    ({"giftcard_brand_code": None}, "giftcard_brand_code", "needs giftcard_brand"),
    ({"giftcard_brand_code": " "}, "giftcard_brand_code", "needs giftcard_brand"),
    *(({"giftcard_amount": amount}, "giftcard_amount", words) for amount, words in BAD_AMOUNTS.items()),
    ({"giftcard_amount_in_cents": 5}, "giftcard_amount_in_cents", "giftcard_amount"),
    ({"landing_page_url": "mailto:a@b.c"}, "landing_page_url", "http"),
    ({"landing_page_url": URL + "?c=~CUSTOM1~"}, "landing_page_url", "for everyone"),
    ({"giftcard_brand_code": "nosuch"}, "giftcard_brand_code", "one of anywhere-and"),
]
BAD_NAMES = {"": "This cannot be blank.", 5: "This must be a string.", "x" * 300: "At most 255 characters, please."}


def test_a_wrong_value_of_a_message_is_named(subtests: pytest.Subtests, owner: Account, container: Container) -> None:
    assert_refused(subtests, container, lambda changes: save(owner, **changes), BAD_MESSAGES)
    assert_refused(subtests, container, lambda changes: save(owner, type="giftcard", **changes), BAD_GIFTS)
    path = f"/message-templates/{save(owner).json()['id']}"
    nulls = [({field: None}, field, "This cannot be null.") for field in ("name", "type")]
    with unchanged(container):
        for changes, field, sentence in [*(({"name": name}, "name", why) for name, why in BAD_NAMES.items()), *nulls]:
            assert owner.put(path, changes).json()["errors"] == {field: [sentence]}
        refused = save(owner, type="giftcard", giftcard_amount=None, content="", qrcode_url="x", font_color="x")
        assert set(refused.json()["errors"]) == {"giftcard_amount", "content", "qrcode_url", "font_color"}
