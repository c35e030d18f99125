"""Arrays in bodies whose validation stops when enough is wrong: nobody reads a hundred thousand errors."""

from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, ValidationError, ValidationInfo, ValidatorFunctionWrapHandler
from pydantic_core import CoreSchema, InitErrorDetails, PydanticKnownError, core_schema

from quillpost.kit.bounds import MOST_FAULTS


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
