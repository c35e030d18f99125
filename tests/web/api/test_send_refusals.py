"""Sends that are refused: a clear status, the field by name, and not a trace left behind."""

import json
from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.rendering.text.variables import VARIABLE_NAMES
from support.factories import Account, make_account, make_sub_account, people, person, postcard
from support.test_client import TestClient
from support.traces import FORM, JSON, assert_refused, metadata_text, postcard_with, send_raw, unchanged

BIG = 10**30
DIGITS = "9" * 5_000
SURROGATE = '"\\ud800"'
KNOWN_VARIABLES = [f"%{name}%" for name in VARIABLE_NAMES]
ART = {"front_image_url": "https://example.com/a.png"}

GOOD = json.dumps(postcard())
UNREADABLE: list[tuple[bytes | str, str, int, list[str]]] = [
    *((body, JSON, 422, ["body"]) for body in (
        b"not json", b'{"message": "Hi"', b'{"message": NaN}', b"\xff\xfe", b"", b"   ", b"[]", b'"text"', b"null",
        b'{"message": "a", "message": "b"}', b'{"metadata": {"a": 1, "a": 2}}', b'{"\\ud800": 1, "\\ud800": 2}',
        b"[" * 100_000, b'{"a":' * 100_000, b"1" * 5_000,
    )),
    (b"message=a&message=b", FORM, 422, ["message"]),
    (b"message", FORM, 422, ["body"]),
    (b"message=%ff", FORM, 422, ["body"]),
    (b"message=Hi&preview=false&handwriting_style=1&size=6x9", FORM, 422, ["recipients"]),
    *((GOOD, kind, 415, []) for kind in (FORM, "text/plain", "")),
    (b"<postcard/>", "application/xml", 415, []),
    (b"message=Hi", "multipart/form-data; boundary=x", 415, []),
]  # fmt: skip


def test_a_body_that_cannot_be_read_is_refused(subtests: pytest.Subtests, owner: Account, container: Container) -> None:
    with unchanged(container):
        for body, content_type, status, fields in UNREADABLE:
            with subtests.test(f"{body[:40]!r} as {content_type}"):
                refused = send_raw(owner, body, content_type)
                assert (refused.status_code, list(refused.json().get("errors", {}))) == (status, fields)
                assert set(refused.json()) == ({"message", "errors"} if fields else {"message"})
    assert send_raw(owner, "message=Hi", FORM).json()["errors"] == {
        "recipients": ["Give at least one recipient, or mailing_list_ids, or a radius_search."]
    }


WRONG_TYPES: dict[str, list[Any]] = {
    "preview": ["true", 1, [], {}],
    "recipients": ["Jane", {"name": "Jane"}, 5, ["Jane"], [None], [["Jane"]]],
    "mailing_list_ids": ["5", 5, {"id": 5}, [None], ["x"], [1.5], [-1], [BIG]],
    "radius_search": ["near", 5, []],
    "size": [4, "4X6", "5x7", "", ["4x6"]],
    "front_image_url": [5, ["https://example.com/x.png"], True],
    "image_template": ["x", -1, 0, 1.5, 1e30, BIG, DIGITS, True, [1]],
    "message": [5, ["Hi"], {"text": "Hi"}, True],
    "message_template": ["x", -1, 0, 1.5, BIG, True],
    "custom_background_image": [5, {}],
    "send_standard_mail": ["yes", 1, ""],
    "handwriting_style": ["blue", 1.5, [1], True, -1, BIG, DIGITS],
    "handwriting_color": [5, ["blue"], "", "sky", "#12345", "rgb(1,2)", "rgb(300,0,0)"],
    "handwriting_realism": ["true", 0],
    "font_size": ["huge", 12],
    "qrcode_url": [5, ["https://example.com"]],
    "sub_account_id": ["x", "", "-1", -1, 0, 1.5, BIG, DIGITS, 2**63, True, [1], {}],
    "notification_emails": [5, {"a": 1}, [5], ["nobody"], "nobody", ["+1@sms"], ["a@b.co\u0000"]],
    "return_name": [5, []],
    "return_address": [5],
    "return_address2": [{}],
    "return_city": [True],
    "return_state": [[]],
    "return_postal_code": [78701],
    "use_custom_background": ["no"],
    "append_or_current_resident": ["no", 0],
    "allow_duplicates": [1],
    "schedule_for": [5, "tomorrow", "2026-13-01", "2026-05-04T11:59:59Z", "2028-01-01",
                     "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"],
    "preview_recipient": ["x", -1, 1.5, BIG, 1],
}  # fmt: skip
UNWRITABLE = [
    *((name, SURROGATE) for name in ("message", "return_city", "handwriting_color", "size", "schedule_for")),
    *((name, '"\\u0000"') for name in ("return_name", "handwriting_color")),
    ("message", '"Hi \\u0000 there"'), ("size", '"4x6\\u0000"'), ("front_image_url", '"https://example.com/\\u0000"'),
    ("sub_account_id", "1e999"), ("handwriting_style", "-1e400"), ("preview_recipient", "1" * 4_000),
    *(("recipients", f'[{{"name": {name}, "email": "a@b.co"}}]') for name in (SURROGATE, '"\\u0000"')),
]  # fmt: skip


