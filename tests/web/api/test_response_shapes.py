"""What answers show: errors under the paths of their fields, pages with their neighbors, and what published
clients read of sub accounts, templates and orders."""

import json
from typing import Annotated, Any

import pytest
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, Field, ValidationError
from starlette.requests import Request

from quillpost.core.paging import Page, PageRequest
from quillpost.web.api.errors import error_response, to_invalid
from quillpost.web.api.responses import numbered_page_response
from quillpost.web.api.schemas import Body, Id, Text
from support.factories import Account, Clock
from support.image_server import ImageServer


class Note(Body):
    text: Text = Field("", max_length=1_000)
    title: Text | None = Field(None, max_length=5)
    ids: Annotated[list[Id], Field(max_length=2)] | None = None
    body: dict[str, Id] | None = None
    either: Annotated[Text, Field(max_length=5), AfterValidator(str.strip)] | bool | list[Id] = True


def validation_errors(values: dict[str, Any]) -> Any:
    with pytest.raises(ValidationError) as caught:
        Note.model_validate(values)
    return caught.value.errors()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # A long value's error says the limit.
        ({"text": "x" * 1_001}, {"text": ["At most 1,000 characters, please."]}),
        ({"title": "sixsix"}, {"title": ["At most 5 characters, please."]}),
        ({"ids": [1, 2, 3]}, {"ids": ["At most 2 items, please."]}),
        # Which of several types was tried is nobody's field.
        ({"either": "sixsix"}, {"either": ["At most 5 characters, please.", "This must be true or false.",
                                           "This must be an array."]}),
        ({"either": [0]}, {"either": ["This must be a string.", "This must be true or false."],
                           "either.0": ["Input should be greater than or equal to 1."]}),
    ],
)  # fmt: skip
def test_an_error_says_what_is_wrong_under_the_name_of_its_field(
    values: dict[str, Any], expected: dict[str, list[str]]
) -> None:
    assert to_invalid(validation_errors(values)).fields == expected


def shown_errors(errors: list[dict[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads(bytes(error_response(RequestValidationError(errors)).body))["errors"]
    return found


def test_only_the_part_of_the_request_is_left_out_of_the_path_of_a_field() -> None:
    """A field may be called body, query or path as well."""
    found = validation_errors({"body": {"query": "one", "path": None}})
    sent = [error | {"loc": ("body", *error["loc"])} for error in found]
    assert list(shown_errors(sent)) == ["body.query", "body.path"] == list(to_invalid(found).fields)
    missing = {"type": "missing", "loc": ("body",), "msg": "Field required", "input": None}
    assert shown_errors([missing]) == {"body": ["This field is required."]}


def test_a_union_with_null_does_not_ask_for_null() -> None:
    found = [
        {"type": "bool_type", "loc": ("name", "bool"), "msg": "Input should be a valid boolean"},
        {"type": "none_required", "loc": ("name", "none"), "msg": "Input should be None"},
    ]
    assert to_invalid(found).fields == {"name": ["This must be true or false."]}


PATH = "http://quillpost.test/api/v2/mailing-lists-utils/recipients/7"


def shown(rows: list[int], total: int, *, page: int, per_page: int, query: str = "") -> dict[str, Any]:
    """The page-number envelope; the one of links and meta is in the specification's tables."""
    scope = {"type": "http", "method": "GET", "scheme": "http", "path": PATH.removeprefix("http://quillpost.test")}
    request = Request(scope | {"query_string": query.encode(), "headers": [(b"host", b"quillpost.test")]})
    answer = numbered_page_response(request, Page(rows, total, PageRequest(page, per_page)), lambda row: {"id": row})
    body: dict[str, Any] = json.loads(bytes(answer.body))
    return body


def test_a_numbered_page_knows_its_neighbors() -> None:
    assert shown([3, 4], 5, page=2, per_page=2, query="limit=2&page=2&tag=a%26b") == {
        "current_page": 2,
        "data": [{"id": 3}, {"id": 4}],
        "first_page_url": f"{PATH}?limit=2&tag=a%26b&page=1",
        "from": 3,
        "last_page": 3,
        "last_page_url": f"{PATH}?limit=2&tag=a%26b&page=3",
        "next_page_url": f"{PATH}?limit=2&tag=a%26b&page=3",
        "path": PATH,
        "per_page": 2,
        "prev_page_url": f"{PATH}?limit=2&tag=a%26b&page=1",
        "to": 4,
        "total": 5,
    }
    empty = shown([], 0, page=1, per_page=25)
    assert (empty["from"], empty["to"], empty["last_page"], empty["total"]) == (None, None, 1, 0)
    assert (empty["next_page_url"], empty["prev_page_url"]) == (None, None)
    assert empty["first_page_url"] == empty["last_page_url"] == f"{PATH}?page=1"
    beyond = shown([], 5, page=9, per_page=2)
    assert (beyond["from"], beyond["to"], beyond["next_page_url"]) == (None, None, None)
    assert beyond["prev_page_url"] == f"{PATH}?page=3"


def test_a_sub_account_has_its_title_for_a_name(owner: Account) -> None:
    made = owner.post("/sub-accounts", {"title": "Austin office"}).json()
    assert made["name"] == made["title"] == "Austin office"
    changed = owner.put(f"/sub-accounts/{made['id']}", {"name": "Dallas office"}).json()
    assert changed["name"] == changed["title"] == "Dallas office"
    assert [each["name"] for each in owner.get("/sub-accounts").json()["data"]] == ["Dallas office"]
    sent = owner.send(sub_account_id=made["id"]).json()
    assert sent["sub_account"]["name"] == "Dallas office"


@pytest.mark.usefixtures("loopback_urls")
def test_an_image_template_and_its_orders_show_one_address_that_opens_for_as_long(
    owner: Account, art: ImageServer, clock: Clock
) -> None:
    made = owner.post("/image-templates", {"type": "postcard", "name": "Saved", "image": art.picture()})
    assert made.status_code == 201, made.text
    path, image = f"/image-templates/{made.json()['id']}", made.json()["image"]
    clock.advance(hours=5)
    sent = owner.send(image_template=made.json()["id"]).json()
    order = owner.get(f"/orders/{sent['id']}").json()
    [listed] = owner.get("/orders").json()["data"]
    assert {each["front_image"] for each in (sent, order, listed)} == {owner.get(path).json()["image"]} == {image}
    picture = owner.http.get(image)
    assert (picture.status_code, picture.headers["Content-Type"]) == (200, "image/png")
    changed = owner.put(path, {"image": art.picture("gold")}).json()
    assert changed["image"] != image
    assert owner.get(f"/orders/{sent['id']}").json()["front_image"] == image
    clock.advance(days=40 * 365)
    assert owner.http.get(image).content == picture.content


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
