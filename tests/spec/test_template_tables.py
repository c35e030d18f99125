"""The specification's tables "Image template", "Message template" and those of gift card brands."""

from typing import Any
from uuid import UUID

import pytest

from quillpost.app.container import Container
from support.factories import Account, make_sub_account
from support.field_shapes import (
    Json,
    boolean,
    date_time,
    find_differences,
    integer,
    one_of,
    or_null,
    own_url,
    plain_time,
    string,
)
from support.uploads import upload

IMAGE = {
    "id": integer,
    "user_id": integer,
    "sub_account_id": or_null(integer),
    "type": string,
    "name": string,
    "image": own_url,
    "design_tool_id": or_null(string),
    "created_at": plain_time,
    "updated_at": plain_time,
}


def show(owner: Account, path: str, made: list[Json]) -> dict[str, list[Json]]:
    """These templates, from every operation that shows one."""
    paths = [f"{path}/{each['id']}" for each in made]
    return {
        "POST": made,
        "GET": [owner.get(path).json() for path in paths],
        "GET list": owner.get(path).json()["data"],
        "PUT": [owner.put(path, {}).json() for path in paths],
    }


@pytest.fixture
def branch(container: Container, owner: Account) -> int:
    return make_sub_account(container, owner)


def test_an_image_template_is_as_its_table_says_wherever_it_is_shown_and_has_its_types(
    owner: Account, branch: int
) -> None:
    least = upload(owner).json()
    most = upload(owner, design_tool_id="design-7", sub_account_id=branch).json()
    assert find_differences(show(owner, "/image-templates", [least, most]), IMAGE) == []
    for kind in ("postcard", "letter", "notecard", "giftcard", "windowlessletter"):
        made = upload(owner, type=kind)
        assert (made.status_code, made.json()["type"]) == (201, kind)
    for kind in ("postcard6x11", "magnacard", "Postcard"):
        assert upload(owner, type=kind).status_code == 422, kind


PDF, PICTURE, PAGE = "https://example.com/a.pdf", "https://example.com/a.png", "https://example.com/a"
TYPES = ("postcard", "postcard6x11", "letter", "windowlessletter", "notecard", "giftcard", "magnacard")
LETTERS = ("letter", "windowlessletter")
CARDS = ("postcard", "postcard6x11", "notecard", "giftcard", "magnacard")


def uri(value: Any) -> bool:
    return string(value) and value.startswith(("https://", "http://quillpost.test/"))


# fmt: off
MESSAGE = {
    # Field                           Type and notes
    "id":                             integer,
    "user_id":                        integer,
    "sub_account_id":                 or_null(integer),
    "type":                           one_of(*TYPES),
    "name":                           string,
    "content":                        string,
    "handwriting_style_id":           integer,
    "font_size":                      one_of("auto", "large", "medium", "small"),
    "font_color":                     string,
    "handwriting_realism":            boolean,
    "additional_pages":               or_null(uri),
    # pdf_only_url: create and update only
    "skip_creative_generation":       one_of(0, 1),
    "custom_background_url":          or_null(uri),
    "qrcode_url":                     or_null(uri),
    "cc_emails":                      lambda value: type(value) is list and all("@" in each for each in value),
    "giftcard_brand_code":            or_null(string),
    "giftcard_brand_image":           or_null(uri),
    "giftcard_amount":                or_null(integer),
    "landing_page_url":               or_null(uri),
    "share_uuid":                     lambda value: str(UUID(value)) == value,
    "created_at":                     date_time,
    "updated_at":                     date_time,
}
WRITABLE: list[tuple[str, Any, str]] = [
    # Field, as the update body lists them      A value               Of a template of type
    ("name",                                    "Summer",             "postcard"),
    ("handwriting_style_id",                    2,                    "postcard"),
    ("font_color",                              "rgba(1,2,3,0.5)",    "postcard"),
    ("handwriting_realism",                     False,                "postcard"),
    ("content",                                 "Bye %LAST_NAME%",    "postcard"),
    ("type",                                    "notecard",           "postcard"),
    ("sub_account_id",                          "the sub account",    "postcard"),
    ("additional_pages",                        PDF,                  "letter"),
    ("pdf_only_url",                            PDF,                  "letter"),
    ("custom_background_url",                   PICTURE,              "notecard"),
    ("qrcode_url",                              PAGE,                 "magnacard"),
    ("cc_emails",                               ["d@example.com"],    "postcard6x11"),
    ("giftcard_brand_code",                     "inkwell-otter",      "giftcard"),
    ("giftcard_amount",                         5_000,                "giftcard"),
    ("landing_page_url",                        PAGE,                 "giftcard"),
    # not in that list, but in the table as writable
    ("font_size",                               "small",              "postcard"),
]
READ_ONLY = ("id", "user_id", "skip_creative_generation", "giftcard_brand_image", "share_uuid", "created_at",
             "updated_at")