@pytest.mark.usefixtures("unlimited_calls")
def test_a_wrong_type_or_range_names_its_field(subtests: pytest.Subtests, owner: Account, container: Container) -> None:
    values = [(field, json.dumps(value)) for field, each in WRONG_TYPES.items() for value in each]
    with unchanged(container):
        for field, written in values + UNWRITABLE:
            with subtests.test(f"{field}: {written[:80]}"):
                others = json.dumps({name: value for name, value in postcard().items() if name != field})
                refused = send_raw(owner, f"{others[:-1]},{json.dumps(field)}:{written}}}")
                assert refused.status_code == 422
                (named,) = refused.json()["errors"]
                assert named.split(".")[0] == field
        assert send_raw(owner, postcard_with("x", '1, "\\ud800": 1')).status_code == 422


def test_an_impossible_request_names_its_field(subtests: pytest.Subtests, owner: Account, container: Container) -> None:
    canadian = person(country="CA", postal_code="K1A 0B1")
    third = [*people(2), person(address="9 Oak Ave", custom1="very " * 59)]
    cases: list[tuple[Any, ...]] = [
        ({"recipients": []}, "recipients"),
        ({"return_city": "Austin", "return_state": "TX", "return_postal_code": "78701"}, "return_address"),
        ({"recipients": None}, "recipients"), ({"recipients": None, "mailing_list_ids": []}, "recipients"),
        ({"message": None} | ART, "message"), ({"message": ""} | ART, "message"),
        ({"message": " \n "} | ART, "message"), ({"message": "x" * 5_001}, "message"),
        ({"message": "\u200b\u200d"}, "message", "empty"), ({"message": "%COMPANY%"}, "message", "empty"),
        ({"message": "Hi %NICKNAME%!"}, "message", "Unknown variable", *KNOWN_VARIABLES),
        ({"message": "Hi %FIRST_NAME% %COLOUR|blue%!"}, "message", "Unknown variable", *KNOWN_VARIABLES),
        ({"message": "Hi ~NICKNAME~"}, "message", "Unknown variable", *KNOWN_VARIABLES),
        ({"message": "A long story. " * 200}, "message", "lines too long for a 4x6 postcard", "shorten it by about"),
        ({"message": "Hi " + "%CUSTOM1% " * 20, "recipients": third}, "message", "for recipient 2"),
        ({"handwriting_style": 99}, "handwriting_style"), ({"handwriting_color": "sky"}, "handwriting_color"),
        ({"handwriting_color": "rgba(0,0,0,0)"}, "handwriting_color"),
        ({"radius_search": {"record_count": 5}}, "radius_search.address"),
        ({"radius_distance_miles": 5}, "radius_distance_miles"),
        ({"radius_center": {"city": "Austin"}}, "radius_center.address"),
        ({"radius_center": "12 Main St, Austin, TX 78701"}, "radius_center"),
        ({"preview": True, "preview_recipient": 1}, "preview_recipient"),
        ({"recipients": people(5_001)}, "recipients", "5,000"), ({"recipients": [{}]}, "recipients.0.address"),
        ({"recipients": [{"name": "Jane"}]}, "recipients.0.address"),
        ({"recipients": [person(), person(postal_code="7870")]}, "recipients.1.postal_code"),
        ({"recipients": [canadian], "send_standard_mail": True}, "recipients.0.country"),
        ({"recipients": [person(country="DE", city="")]}, "recipients.0.city"),
    ]  # fmt: skip
    wrong: dict[str, object] = {
        "postal_code": "７８７０１", "province": "XX", "city": " ", "country": "Atlantis", "dob": "1990-02-30",
        "anniversary": "31/12/1990", "email": "nobody", "name": "x" * 301, "custom10": 5,
    }  # fmt: skip
    cases += [({"recipients": [person(**{name: value})]}, f"recipients.0.{name}") for name, value in wrong.items()]
    assert_refused(subtests, container, lambda changes: owner.send(**changes), cases)


def test_an_endless_address_is_refused_before_anyone_reads_it(owner: Account, container: Container) -> None:
    endless = {"address": "a, b" + " " * 900_000 + "c", "email": "a@" + "." * 900_000 + "@"}
    with unchanged(container):
        refused = owner.send(recipients=[endless])
    assert refused.status_code == 422
    assert "recipients.0.address" in refused.json()["errors"]


