"""What many answers are made of."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Money = Annotated[int, Field(description="In cents.")]
Moment = Annotated[str, Field(description="ISO 8601.", examples=["2026-05-01T09:30:00Z"])]
PlainMoment = Annotated[str, Field(description="UTC.", examples=["2026-05-01 09:30:00"])]


class Links(BaseModel):
    first: str | None
    last: str | None
    prev: str | None
    next: str | None


class Meta(BaseModel):
    current_page: int
    from_: int | None = Field(alias="from")
    last_page: int
    path: str
    per_page: int
    to: int | None
    total: int


class Message(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"message": "success"}]})

    message: str


def linked_example(path: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """The first of one page in the links + meta envelope, as an example shows it."""
    url = f"https://mail.example.com/api/v2{path}"
    return {
        "data": [dict(row)],
        "links": {"first": f"{url}?page=1", "last": f"{url}?page=1", "prev": None, "next": None},
        "meta": {
            "current_page": 1,
            "from": 1,
            "last_page": 1,
            "path": url,
            "per_page": 25,
            "to": 1,
            "total": 1,
        },
    }
