"""The specification's tables of lists, recipients, sub accounts, templates and gift card brands, in every answer."""

import re
from typing import Any
from uuid import UUID

import pytest

from quillpost.app.container import Container
from support.factories import Account, make_sub_account
from support.field_shapes import (
    DATE_TIME,
    RELATIVE_TIME,
    Json,
    boolean,
    date_time,
    find_differences,
    integer,
    matches,
    one_of,
    or_null,
    own_url,
    plain_time,
    string,
)
from support.mailing_lists import ListOwner
from support.uploads import upload

LIST_TYPES = (
    "csv", "manual", "map", "friends", "retarget", "leads", "automation", "radius", "crm", "qrscans",
)  # fmt: skip
LIST = {
    "id": integer, "user_id": integer, "sub_account_id": or_null(integer), "type": one_of(*LIST_TYPES),
    "description": one_of("Visitors"), "qrcode_url": or_null(matches("https://.+")), "total_recipients": integer,
    "processed": boolean, "is_suppression_list": boolean, "total_scans": integer, "unique_scans": integer,
    "total_sends": integer, "last_scan": or_null(date_time), "last_send": or_null(date_time),
    "api_key": matches(r"ql_[\w-]{40,}"), "created_at": date_time, "created_at_diff": matches(RELATIVE_TIME),
    "updated_at": date_time,
}  # fmt: skip
ADDED = "suppress_by"
"""Our one addition: the table has no field for whom an entry of a suppression list bars."""

GIVEN = {
    "name": "Jane Doe", "company": "Doe Homes", "address": "12 Main St", "address2": "Apt 4",
    "city": "Austin", "province": "TX", "postal_code": "78701", "country": "US", "dob": "02/29/1980",
    "anniversary": "06/15/2004", "email": "jane@example.com", "phone": "+1 512 555 0100",
    **{f"custom{n}": f"own words {n}" for n in range(1, 11)},
}  # fmt: skip
SHOWN = {name: text for name, text in GIVEN.items() if not re.fullmatch(r"custom([5-9]|10)", name)}
RECIPIENT = {
    "id": integer, "mailing_list_id": integer, **{name: one_of(text) for name, text in SHOWN.items()},
    "dob": one_of("1980-02-29"), "anniversary": one_of("2004-06-15"),
    "mailing-list": lambda value: type(value) is dict and value["description"] == "Visitors", "created_at": date_time,
    "updated_at": date_time,
}  # fmt: skip
OURS = (
    *(f"custom{n}" for n in range(5, 11)), "mailing_list", "deliverability", "can_deliver", "deliverability_reasons",
)  # fmt: skip


def test_a_list_is_as_its_table_says_wherever_it_is_shown(lists: ListOwner) -> None:
    list_id = lists.make(qrcode_url="https://example.com/")
    shown = {
        "recipient": [lists.add(list_id).json()["mailing-list"]],
        "read": [lists.read(list_id)],
        "list": lists.account.get("/mailing-lists").json()["data"],
        "change": [lists.put(f"/mailing-lists/{list_id}", {"description": "Visitors"}).json()],
        "rotated": [lists.account.post(f"/mailing-lists/{list_id}/rotate-key").json()],
    }
    assert find_differences(shown, LIST, ADDED) == []
    for each in (each for listed in shown.values() for each in listed):
        assert [field for field in each if field != ADDED] == [*LIST]


def test_every_type_of_list_is_made_and_shows_how_long_ago_that_was(lists: ListOwner) -> None:
    """As a relative text where it is made, as a date-time where it is read."""
    made = lists.account.post("/mailing-lists", {"description": "Visitors"}).json()
    assert re.fullmatch(RELATIVE_TIME, made["created_at"])
    assert re.fullmatch(DATE_TIME, lists.read(made["id"])["created_at"])
    assert [field for field in made if field != ADDED] == [*LIST]
    assert [lists.read(lists.make(type=kind))["type"] for kind in LIST_TYPES] == [*LIST_TYPES]


