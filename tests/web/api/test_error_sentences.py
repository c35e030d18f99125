"""What is wrong with a call, in words and under the path of its field."""

import json
from typing import Annotated, Any

import pytest
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, Field, ValidationError

from quillpost.web.api.errors import error_response, to_invalid
from quillpost.web.api.schemas import Body, Id, Text


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
    ("values", "sentence"),
    [
        ({"text": "x" * 1_001}, "At most 1,000 characters, please."),
        ({"title": "sixsix"}, "At most 5 characters, please."),
        ({"ids": [1, 2, 3]}, "At most 2 items, please."),
    ],
)
def test_the_error_for_a_long_value_gives_the_limit(values: dict[str, Any], sentence: str) -> None:
    assert to_invalid(validation_errors(values)).fields == {next(iter(values)): [sentence]}


def test_only_the_part_of_the_request_is_left_out_of_a_path() -> None:
    """A field may be called body, query or path as well."""
    found = validation_errors({"body": {"query": "one", "path": None}})
    sent = [error | {"loc": ("body", *error["loc"])} for error in found]
    answer = json.loads(bytes(error_response(RequestValidationError(sent)).body))
    assert list(answer["errors"]) == ["body.query", "body.path"] == list(to_invalid(found).fields)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("sixsix", {"either": ["At most 5 characters, please.", "This must be true or false.",
                               "This must be an array."]}),
        ([0], {"either": ["This must be a string.", "This must be true or false."],
               "either.0": ["Input should be greater than or equal to 1."]}),
    ],
)  # fmt: skip
def test_which_of_several_types_was_tried_is_nobodys_field(value: Any, expected: dict[str, list[str]]) -> None:
    assert to_invalid(validation_errors({"either": value})).fields == expected


def test_a_union_with_null_does_not_ask_for_null() -> None:
    found = [
        {"type": "bool_type", "loc": ("name", "bool"), "msg": "Input should be a valid boolean"},
        {"type": "none_required", "loc": ("name", "none"), "msg": "Input should be None"},
    ]
    assert to_invalid(found).fields == {"name": ["This must be true or false."]}


def test_an_error_of_the_whole_body_is_named_body() -> None:
    missing = {"type": "missing", "loc": ("body",), "msg": "Field required", "input": None}
    answer = json.loads(bytes(error_response(RequestValidationError([missing])).body))
    assert answer["errors"] == {"body": ["This field is required."]}