ONLY_FOR: list[tuple[str, str, tuple[str, ...]]] = [
    # Field                      A value     Used by
    ("additional_pages",         PDF,        LETTERS),
    ("pdf_only_url",             PDF,        LETTERS),
    ("custom_background_url",    PICTURE,    CARDS),
    ("landing_page_url",         PAGE,       ("giftcard",)),
]
# fmt: on


def save(owner: Account, kind: str = "postcard", **fields: Any) -> Any:
    gift = {"giftcard_brand_code": "brindlewick", "giftcard_amount": 2_500} if kind == "giftcard" else {}
    return owner.post("/message-templates", {"type": kind, "name": "Spring", "content": "Hi!"} | gift | fields)


def change(owner: Account, template: Json, **fields: Any) -> Any:
    return owner.put(f"/message-templates/{template['id']}", fields)


def test_a_message_template_is_as_its_table_says_wherever_it_is_shown_and_has_its_types(
    owner: Account, branch: int
) -> None:
    common = {
        "sub_account_id": branch, "handwriting_style_id": 1, "font_size": "auto", "font_color": "#123456",
        "handwriting_realism": True, "qrcode_url": PAGE, "cc_emails": ["dana@example.com"],
    }  # fmt: skip
    made = [
        save(owner).json(),
        save(owner, "letter", additional_pages=PDF, pdf_only_url=PDF, **common).json(),
        save(owner, "giftcard", custom_background_url=PICTURE, landing_page_url=PAGE, **common).json(),
    ]
    assert find_differences(show(owner, "/message-templates", made), MESSAGE) == []
    for kind in TYPES:
        made = save(owner, kind)
        assert (made.status_code, made.json()["type"]) == (201, kind)


def test_an_update_may_name_any_writable_field_alone_and_writes_no_other(
    owner: Account, branch: int, subtests: pytest.Subtests
) -> None:
    for field, written, kind in WRITABLE:
        with subtests.test(field):
            value = branch if field == "sub_account_id" else written
            before = save(owner, kind).json()
            changed = change(owner, before, **{field: value})
            assert changed.status_code == 200, changed.text
            shows: Json = {"skip_creative_generation": 1} if field == "pdf_only_url" else {field: value}
            if field == "giftcard_brand_code":
                shows["giftcard_brand_image"] = f"http://quillpost.test/giftcards/{value}.png"
            assert changed.json() == before | shows != before
    before = save(owner).json()
    for field in READ_ONLY:
        changed = change(owner, before, **{field: 1})
        assert (changed.status_code, changed.headers["X-Ignored-Fields"], changed.json()) == (200, field, before)


def test_a_field_of_some_types_is_ignored_for_the_others(owner: Account) -> None:
    for field, value, used_by in ONLY_FOR:
        for kind in TYPES:
            made = save(owner, kind, **{field: value})
            assert made.status_code == 201
            assert (made.headers.get("X-Ignored-Fields") == field) is (kind not in used_by), (field, kind)
            kept = made.json()["skip_creative_generation" if field == "pdf_only_url" else field]
            assert bool(kept) is (kind in used_by), (field, kind)


def test_a_gift_card_needs_brand_and_amount(owner: Account) -> None:
    for field in ("giftcard_brand_code", "giftcard_amount"):
        saved = save(owner, "giftcard").json()
        for refused in (save(owner, "giftcard", **{field: None}), change(owner, saved, **{field: None})):
            assert (refused.status_code, list(refused.json()["errors"])) == (422, [field])
    refused = save(owner, "giftcard", giftcard_amount=None, giftcard_amount_in_cents=2_500)
    assert refused.status_code == 422
    assert "giftcard_amount" in refused.json()["errors"]["giftcard_amount_in_cents"][0]


def test_gift_card_brands_are_as_their_tables_say_and_can_be_sent(owner: Account) -> None:
    brand = {
        "brand_code": lambda value: string(value) and value != "",
        "title": lambda value: string(value) and value != "",
        "image": own_url,
        "available_amounts": lambda value: bool(value) and all(integer(each) and each > 0 for each in value),
    }
    group = {"title": brand["title"], "brands": lambda value: type(value) is list}
    groups = list(owner.get("/giftcard-brands").json().values())
    assert find_differences({"groups": groups}, group) == []
    brands = [each for group in groups for each in group["brands"]]
    assert find_differences({"brands": brands}, brand) == []
    flat = owner.get("/giftcard-brands-list").json()["brands"]
    assert flat == [each | {"group": group["title"]} for group in groups for each in group["brands"]]
    for each in (flat[0], flat[-1]):
        amount = each["available_amounts"][-1]
        sent = owner.send("giftcard", giftcard_brand=each["brand_code"], giftcard_amount=amount)
        assert sent.status_code == 200, sent.text
        shown = [sent.json()[f"giftcard_{name}"] for name in ("brand", "amount", "image", "brand_longname")]
        assert shown == [each["brand_code"], amount, each["image"], each["title"]]
