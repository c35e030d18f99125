"""Forms that ask for what a call of the API asks for: read by that call's own body."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from quillpost.api.bodies import Body
from quillpost.api.errors import invalid_of

Read = TypeVar("Read", bound=Body)


def read_body(body: type[Read], given: Mapping[str, Any]) -> Read:
    """What the API would read out of these values. `Invalid`, by its names of fields, where it would not."""
    try:
        return body.model_validate(dict(given))
    except ValidationError as wrong:
        raise invalid_of(wrong.errors()) from None
