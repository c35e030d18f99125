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
from pydantic_core import CoreSchema, InitErrorDetails, PydanticKnownError, PydanticUseDefault, core_schema

from quillpost.core.body_limits import MOST_FAULTS
from quillpost.core.errors import Invalid
from quillpost.core.exact_json import WrittenNumber
from quillpost.web.api.errors import invalid_of


@dataclass(slots=True)
class Allowance:
    """How many errors may be built yet: the context of a validation, which all arrays of a body share."""

    left: int = MOST_FAULTS


class StopsEarly:
    """Beside an array's type: its items are validated one by one, until too much is wrong."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        inner = handler(source)
        most: int | None = inner.get("max_length")

        def read(rows: Any, validate: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
            if type(rows) is not list or not rows:
                return validate(rows)
            if most is not None and len(rows) > most:
                facts = {"field_type": "List", "max_length": most, "actual_length": len(rows)}
                raise PydanticKnownError("too_long", facts)
            return _read(rows, validate, info.context if isinstance(info.context, Allowance) else Allowance())

        return core_schema.with_info_wrap_validator_function(read, inner)


STOPS_EARLY = StopsEarly()


def _read(rows: list[Any], validate: ValidatorFunctionWrapHandler, allowance: Allowance) -> list[Any]:
    read: list[Any] = []
    wrong: list[InitErrorDetails] = []
    for place, row in enumerate(rows):
        try:
            read += validate([row])
        except ValidationError as bad:
            found = [_at(place, fault) for fault in bad.errors(include_url=False)]
            wrong += found[: allowance.left]
            allowance.left -= len(found)
            if allowance.left <= 0:
                break
    if wrong:
        raise ValidationError.from_exception_data("rows", wrong)
    return read


def _at(place: int, fault: Any) -> InitErrorDetails:
    """The fault of a row that was alone in its array, at its place among the others."""
    loc = (place, *fault["loc"][1:])
    return InitErrorDetails(type=fault["type"], loc=loc, input=fault["input"], ctx=fault.get("ctx", {}))


LARGEST_ID = 2**63 - 1
BEYOND_IDS = LARGEST_ID + 1
HALF_A_CHARACTER = re.compile("[\ud800-\udfff]")


MULTIPART = "multipart/form-data"
JSON_NUMBER = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,3})?")
BOUNDARY = re.compile(rb"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")

NO_NUL = r"^[^\u0000]*$"
NOT_BLANK = r"^[^\u0000]*[^\s\u0000][^\u0000]*$"
"""For the description alone: whoever is refused is told in better words than a pattern."""


class FormText(str):
    """A form's value: always text, so numbers and flags are read out of it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Upload:
    """A file of a form. Which name and type its sender gave it is forgotten: its bytes say what it is."""

    body: bytes


def whole_number(text: str) -> int | None:
    """The number that these digits write, or None. Whatever no id can be is `BEYOND_IDS`, however long."""
    if not (text.isascii() and text.isdigit()):
        return None
    return min(int(text), BEYOND_IDS) if len(text) <= len(str(BEYOND_IDS)) else BEYOND_IDS


def written_integer(text: str) -> int | None:
    """The integer that a number writes as JSON has them: 8, 8.0 and 8e0 are one. None for any other number;
    whatever no id can be is `BEYOND_IDS`, or as far below zero."""
    if (digits := whole_number(text)) is not None or JSON_NUMBER.fullmatch(text) is None:
        return digits
    number = Decimal(text)
    if number and number.adjusted() >= len(str(BEYOND_IDS)):
        return BEYOND_IDS if number > 0 else -BEYOND_IDS
    return int(number) if number == number.to_integral_value() else None


def integer_of(value: object) -> object:
    """A number without a fraction is an integer, however it is written; anything else is left as it is."""
    if isinstance(value, WrittenNumber):
        number = written_integer(value.text)
        return value if number is None else number
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _number(value: object) -> object:
    """Ids may be strings of digits; any other string is left to be refused."""
    if isinstance(value, FormText):
        number = written_integer(value)
    else:
        number = whole_number(value) if isinstance(value, str) else None
    return integer_of(value) if number is None else number


def _flag(value: object) -> object:
    if isinstance(value, FormText) and value.lower() in ("true", "false", "1", "0"):
        return value.lower() in ("true", "1")
    return value


def _text(value: object) -> object:
    if isinstance(value, str):
        if "\x00" in value:
            raise ValueError("This text holds a NUL character, which cannot be printed or stored.")
        if not value.isascii() and HALF_A_CHARACTER.search(value):
            raise ValueError("This text holds a character that does not exist (a lone surrogate).")
    return str(value) if isinstance(value, FormText) else value


def said(text: str | None) -> str | None:
    """What a text says: a blank one is as good as none."""
    return (text or "").strip() or None


