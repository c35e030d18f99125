"""Request bodies: JSON to the letter, a form, or a form with files."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import CoreSchema, InitErrorDetails, PydanticKnownError, PydanticUseDefault, core_schema

from quillpost.core.errors import Invalid
from quillpost.core.exact_json import MAX_REPORTED_ERRORS, ExactFloat
from quillpost.web.api.errors import to_invalid
from quillpost.web.dependencies import ABOVE_MAX_ID, parse_digits


@dataclass(slots=True)
class ErrorBudget:
    """How many errors may be built yet: the context of a validation, which all arrays of a body share."""

    errors_left: int = MAX_REPORTED_ERRORS


class StopAtErrorLimit:
    """Beside an array's type: its items are validated one by one, until too much is wrong."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        inner = handler(source)
        max_length: int | None = inner.get("max_length")

        def validate_list(rows: Any, validate: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
            if type(rows) is not list or not rows:
                return validate(rows)
            if max_length is not None and len(rows) > max_length:
                error_context = {"field_type": "List", "max_length": max_length, "actual_length": len(rows)}
                raise PydanticKnownError("too_long", error_context)
            return _validate_rows(
                rows, validate, info.context if isinstance(info.context, ErrorBudget) else ErrorBudget()
            )

        return core_schema.with_info_wrap_validator_function(validate_list, inner)


STOP_AT_ERROR_LIMIT = StopAtErrorLimit()


def _validate_rows(rows: list[Any], validate: ValidatorFunctionWrapHandler, error_budget: ErrorBudget) -> list[Any]:
    items: list[Any] = []
    row_errors: list[InitErrorDetails] = []
    for index, row in enumerate(rows):
        try:
            items += validate([row])
        except ValidationError as invalid:
            details = [_error_at_index(index, error) for error in invalid.errors(include_url=False)]
            row_errors += details[: error_budget.errors_left]
            error_budget.errors_left -= len(details)
            if error_budget.errors_left <= 0:
                break
    if row_errors:
        raise ValidationError.from_exception_data("rows", row_errors)
    return items


def _error_at_index(index: int, error: Any) -> InitErrorDetails:
    """The error of a row that was validated by itself, at its place in the array."""
    loc = (index, *error["loc"][1:])
    return InitErrorDetails(type=error["type"], loc=loc, input=error["input"], ctx=error.get("ctx", {}))


LONE_SURROGATE = re.compile("[\ud800-\udfff]")

MULTIPART = "multipart/form-data"
JSON_NUMBER = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,3})?")
MULTIPART_BOUNDARY = re.compile(rb"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")

NO_NUL = r"^[^\u0000]*$"
NOT_BLANK = r"^[^\u0000]*[^\s\u0000][^\u0000]*$"
"""Only for the description: an error says it in better words than a pattern."""


class FormText(str):
    """A form's value: always text, so numbers and flags are read out of it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class FormFile:
    """A file of a form. Its bytes say what it is, not the name and type that its sender gave it."""

    body: bytes


def parse_integer(text: str) -> int | None:
    """The integer that JSON writes as 8, 8.0 or 8e0, or None. What no id can be is `ABOVE_MAX_ID`, or its negative."""
    if (digits := parse_digits(text)) is not None or JSON_NUMBER.fullmatch(text) is None:
        return digits
    number = Decimal(text)
    if number and number.adjusted() >= len(str(ABOVE_MAX_ID)):
        return ABOVE_MAX_ID if number > 0 else -ABOVE_MAX_ID
    return int(number) if number == number.to_integral_value() else None


def to_integer(value: object) -> object:
    """A number without a fraction is an integer, however it is written; anything else is left as it is."""
    if isinstance(value, ExactFloat):
        number = parse_integer(value.text)
        return value if number is None else number
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _to_id(value: object) -> object:
    """Ids may be strings of digits; any other string is left to be refused."""
    if isinstance(value, FormText):
        number = parse_integer(value)
    else:
        number = parse_digits(value) if isinstance(value, str) else None
    return to_integer(value) if number is None else number


def _to_flag(value: object) -> object:
    if isinstance(value, FormText) and value.lower() in ("true", "false", "1", "0"):
        return value.lower() in ("true", "1")
    return value


def _check_text(value: object) -> object:
    if isinstance(value, str):
        if "\x00" in value:
            raise ValueError("This text holds a NUL character, which cannot be printed or stored.")
        if not value.isascii() and LONE_SURROGATE.search(value):
            raise ValueError("This text holds a character that does not exist (a lone surrogate).")
    return str(value) if isinstance(value, FormText) else value


def strip_or_none(text: str | None) -> str | None:
    """What a text says: a blank one is as good as none."""
    return (text or "").strip() or None


class _NullMeansDefault:
    """Null stands for the field's default: typed clients write what is not set as null."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._null_to_default, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [handler(schema), {"type": "null"}]}

    def _null_to_default(self, value: object) -> object:
        if value is None:
            raise PydanticUseDefault
        return value


