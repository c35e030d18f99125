"""Sends that are refused: a clear status, the field by name, and not a trace left behind."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.rendering.text.variables import VARIABLE_NAMES
from quillpost.web.application import create_app
from support.factories import Account, make_account, make_sub_account, people, person, postcard
from support.shared_service import shared_service
from support.test_client import TestClient
from support.traces import FORM, JSON, postcard_with, send_raw, traces

BIG = 10**30
DIGITS = "9" * 5_000
SURROGATE = '"\\ud800"'


@pytest.fixture(scope="module")
def container(
    postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Container]:
    with shared_service(postgres, template, tmp_path_factory.mktemp("refusals")) as shared:
        yield shared


@pytest.fixture(scope="module")
def http(container: Container) -> Iterator[TestClient]:
    with TestClient(create_app(container), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="module")
def owner(container: Container, http: TestClient) -> Account:
    return make_account(container, http, "owner@example.com")


@pytest.mark.parametrize(
    ("body", "content_type", "status", "fields"),
    [
        (b"not json", JSON, 422, ["body"]),
        (b'{"message": "Hi"', JSON, 422, ["body"]),
        (b'{"message": NaN}', JSON, 422, ["body"]),
        (b"\xff\xfe", JSON, 422, ["body"]),
        (b"", JSON, 422, ["body"]),
        (b"   ", JSON, 422, ["body"]),
        (b"[]", JSON, 422, ["body"]),
        (b'"text"', JSON, 422, ["body"]),
        (b"null", JSON, 422, ["body"]),
        (b'{"message": "a", "message": "b"}', JSON, 422, ["body"]),
        (b'{"metadata": {"a": 1, "a": 2}}', JSON, 422, ["body"]),
        (b'{"\\ud800": 1, "\\ud800": 2}', JSON, 422, ["body"]),
        (b"[" * 100_000, JSON, 422, ["body"]),
        (b'{"a":' * 100_000, JSON, 422, ["body"]),
        (b"1" * 5_000, JSON, 422, ["body"]),
        (b"message=a&message=b", FORM, 422, ["message"]),
        (b"message", FORM, 422, ["body"]),
        (b"message=%ff", FORM, 422, ["body"]),
        (json.dumps(postcard()).encode(), FORM, 415, None),
        (json.dumps(postcard()).encode(), "text/plain", 415, None),
        (json.dumps(postcard()).encode(), "", 415, None),
        (b"<postcard/>", "application/xml", 415, None),
        (b"message=Hi", "multipart/form-data; boundary=x", 415, None),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(
    owner: Account, container: Container, body: bytes, content_type: str, status: int, fields: list[str] | None
) -> None:
    before = traces(container)
    refused = send_raw(owner, body, content_type)
    assert refused.status_code == status
    answer = refused.json()
    assert set(answer) == ({"message", "errors"} if fields else {"message"})
    assert list(answer.get("errors", {})) == (fields or [])
    assert traces(container) == before


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


@pytest.mark.parametrize("field", WRONG_TYPES)
def test_a_field_of_the_wrong_type_or_range_is_named(owner: Account, container: Container, field: str) -> None:
    before = traces(container)
    for value in WRONG_TYPES[field]:
        refused = owner.send(**{field: value})
        assert refused.status_code == 422, value
        (named,) = refused.json()["errors"]
        assert named.split(".")[0] == field, value
    assert traces(container) == before


@pytest.mark.parametrize(
    ("field", "written"),
    [
        ("message", '"Hi \\u0000 there"'),
        ("return_name", '"\\u0000"'),
        ("front_image_url", '"https://example.com/\\u0000"'),
        ("handwriting_color", '"\\u0000"'),
        ("size", '"4x6\\u0000"'),
        ("message", SURROGATE),
        ("return_city", SURROGATE),
        ("handwriting_color", SURROGATE),
        ("size", SURROGATE),
        ("schedule_for", SURROGATE),
        ("sub_account_id", "1e999"),
        ("handwriting_style", "-1e400"),
        ("preview_recipient", "1" * 4_000),
        ("recipients", f'[{{"name": {SURROGATE}, "email": "a@b.co"}}]'),
        ("recipients", '[{"name": "\\u0000", "email": "a@b.co"}]'),
    ],
)
def test_what_no_text_or_number_can_hold_is_named(
    owner: Account, container: Container, field: str, written: str
) -> None:
    before = traces(container)
    body = {name: value for name, value in postcard().items() if name != field}
    refused = send_raw(owner, f"{json.dumps(body)[:-1]},{json.dumps(field)}:{written}}}")
    assert refused.status_code == 422
    (named,) = refused.json()["errors"]
    assert named.split(".")[0] == field
    assert traces(container) == before


def test_a_field_whose_name_is_half_a_character_is_refused(owner: Account, container: Container) -> None:
    before = traces(container)
    assert send_raw(owner, postcard_with("x", '1, "\\ud800": 1')).status_code == 422
    assert traces(container) == before


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"recipients": []}, "recipients"),
        ({"return_city": "Austin", "return_state": "TX", "return_postal_code": "78701"}, "return_address"),
        ({"recipients": None}, "recipients"),
        ({"recipients": None, "mailing_list_ids": []}, "recipients"),
        ({"message": None, "front_image_url": "https://example.com/a.png"}, "message"),
        ({"message": "", "front_image_url": "https://example.com/a.png"}, "message"),
        ({"message": " \n ", "front_image_url": "https://example.com/a.png"}, "message"),
        ({"message": "x" * 5_001}, "message"),
        ({"handwriting_style": 99}, "handwriting_style"),
        ({"handwriting_color": "sky"}, "handwriting_color"),
        ({"radius_search": {"record_count": 5}}, "radius_search.address"),
        ({"radius_distance_miles": 5}, "radius_distance_miles"),
        ({"radius_center": {"city": "Austin"}}, "radius_center.address"),
        ({"radius_center": "12 Main St, Austin, TX 78701"}, "radius_center"),
        ({"recipients": [{}]}, "recipients.0.address"),
        ({"recipients": [{"name": "Jane"}]}, "recipients.0.address"),
        ({"recipients": [person(), person(postal_code="7870")]}, "recipients.1.postal_code"),
        ({"recipients": [person(postal_code="７８７０１")]}, "recipients.0.postal_code"),
        ({"recipients": [person(province="XX")]}, "recipients.0.province"),
        ({"recipients": [person(city=" ")]}, "recipients.0.city"),
        ({"recipients": [person(country="Atlantis")]}, "recipients.0.country"),
        ({"recipients": [person(country="DE", city="")]}, "recipients.0.city"),
        ({"recipients": [person(country="CA", postal_code="K1A 0B1")], "send_standard_mail": True},
         "recipients.0.country"),
        ({"recipients": [person(dob="1990-02-30")]}, "recipients.0.dob"),
        ({"recipients": [person(anniversary="31/12/1990")]}, "recipients.0.anniversary"),
        ({"recipients": [person(email="nobody")]}, "recipients.0.email"),
        ({"recipients": [person(name="x" * 301)]}, "recipients.0.name"),
        ({"recipients": [person(custom10=5)]}, "recipients.0.custom10"),
    ],
)  # fmt: skip
def test_the_error_for_an_impossible_request_names_its_field(
    owner: Account, container: Container, changes: dict[str, Any], field: str
) -> None:
    before = traces(container)
    refused = owner.send(**changes)
    assert refused.status_code == 422
    assert list(refused.json()["errors"]) == [field]
    assert traces(container) == before


def test_an_endless_address_is_refused_before_anyone_reads_it(owner: Account, container: Container) -> None:
    before = traces(container)
    endless = {"address": "a, b" + " " * 900_000 + "c", "email": "a@" + "." * 900_000 + "@"}
    refused = owner.send(recipients=[endless])
    assert refused.status_code == 422
    assert "recipients.0.address" in refused.json()["errors"]
    assert traces(container) == before


@pytest.mark.parametrize(
    "text", ["Hi %NICKNAME%!", "Hi %FIRST_NAME% %COLOUR|blue%!", "Hi ~NICKNAME~"], ids=["one", "two", "tilde"]
)
def test_an_unknown_variable_is_refused_with_all_that_are_known(
    owner: Account, container: Container, text: str
) -> None:
    before = traces(container)
    refused = owner.send(message=text)
    assert refused.status_code == 422
    (error,) = refused.json()["errors"]["message"]
    assert all(f"%{name}%" in error for name in VARIABLE_NAMES)
    assert "Unknown variable" in error
    assert traces(container) == before


def test_a_message_too_long_for_the_card_says_by_how_much(owner: Account, container: Container) -> None:
    before = traces(container)
    refused = owner.send(message="A long story. " * 200)
    assert refused.status_code == 422
    (error,) = refused.json()["errors"]["message"]
    assert "lines too long for a 4x6 postcard" in error
    assert "shorten it by about" in error
    assert traces(container) == before


def test_a_message_too_long_for_one_recipient_names_that_one(owner: Account, container: Container) -> None:
    before = traces(container)
    audience = [*people(2), person(address="9 Oak Ave", custom1="very " * 59)]
    refused = owner.send(message="Hi " + "%CUSTOM1% " * 20, recipients=audience)
    assert refused.status_code == 422
    assert "for recipient 2" in refused.json()["errors"]["message"][0]
    assert traces(container) == before


def test_one_recipient_too_many_is_refused(owner: Account, container: Container) -> None:
    before = traces(container)
    refused = owner.send(recipients=people(5_001))
    assert refused.status_code == 422
    assert "5,000" in refused.json()["errors"]["recipients"][0]
    assert traces(container) == before


def test_another_accounts_sub_account_is_refused_as_an_unknown_one(
    owner: Account, stranger: Account, container: Container
) -> None:
    theirs = make_sub_account(container, stranger)
    before = traces(container)
    answers = [owner.send(sub_account_id=number) for number in (theirs, theirs + 1_000, 2**63 - 1)]
    assert {answer.status_code for answer in answers} == {400}
    assert {answer.text for answer in answers} == {'{"message":"Sub Account ID does not exist"}'}
    assert traces(container) == before