BAD_URLS = [
    "example.com/x.png", "ftp://example.com/x.png", "file:///etc/passwd", "javascript:alert(1)", "https://",
    "https://user:pass@example.com/x.png", "https://example.com/a b.png", "https://example.com:99999/x.png",
    "https://example.com/" + "x" * 2_100, "http://localhost/x.png", "http://127.0.0.1:5432/", "http://10.0.0.1/x.png",
    "http://169.254.169.254/latest/meta-data", "http://[::1]/x.png",
]  # fmt: skip


def test_a_bad_or_private_url_names_its_field(subtests: pytest.Subtests, owner: Account, container: Container) -> None:
    fields = ("front_image_url", "custom_background_image", "qrcode_url")
    cases = [({field: url}, field) for field in fields for url in BAD_URLS]
    assert_refused(subtests, container, lambda changes: owner.send(**changes), cases)


def test_what_is_not_there_or_a_strangers_is_refused_under_both_names(
    subtests: pytest.Subtests, owner: Account, stranger: Account, container: Container
) -> None:
    theirs = make_sub_account(container, stranger)
    unknown: list[tuple[str, object, str]]
    unknown = [(field, [5], "Mailing List Does Not Exist") for field in ("mailing_lists", "mailing_list_ids")]
    unknown += [
        (field + end, 5, f"{field.replace('_', ' ').title()} does not exist")
        for field in ("image_template", "message_template") for end in ("", "_id")
    ]  # fmt: skip
    unknown += [("sub_account_id", n, "Sub Account ID does not exist") for n in (theirs, theirs + 1_000, 2**63 - 1)]
    with unchanged(container):
        for field, value, message in unknown:
            with subtests.test(f"{field}: {value}"):
                refused = owner.send(**{field: value})
                assert (refused.status_code, refused.json()) == (400, {"message": message})


HOME = {
    "return_name": "Dana", "return_address": "PO Box 1", "return_city": "Waco", "return_state": "TX",
    "return_postal_code": "76701",
}  # fmt: skip


def test_half_a_return_address_is_refused(
    subtests: pytest.Subtests, container: Container, http: TestClient, owner: Account
) -> None:
    live = make_account(container, http, "live@example.com", mode="live")
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"return_address": "7 Elm St"}, ["return_city", "return_state", "return_postal_code"]),
        ({"return_address": "7 Elm St", "return_state": "TX"}, ["return_city", "return_postal_code"]),
        ({"return_address": "7 Elm St", "return_city": "Waco"}, ["return_state", "return_postal_code"]),
        ({"return_state": "TX"}, ["return_address", "return_city", "return_postal_code"]),
        (HOME | {"return_city": None}, ["return_city"]),
        (HOME | {"return_postal_code": ""}, ["return_postal_code"]),
    ]
    with unchanged(container):
        for caller in (owner, live):
            for given, missing in cases:
                with subtests.test(f"{given} of {caller}"):
                    refused = caller.send(**given)
                    assert (refused.status_code, list(refused.json()["errors"])) == (422, missing), refused.text
        for blank in ({}, {"return_address": ""}):  # live mail needs one
            refused = live.send(**blank)
            assert (refused.status_code, list(refused.json()["errors"])) == (422, ["return_address"])
    assert live.send(**HOME).status_code == 200


NO_OBJECT = "metadata must be a JSON object of key/value pairs."
LIMIT = 8_192


def test_odd_long_or_deep_metadata_is_refused(subtests: pytest.Subtests, owner: Account, container: Container) -> None:
    def of_bytes(size: int, letter: str) -> str:
        room, width = size - len('{"k":""}'), len(letter.encode())
        written = json.dumps({"k": "." * (room % width) + letter * (room // width)}, ensure_ascii=False)
        assert len(written.replace(": ", ":").encode()) == size
        return written

    def nested(levels: int, opening: str, closing: str) -> str:
        return '{"a":' + opening * levels + "1" + closing * levels + "}"

    letters, brackets = ("x", "é", "漢", "🙂"), (('{"a":', "}"), ("[", "]"))
    longest = [of_bytes(LIMIT, letter) for letter in letters]
    deepest = [nested(30, *pair) for pair in brackets]
    for accepted in (*longest, *deepest):
        order_id = send_raw(owner, postcard_with("metadata", accepted)).json()["id"]
        assert metadata_text(owner.get(f"/orders/{order_id}")) == accepted.replace(": ", ":")
    cases: list[tuple[str, ...]] = [
        *((wrong, "metadata", NO_OBJECT) for wrong in ("[]", '["a"]', '"text"', "5", "true", "1.5")),
        *((of_bytes(LIMIT + 1, letter), "metadata", "8,193 bytes") for letter in letters),
    ]
    assert_refused(subtests, container, lambda text: send_raw(owner, postcard_with("metadata", text)), cases)
    with unchanged(container):
        for pair in brackets:
            for levels in (31, 900, 4_000):
                assert send_raw(owner, postcard_with("metadata", nested(levels, *pair))).status_code == 422, levels
