"""Bodies and responses of the print room."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, ConfigDict, Field

from quillpost.client import print_room as wire
from quillpost.core.errors import Invalid
from quillpost.fulfillment.print_room.reports import MAX_REPRINTED_ITEMS, BatchSelection, SpoiledItem
from quillpost.fulfillment.review.service import MAX_REASON_LENGTH
from quillpost.web.api.schemas import (
    DIGITS,
    INTEGER,
    NON_EMPTY_ARRAY,
    NOT_BLANK,
    STOP_AT_ERROR_LIMIT,
    Body,
    Id,
    OptionalFlag,
    Text,
    accepts,
    all_of,
    any_of,
    find_ignored_in_rows,
    requires_fields,
    strip_or_none,
)

MAX_ORDERS = 1_000

Position = Annotated[int, Field(ge=1, le=1_000_000), DIGITS]


def _require_reason(text: str) -> str:
    if not text.strip():
        raise ValueError("Give a reason: the sender reads it.")
    return text.strip()


Reason = Annotated[Text, Field(json_schema_extra={"pattern": NOT_BLANK}), AfterValidator(_require_reason)]


class Release(Body):
    reason: Annotated[Text | None, AfterValidator(strip_or_none)] = Field(
        None, max_length=MAX_REASON_LENGTH, description="Why it may be printed all the same; kept for operators."
    )


class Refusal(Body):
    reason: Reason = Field(max_length=MAX_REASON_LENGTH, description="Why it is not printed; the sender reads it.")


@accepts(wire.SpoiledPieceOptions)
class SpoiledPiece(Body):
    """Either its place in the batch, from 1, or the id of its item."""

    position: Position | None = None
    item_id: Id | None = None
    reason: Annotated[Text | None, AfterValidator(strip_or_none)] = Field(None, max_length=MAX_REASON_LENGTH)


@accepts(wire.MarkOptions, beside={"status"})
class Mark(Body):
    status: Literal["acknowledged", "printed", "mailed", "spoiled"] = Field(
        description="How far it is; spoiled: nothing but that these pieces are."
    )
    at: Text | None = Field(
        None, max_length=64, description="When, ISO 8601; now if not said.", examples=["2026-05-05T08:30:00Z"]
    )
    spoiled: Annotated[list[SpoiledPiece], Field(max_length=MAX_REPRINTED_ITEMS), STOP_AT_ERROR_LIMIT] | None = Field(
        None, description="Pieces that cannot be used: they fail, and are not billed."
    )

    @classmethod
    def ignored_in(cls, payload: Any) -> set[str]:
        return super().ignored_in(payload) | find_ignored_in_rows(payload, "spoiled", _spoiled_field_names)

    def parse_time(self) -> datetime | None:
        if not self.at:
            return None
        try:
            at = datetime.fromisoformat(self.at)
        except ValueError:
            message = "Write an ISO 8601 date and time, such as 2026-05-05T08:30:00Z."
            raise Invalid({"at": [message]}) from None
        return at if at.tzinfo else at.replace(tzinfo=UTC)

    def spoiled_items(self) -> list[SpoiledItem]:
        return [SpoiledItem(item.position, item.item_id, item.reason) for item in self.spoiled or ()]


def _spoiled_field_names(_: Mapping[str, Any]) -> set[str]:
    return set(SpoiledPiece.model_fields)


@accepts(wire.ReprintOptions, beside={"reason"})
class Reprint(Body):
    """Which pieces, in one of three ways, and why."""

    model_config = ConfigDict(
        json_schema_extra=all_of(
            any_of(
                [
                    requires_fields(positions=NON_EMPTY_ARRAY),
                    requires_fields(item_ids=NON_EMPTY_ARRAY),
                    requires_fields(**{"from": INTEGER, "to": INTEGER}),
                ]
            )
        )
    )

    positions: Annotated[list[Position], Field(max_length=MAX_REPRINTED_ITEMS), STOP_AT_ERROR_LIMIT] | None = Field(
        None, description="These, by their places in the batch, from 1."
    )
    from_: Position | None = Field(None, validation_alias=AliasChoices("from"), description="From this place on.")
    to: Position | None = Field(None, description="Up to this place.")
    item_ids: Annotated[list[Id], Field(max_length=MAX_REPRINTED_ITEMS), STOP_AT_ERROR_LIMIT] | None = Field(
        None, description="These, by their items."
    )
    reason: Reason = Field(max_length=MAX_REASON_LENGTH, description="Why; kept in the log.")

    def selected_items(self) -> BatchSelection:
        return BatchSelection(
            positions=self.positions or (), first=self.from_, last=self.to, item_ids=self.item_ids or ()
        )


class Retry(Body):
    anew: OptionalFlag = Field(
        False, description="True: the partner to whom it was offered does not have it; it goes to the present one."
    )


class Rush(Body):
    order_ids: Annotated[list[Id], Field(min_length=1, max_length=MAX_ORDERS), STOP_AT_ERROR_LIMIT] = Field(
        description="Which orders."
    )
