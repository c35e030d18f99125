"""The account as the API description shows it."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from quillpost.web.api.orders.schemas import Money

EXAMPLE: dict[str, Any] = {
    "id": 1,
    "name": "Dana Whitfield",
    "email": "dana@example.com",
    "company": "Whitfield Homes",
    "mode": "live",
    "test_mode": False,
    "credit": 25_000,
    "usage": {"month": "2026-05", "orders": 12, "pieces": 480, "spent": 52_320},
    "live_ready": False,
    "live_readiness": ["No print partner is connected."],
}


class UsageShape(BaseModel):
    month: str = Field(description="The current one, UTC.", examples=["2026-05"])
    orders: int = Field(description="Placed this month and not cancelled.")
    pieces: int = Field(description="Of these orders: those that were mailed or will be.")
    spent: int = Field(description="In cents: pieces printed this month, less what was given back.")


class AccountShape(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    id: int
    name: str
    email: str
    company: str | None
    mode: Literal["test", "live"] = Field(description="The token's.")
    test_mode: bool
    credit: Money
    usage: UsageShape
    live_ready: bool = Field(description="Whether live mail could be printed now, in either mode of the token.")
    live_readiness: list[str] = Field(
        description="What is missing before that, a sentence each; live orders are paused until then."
    )


class Pong(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"message": "pong", "test_mode": True}]})

    message: str
    test_mode: bool