# Bounds stand before the reader: behind it the description would not show them. And they are whole in the
# floating point in which a description has them.
DIGITS = BeforeValidator(_to_id)
INTEGRAL = BeforeValidator(to_integer)
Id = Annotated[int, Field(ge=1, lt=ABOVE_MAX_ID), DIGITS]
WholeNumber = Annotated[int, DIGITS]
Flag = Annotated[bool, BeforeValidator(_to_flag)]
NULL_MEANS_DEFAULT = _NullMeansDefault()
OptionalFlag = Annotated[Flag, NULL_MEANS_DEFAULT]
Text = Annotated[str, BeforeValidator(_check_text)]
QueryText = Annotated[Text, Field(json_schema_extra={"pattern": NO_NUL})]


class Body(BaseModel):
    """A JSON object or a form that a caller sends. What it holds beyond our fields changes nothing."""

    model_config = ConfigDict(strict=True, extra="allow", populate_by_name=True)

    def provided_fields(self) -> dict[str, Any]:
        """The fields that the caller named, by our names."""
        return {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}

    @classmethod
    def ignored_in(cls, payload: Any) -> set[str]:
        """Names in what a caller sent that mean nothing to us: a typo, or a second spelling of a field."""
        if not isinstance(payload, Mapping):
            return set()
        used = {_used_spelling(spellings, payload) for spellings in _field_spellings(cls).values()}
        unset = {name for spellings in _aliased_spellings(cls) for name in spellings if payload.get(name) is None}
        return payload.keys() - used - unset

    rows: ClassVar[str | None] = None
    """The field that holds recipients, of whom there may be only so many in one call."""

    @model_validator(mode="wrap")
    @classmethod
    def _use_validated(cls, payload: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(payload, ExactFloat):
            # It remembers how it was written, and looks like an object with attributes: it is none.
            return validate(float(payload))
        if not isinstance(payload, ValidatedBody):
            return validate(drop_shadowed_nulls(payload, _aliased_spellings(cls)))
        if payload.error is not None:
            raise payload.error
        assert isinstance(payload.body, cls)
        return payload.body

    @classmethod
    def validated(cls, payload: Any) -> "ValidatedBody":
        # Besides arrays, which stop, each field may be wrong once.
        result = cls._validate_within(payload, max_errors := MAX_REPORTED_ERRORS - len(cls.model_fields))
        if result.error is None or result.error.error_count() < max_errors:
            return result
        return cls._validate_within(payload, max_errors + MAX_REPORTED_ERRORS - result.error.error_count())

    @classmethod
    def _validate_within(cls, payload: Any, max_errors: int) -> "ValidatedBody":
        try:
            return ValidatedBody(cls.model_validate(payload, context=ErrorBudget(max_errors)))
        except ValidationError as error:
            return ValidatedBody(None, error)

    @classmethod
    def check_rows(cls, payload: Any, max_rows: int) -> None:
        """`Invalid` if there are too many, before anyone looks at one of them."""
        rows = payload.get(cls.rows) if cls.rows and isinstance(payload, Mapping) else None
        if isinstance(rows, list) and len(rows) > max_rows:
            raise Invalid({str(cls.rows): [cls.too_many_message(max_rows)]})

    @classmethod
    def too_many_message(cls, max_rows: int) -> str:
        return f"At most {max_rows:,} recipients in one call; save a mailing list for more."

    @classmethod
    def as_spelled(cls, names: Iterable[str], payload: Mapping[str, Any]) -> set[str]:
        return {_used_spelling(_field_spellings(cls)[name], payload) or name for name in names}


BodyType = TypeVar("BodyType", bound=Body)
AnyType = TypeVar("AnyType", bound=type)


def accepts(wire: Any, *, beside: Set[str] = frozenset()) -> Callable[[AnyType], AnyType]:
    """Declare the client's type of a body. A name that only one of the two has is an error when the module is
    imported; `beside` are fields that the client's type leaves out."""

    def check(body: AnyType) -> AnyType:
        difference = _described_names(body) - beside ^ wire.__annotations__.keys()
        if difference:
            raise TypeError(f"{body.__name__} and the client's {wire.__name__} differ: {', '.join(sorted(difference))}")
        return body

    return check


def _described_names(body: Any) -> set[str]:
    """The names that the description shows; those of other clients are taken as well, and not shown."""
    if not issubclass(body, Body):
        return set(body.__annotations__)
    fields, spellings = body.model_fields, _field_spellings(body)
    return {spellings[name][0] for name, field in fields.items() if not any(map(_is_hidden, field.metadata))}


def _is_hidden(metadata: object) -> bool:
    return isinstance(metadata, SkipJsonSchema)  # type: ignore[misc]  # a class, but generic to type checkers


def validate_body(body: type[BodyType], payload: Any) -> BodyType:
    """`Invalid`, by the names of its fields, if the value is wrong."""
    result = body.validated(payload)
    if result.error is not None:
        raise to_invalid(result.error.errors()) from None
    assert isinstance(result.body, body)
    return result.body


def find_ignored_in_rows(payload: Any, field: str, known_names: Callable[[Mapping[str, Any]], Set[str]]) -> set[str]:
    """The same in the rows of a field, each name once."""
    rows = payload.get(field) if isinstance(payload, Mapping) else None
    if not isinstance(rows, list):
        return set()
    return {f"{field}.*.{name}" for row in rows if isinstance(row, dict) for name in row.keys() - known_names(row)}


@cache
def _field_spellings(body: type[Body]) -> Mapping[str, Sequence[str]]:
    """Each field's names on the wire, the one that counts first."""
    spellings_by_field = {}
    for name, field in body.model_fields.items():
        alias = field.validation_alias
        choices = [str(choice) for choice in alias.choices] if isinstance(alias, AliasChoices) else []
        spellings_by_field[name] = list(dict.fromkeys([*choices, name]))
    return spellings_by_field


def _used_spelling(spellings: Sequence[str], payload: Mapping[str, Any]) -> str | None:
    """The one that the caller used. Beside a value under another name, null is as good as left out."""
    used = [spelling for spelling in spellings if spelling in payload]
    return next((spelling for spelling in used if payload[spelling] is not None), used[0] if used else None)


@cache
def _aliased_spellings(body: type[Body]) -> Sequence[Sequence[str]]:
    return [spellings for spellings in _field_spellings(body).values() if len(spellings) > 1]


def drop_shadowed_nulls(payload: Any, fields: Iterable[Sequence[str]]) -> Any:
    """The same without nulls that stand beside a value under another name of their field."""
    if not isinstance(payload, dict):
        return payload
    nulls = [
        spelling
        for spellings in fields
        if (used := _used_spelling(spellings, payload)) is not None and payload[used] is not None
        for spelling in spellings
        if spelling in payload and payload[spelling] is None
    ]
    return {name: value for name, value in payload.items() if name not in nulls} if nulls else payload


@dataclass(frozen=True, slots=True)
class ValidatedBody:
    """A body that was validated before: the framework is given the result when it validates the rest."""

    body: "Body | None"
    error: ValidationError | None = None


Json = dict[str, Any]

NON_BLANK_TEXT: Json = {"type": "string", "pattern": NOT_BLANK}
URL_TEXT: Json = {"type": "string", "pattern": r"^\s*[hH][tT][tT][pP][sS]?://[^\s\u0000]"}
NON_EMPTY_ARRAY: Json = {"type": "array", "minItems": 1}
INTEGER: Json = {"type": "integer"}
BLANK_OR_NULL: Json = {"anyOf": [{"type": "null"}, {"type": "string", "pattern": r"^\s*$"}]}
EMPTY_OR_NULL: Json = {"anyOf": [{"type": "null"}, {"type": "array", "maxItems": 0}]}
NULL: Json = {"type": "null"}


def requires_fields(**fields: Json) -> Json:
    return {"type": "object", "required": list(fields), "properties": fields}


def allows_only(fields: Json) -> Json:
    """An object in which these fields are empty or absent."""
    return {"type": "object", "properties": fields}


def any_of(choices: Sequence[Json]) -> Json:
    return {"anyOf": list(choices)}


def merge_objects(left: Json, right: Json) -> Json:
    return {
        "type": "object",
        "required": [*left.get("required", ()), *right.get("required", ())],
        "properties": {**left["properties"], **right["properties"]},
    }


def all_of(*requirements: Json) -> Json:
    return {"allOf": list(requirements)}


def require_one_text(*names: str) -> Json:
    return all_of(any_of([requires_fields(**{name: NON_BLANK_TEXT}) for name in names]))
