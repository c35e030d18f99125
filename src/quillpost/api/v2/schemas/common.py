"""What many answers are made of."""

from typing import Annotated

from pydantic import BaseModel, Field

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
    message: str