def test_a_recipient_is_as_its_table_says_wherever_they_are_shown(lists: ListOwner) -> None:
    list_id, account = lists.make(), lists.account
    of_many = account.post("/recipients_multi", [GIVEN | {"mailing_list_id": lists.make()}]).json()
    made = account.post("/recipients", GIVEN | {"mailing_list_id": list_id}).json()
    shown = {
        "made": [made], "of many": of_many, "read": [account.get(f"/recipients/{made['id']}").json()],
        "list": account.get("/recipients").json()["data"],
        "lookup": [account.post("/recipients/lookup", {"email": GIVEN["email"]}).json()],
        "change": [lists.put(f"/recipients/{made['id']}", {"name": "Jane Doe"}).json()], "page": lists.on(list_id),
    }  # fmt: skip
    assert find_differences(shown, RECIPIENT, *OURS) == []


def test_a_read_only_field_of_a_recipient_changes_nothing(lists: ListOwner) -> None:
    made = lists.add(lists.make()).json()
    for field in ("id", "mailing-list", "created_at", "updated_at"):
        put = lists.put(f"/recipients/{made['id']}", {field: 5})
        assert (put.json(), put.headers["X-Ignored-Fields"]) == (made, field)


ADDRESS = ("return_name", "return_address", "return_address2", "return_city", "return_state", "return_postal_code")
BACKGROUNDS = (
    "message_background_url", "postcard6x9_background_url", "notecard_background_url",
    "windowedletter_background_url", "windowlessletter_background_url",
)  # fmt: skip
BRANDING = (
    "accentColor", "symbol", "logo", "disclaimer", "headshot", "name", "email", "phone", "company",
    "domain", "set", "first_name",
)  # fmt: skip


def test_a_sub_account_is_as_its_table_says(owner: Account) -> None:
    def read(**body: Any) -> Json:
        made = owner.post("/sub-accounts", {"title": "Austin office"} | body)
        assert made.status_code == 201, made.text
        found: Json = owner.get(f"/sub-accounts/{made.json()['id']}").json()
        return found

    table = {
        "id": integer, "user_id": integer, "title": one_of("Austin office"), "name": one_of("Austin office"),
        **{field: one_of(None) for field in (*ADDRESS, *BACKGROUNDS)},
        "branding_fields": one_of(dict.fromkeys(BRANDING)), "created_at": plain_time, "updated_at": plain_time,
    }  # fmt: skip
    assert find_differences({"read": [read()]}, table) == []
    street = {"return_address": "9 Branch Rd"}
    for field in (*ADDRESS, *BACKGROUNDS):
        value = "https://example.com/a.png" if field in BACKGROUNDS else "78701"
        needed = street if field in ADDRESS else {}
        expected = {name: one_of(value) for name, value in (needed | {field: value}).items()}
        assert find_differences({field: [read(**needed | {field: value})]}, table | expected) == []
    for field in BRANDING:
        value = "#1f4e79" if field == "accentColor" else "ours"
        branding = read(branding_fields={field: value})["branding_fields"]
        assert branding == dict.fromkeys(BRANDING) | {field: value}
    untitled = owner.post("/sub-accounts", {"return_name": "Dana"})
    assert (untitled.status_code, list(untitled.json()["errors"])) == (422, ["title"])


IMAGE = {
    "id": integer, "user_id": integer, "sub_account_id": or_null(integer), "type": string, "name": string,
    "image": own_url, "design_tool_id": or_null(string), "created_at": plain_time, "updated_at": plain_time,
}  # fmt: skip


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


def test_an_image_template_is_as_its_table_says_everywhere_and_has_its_types(owner: Account, branch: int) -> None:
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
# fmt: on


def save(owner: Account, kind: str = "postcard", **fields: Any) -> Any:
    gift = {"giftcard_brand_code": "brindlewick", "giftcard_amount": 2_500} if kind == "giftcard" else {}
    return owner.post("/message-templates", {"type": kind, "name": "Spring", "content": "Hi!"} | gift | fields)


def change(owner: Account, template: Json, **fields: Any) -> Any:
    return owner.put(f"/message-templates/{template['id']}", fields)


def test_a_message_template_is_as_its_table_says_everywhere_and_has_its_types(owner: Account, branch: int) -> None:
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


def test_an_update_may_name_any_and_writes_no_other(owner: Account, branch: int, subtests: pytest.Subtests) -> None:
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
