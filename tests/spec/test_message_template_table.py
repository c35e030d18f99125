"""The specification's table "Message template", row by row, and the bodies that it speaks of."""

import re
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from quillpost.core.database.embedded.server import EmbeddedPostgres
from support.writable_service import Writer, writing_service

Test = Callable[[Any], bool]
Template = dict[str, Any]

PDF, PICTURE, PAGE = "https://example.com/a.pdf", "https://example.com/a.png", "https://example.com/a"
GIFT = {"giftcard_brand_code": "brindlewick", "giftcard_amount": 2_500}


def integer(value: Any) -> bool:
    return type(value) is int


def string(value: Any) -> bool:
    return type(value) is str


def boolean(value: Any) -> bool:
    return type(value) is bool


def one_of(*values: Any) -> Test:
    return lambda value: value in values and type(value) is type(values[0])


def or_null(holds: Test) -> Test:
    return lambda value: value is None or holds(value)


def uri(value: Any) -> bool:
    return string(value) and value.startswith(("https://", "http://quillpost.test/"))


def emails(value: Any) -> bool:
    return type(value) is list and all(string(each) and "@" in each for each in value)


def uuid(value: Any) -> bool:
    return bool(str(UUID(value)) == value)


def date_time(value: Any) -> bool:
    return string(value) and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", value) is not None


TYPES = ("postcard", "postcard6x11", "letter", "windowlessletter", "notecard", "giftcard", "magnacard")
LETTERS = ("letter", "windowlessletter")
CARDS = ("postcard", "postcard6x11", "notecard", "giftcard", "magnacard")

# fmt: off
TABLE: list[tuple[tuple[str, ...], Test]] = [
    # Field                           Type and notes
    (("id", "user_id"),               integer),
    (("sub_account_id",),             or_null(integer)),
    (("type",),                       one_of(*TYPES)),
    (("name",),                       string),
    (("content",),                    string),
    (("handwriting_style_id",),       integer),
    (("font_size",),                  one_of("auto", "large", "medium", "small")),
    (("font_color",),                 string),
    (("handwriting_realism",),        boolean),
    (("additional_pages",),           or_null(uri)),
    # pdf_only_url: create and update only
    (("skip_creative_generation",),   one_of(0, 1)),
    (("custom_background_url",),      or_null(uri)),
    (("qrcode_url",),                 or_null(uri)),
    (("cc_emails",),                  emails),
    (("giftcard_brand_code",),        or_null(string)),
    (("giftcard_brand_image",),       or_null(uri)),
    (("giftcard_amount",),            or_null(integer)),
    (("landing_page_url",),           or_null(uri)),
    (("share_uuid",),                 uuid),
    (("created_at", "updated_at"),    date_time),
]

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


@pytest.fixture(scope="module")
def writer(postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writer]:
    with writing_service(postgres, template, tmp_path_factory.mktemp("message_table")) as service:
        yield service


def save(writer: Writer, kind: str = "postcard", **fields: Any) -> Any:
    needed = {"type": kind, "name": "Spring", "content": "Hi %FIRST_NAME%"}
    return writer.owner.post("/message-templates", needed | (GIFT if kind == "giftcard" else {}) | fields)


def change(writer: Writer, template: Template, **fields: Any) -> Any:
    return writer.owner.call("PUT", f"/message-templates/{template['id']}", json=fields)


@pytest.fixture(scope="module")
def shown(writer: Writer) -> dict[str, list[Template]]:
    """The least and the most of templates, from every operation that shows one."""
    common = {
        "sub_account_id": writer.branch,
        "handwriting_style_id": 1,
        "font_size": "auto",
        "font_color": "#123456",
        "handwriting_realism": True,
        "qrcode_url": PAGE,
        "cc_emails": ["dana@example.com"],
    }
    made = [
        save(writer).json(),
        save(writer, "letter", additional_pages=PDF, pdf_only_url=PDF, **common).json(),
        save(writer, "giftcard", custom_background_url=PICTURE, landing_page_url=PAGE, **common).json(),
    ]
    owner, paths = writer.owner, [f"/message-templates/{each['id']}" for each in made]
    return {
        "POST": made,
        "GET": [owner.get(path).json() for path in paths],
        "GET list": owner.get("/message-templates").json()["data"],
        "PUT": [owner.call("PUT", path, json={}).json() for path in paths],
    }


@pytest.mark.parametrize(("fields", "holds"), TABLE, ids=[", ".join(names) for names, _ in TABLE])
def test_a_field_is_as_the_table_says(shown: dict[str, list[Template]], fields: tuple[str, ...], holds: Test) -> None:
    for operation, templates in shown.items():
        for template in templates:
            for field in fields:
                assert holds(template[field]), (operation, field, template[field])


def test_nothing_else_is_shown(shown: dict[str, list[Template]]) -> None:
    fields = {name for names, _ in TABLE for name in names}
    assert {frozenset(each) for templates in shown.values() for each in templates} == {frozenset(fields)}


@pytest.mark.parametrize("kind", TYPES)
def test_a_type_of_the_table_is_saved(writer: Writer, kind: str) -> None:
    made = save(writer, kind)
    assert (made.status_code, made.json()["type"]) == (201, kind)


@pytest.mark.parametrize(("field", "value", "kind"), WRITABLE, ids=[row[0] for row in WRITABLE])
def test_an_update_names_any_writable_field_alone(writer: Writer, field: str, value: Any, kind: str) -> None:
    value = writer.branch if field == "sub_account_id" else value
    before = save(writer, kind).json()
    changed = change(writer, before, **{field: value})
    assert changed.status_code == 200, changed.text
    shows: dict[str, Any] = {"skip_creative_generation": 1} if field == "pdf_only_url" else {field: value}
    if field == "giftcard_brand_code":
        shows["giftcard_brand_image"] = f"http://quillpost.test/giftcards/{value}.png"
    assert changed.json() == before | shows
    assert before | shows != before


@pytest.mark.parametrize("field", READ_ONLY)
def test_a_read_only_field_is_not_written(writer: Writer, field: str) -> None:
    before = save(writer).json()
    changed = change(writer, before, **{field: 1})
    assert (changed.status_code, changed.headers["X-Ignored-Fields"]) == (200, field)
    assert changed.json() == before


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("field", "value", "used_by"), ONLY_FOR, ids=[row[0] for row in ONLY_FOR])
def test_a_field_of_some_types_is_ignored_for_the_others(
    writer: Writer, field: str, value: str, used_by: tuple[str, ...], kind: str
) -> None:
    made = save(writer, kind, **{field: value})
    assert made.status_code == 201
    assert (made.headers.get("X-Ignored-Fields") == field) is (kind not in used_by)
    shown = made.json()
    kept = shown["skip_creative_generation"] if field == "pdf_only_url" else shown[field]
    assert bool(kept) is (kind in used_by)


@pytest.mark.parametrize("field", ["giftcard_brand_code", "giftcard_amount"])
def test_a_gift_card_needs_brand_and_amount(writer: Writer, field: str) -> None:
    refused = save(writer, "giftcard", **{field: None})
    assert (refused.status_code, list(refused.json()["errors"])) == (422, [field])
    refused = change(writer, save(writer, "giftcard").json(), **{field: None})
    assert (refused.status_code, list(refused.json()["errors"])) == (422, [field])


def test_the_amount_is_not_called_giftcard_amount_in_cents(writer: Writer) -> None:
    refused = save(writer, "giftcard", giftcard_amount=None, giftcard_amount_in_cents=2_500)
    assert refused.status_code == 422
    assert "giftcard_amount" in refused.json()["errors"]["giftcard_amount_in_cents"][0]
