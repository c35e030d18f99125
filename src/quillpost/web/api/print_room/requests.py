"""What the print room's calls say."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, ConfigDict, Field

from quillpost.core.errors import Invalid
from quillpost.fulfillment.print_room.marks import MOST_PIECES, Pieces, Spoiled
from quillpost.fulfillment.review import LONGEST_REASON
from quillpost.web.api.bodies import DIGITS, STOPS_EARLY, Body, Id, Switch, Text, ignored_in_rows, said
from quillpost.web.api.print_room.held_orders import Reason
from quillpost.web.api.requirements import ID, SOME, all_of, any_of, has

MOST_ORDERS = 1_000

Position = Annotated[int, Field(ge=1, le=1_000_000), DIGITS]


class SpoiledPiece(Body):
    """Either its place in the batch, from 1, or the id of its item."""

    position: Position | None = None
    item_id: Id | None = None
    reason: Annotated[Text | None, AfterValidator(said)] = Field(None, max_length=LONGEST_REASON)


class Mark(Body):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "status": "printed",
                    "at": "2026-05-05T08:30:00Z",
                    "spoiled": [{"position": 17, "reason": "Torn"}],
                }
            ]
        }
    )

    status: Literal["acknowledged", "printed", "mailed", "spoiled"] = Field(
        description="How far it is; spoiled: nothing but that these pieces are."
    )
    at: Text | None = Field(
        None, max_length=64, description="When, ISO 8601; now if not said.", examples=["2026-05-05T08:30:00Z"]
    )
    spoiled: Annotated[list[SpoiledPiece], Field(max_length=MOST_PIECES), STOPS_EARLY] | None = Field(
        None, description="Pieces that cannot be used: they fail, and are not billed."
    )

    @classmethod
    def ignored_in(cls, sent: Any) -> set[str]:
        return super().ignored_in(sent) | ignored_in_rows(sent, "spoiled", _known_of_piece)

    def moment(self) -> datetime | None:
        if not self.at:
            return None
        try:
            at = datetime.fromisoformat(self.at)
        except ValueError:
            told = "Write an ISO 8601 date and time, such as 2026-05-05T08:30:00Z."
            raise Invalid({"at": [told]}) from None
        return at if at.tzinfo else at.replace(tzinfo=UTC)

    def pieces(self) -> list[Spoiled]:
        return [Spoiled(one.position, one.item_id, one.reason) for one in self.spoiled or ()]


def _known_of_piece(_: Mapping[str, Any]) -> set[str]:
    return set(SpoiledPiece.model_fields)


class Reprint(Body):
    """Which pieces, in one of three ways, and why."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"from": 120, "to": 180, "reason": "The sheets were cut askew."}],
            **all_of(any_of([has(positions=SOME), has(item_ids=SOME), has(**{"from": ID, "to": ID})])),
        }
    )

    positions: Annotated[list[Position], Field(max_length=MOST_PIECES), STOPS_EARLY] | None = Field(
        None, description="These, by their places in the batch, from 1."
    )
    from_: Position | None = Field(
        None, validation_alias=AliasChoices("from"), description="From this place on."
    )
    to: Position | None = Field(None, description="Up to this place.")
    item_ids: Annotated[list[Id], Field(max_length=MOST_PIECES), STOPS_EARLY] | None = Field(
        None, description="These, by their items."
    )
    reason: Reason = Field(max_length=LONGEST_REASON, description="Why; kept in the log.")

    def pieces(self) -> Pieces:
        return Pieces(
            positions=self.positions or (), first=self.from_, last=self.to, item_ids=self.item_ids or ()
        )


class Retry(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"anew": True}]})

    anew: Switch = Field(
        False,
        description="True: the partner to whom it was offered does not have it; it goes to the present one.",
    )


class Rush(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"order_ids": [1001]}]})

    order_ids: Annotated[list[Id], Field(min_length=1, max_length=MOST_ORDERS), STOPS_EARLY] = Field(
        description="Which orders."
    )