class _NullIsLeftOut:
    """Of a field with a default: null stands for that. Typed clients write what nobody has set as null."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._read, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [handler(schema), {"type": "null"}]}

    def _read(self, value: object) -> object:
        if value is None:
            raise PydanticUseDefault
        return value


# Bounds stand before the reader: behind it the description would not show them. And they are whole in the
# floating point in which a description has them.
DIGITS = BeforeValidator(_number)
INTEGER = BeforeValidator(integer_of)
Id = Annotated[int, Field(ge=1, lt=BEYOND_IDS), DIGITS]
Whole = Annotated[int, DIGITS]
Flag = Annotated[bool, BeforeValidator(_flag)]
NULL_IS_LEFT_OUT = _NullIsLeftOut()
Switch = Annotated[Flag, NULL_IS_LEFT_OUT]
Text = Annotated[str, BeforeValidator(_text)]
SoughtText = Annotated[Text, Field(json_schema_extra={"pattern": NO_NUL})]


class Body(BaseModel):
    """A JSON object or a form that a caller sends. What it holds beyond our fields changes nothing."""

    model_config = ConfigDict(strict=True, extra="allow", populate_by_name=True)

    def given(self) -> dict[str, Any]:
        """Our fields that the caller named, by our names; what was left out is not in it."""
        return {
            name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set
        }

    @classmethod
    def ignored_in(cls, sent: Any) -> set[str]:
        """Names in what a caller sent that mean nothing to us: a typo, or a second spelling of a field."""
        if not isinstance(sent, Mapping):
            return set()
        used = {_spelled(spellings, sent) for spellings in _spellings(cls).values()}
        unsaid = {name for spellings in _several(cls) for name in spellings if sent.get(name) is None}
        return sent.keys() - used - unsaid

    rows: ClassVar[str | None] = None
    """The field that holds recipients, of whom there may be only so many in one call."""

    @model_validator(mode="wrap")
    @classmethod
    def _as_examined(cls, sent: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(sent, WrittenNumber):
            # It remembers how it was written, and looks like an object with attributes: it is none.
            return validate(float(sent))
        if not isinstance(sent, Examined):
            return validate(without_nulls(sent, _several(cls)))
        if sent.wrong is not None:
            raise sent.wrong
        assert isinstance(sent.body, cls)
        return sent.body

    @classmethod
    def examined(cls, sent: Any) -> "Examined":
        """What validation finds, which stops when enough is wrong."""
        # Besides arrays, which stop, each field may be wrong once.
        found = cls._examined(sent, left := MOST_FAULTS - len(cls.model_fields))
        if found.wrong is None or found.wrong.error_count() < left:
            return found
        return cls._examined(sent, left + MOST_FAULTS - found.wrong.error_count())

    @classmethod
    def _examined(cls, sent: Any, left: int) -> "Examined":
        try:
            return Examined(cls.model_validate(sent, context=Allowance(left)))
        except ValidationError as wrong:
            return Examined(None, wrong)

    @classmethod
    def check_rows(cls, sent: Any, most: int) -> None:
        """`Invalid` if there are too many, before anyone looks at one of them."""
        rows = sent.get(cls.rows) if cls.rows and isinstance(sent, Mapping) else None
        if isinstance(rows, list) and len(rows) > most:
            raise Invalid({str(cls.rows): [cls.too_many(most)]})

    @classmethod
    def too_many(cls, most: int) -> str:
        return f"At most {most:,} recipients in one call; save a mailing list for more."

    @classmethod
    def spelled(cls, names: Iterable[str], sent: Mapping[str, Any]) -> set[str]:
        """Fields of ours as the caller spelled them."""
        return {_spelled(_spellings(cls)[name], sent) or name for name in names}


Read = TypeVar("Read", bound=Body)


def read_body(body: type[Read], sent: Any) -> Read:
    """What a value says to whoever reads this body of it. `Invalid`, by its names of fields, if it is
    wrong."""
    found = body.examined(sent)
    if found.wrong is not None:
        raise invalid_of(found.wrong.errors()) from None
    assert isinstance(found.body, body)
    return found.body


def ignored_in_rows(sent: Any, field: str, known: Callable[[Mapping[str, Any]], Set[str]]) -> set[str]:
    """The same within the rows of a field, each name once, whichever rows it was in."""
    rows = sent.get(field) if isinstance(sent, Mapping) else None
    if not isinstance(rows, list):
        return set()
    return {f"{field}.*.{name}" for row in rows if isinstance(row, dict) for name in row.keys() - known(row)}


@cache
def _spellings(body: type[Body]) -> Mapping[str, Sequence[str]]:
    """Each field's names on the wire, the one that counts first."""
    found = {}
    for name, field in body.model_fields.items():
        alias = field.validation_alias
        choices = [str(choice) for choice in alias.choices] if isinstance(alias, AliasChoices) else []
        found[name] = list(dict.fromkeys([*choices, name]))
    return found


def _spelled(spellings: Sequence[str], sent: Mapping[str, Any]) -> str | None:
    """The one that the caller used. Beside a value under another name, null is as good as left out."""
    used = [spelling for spelling in spellings if spelling in sent]
    return next((spelling for spelling in used if sent[spelling] is not None), used[0] if used else None)


@cache
def _several(body: type[Body]) -> Sequence[Sequence[str]]:
    """The names of each field that has more than one."""
    return [spellings for spellings in _spellings(body).values() if len(spellings) > 1]


def without_nulls(sent: Any, fields: Iterable[Sequence[str]]) -> Any:
    """The same without nulls that stand beside a value under another name of their field."""
    if not isinstance(sent, dict):
        return sent
    nulls = [
        spelling
        for spellings in fields
        if (used := _spelled(spellings, sent)) is not None and sent[used] is not None
        for spelling in spellings
        if spelling in sent and sent[spelling] is None
    ]
    return {name: value for name, value in sent.items() if name not in nulls} if nulls else sent


@dataclass(frozen=True, slots=True)
class Examined:
    """A body that was validated already, apart from the loop: what became of that is told to whoever has the
    framework validate it, in the course of all other checks."""

    body: "Body | None"
    wrong: ValidationError | None = None
