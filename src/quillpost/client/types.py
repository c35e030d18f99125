"""Types that the resources share, and how their fields are described."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from typing_extensions import TypedDict

Id = int | str
"""A number, or its digits."""

Mode = Literal["test", "live"]

Files = Mapping[str, tuple[str, bytes]]
"""By field: a file's name and its content."""


class Doc:
    """What the API's description says of a field.

    pydantic asks annotations for their JSON schema by the name of the method below, so the API describes its
    responses with these types while the client does without pydantic.
    """

    def __init__(self, description: str | None = None, **keys: Any) -> None:
        self.keys = keys if description is None else {"description": description, **keys}

    def __get_pydantic_json_schema__(self, schema: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        return {**handler(schema), **self.keys}


Money = Annotated[int, Doc("In cents.")]
Timestamp = Annotated[str, Doc("ISO 8601.", examples=["2026-05-01T09:30:00Z"])]
PlainTimestamp = Annotated[str, Doc("UTC.", examples=["2026-05-01 09:30:00"])]

PageStart = TypedDict("PageStart", {"from": int | None})


class PageOptions(TypedDict, total=False):
    """Where to begin in a list, and how long a page of it is."""

    items_per_page: int
    page: int


class MessageResponse(TypedDict):
    message: str


class Links(TypedDict):
    first: str | None
    last: str | None
    prev: str | None
    next: str | None


class Meta(PageStart):
    current_page: int
    last_page: int
    path: str
    per_page: int
    to: int | None
    total: int
