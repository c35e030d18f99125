"""Forms that ask for what a call of the API asks for: read by that call's own body."""

from collections.abc import Mapping
from typing import Any, TypeVar

from quillpost.api import bodies
from quillpost.api.bodies import Body

Read = TypeVar("Read", bound=Body)


def read_body(body: type[Read], given: Mapping[str, Any]) -> Read:
    """What the API would read out of these values. `Invalid`, by its names of fields, where it would not."""
    return bodies.read_body(body, dict(given))
