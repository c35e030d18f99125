"""The embedded composer: a signed address that opens it for a while."""

import secrets
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from quillpost.accounts.embedding import Pass, issue, normal_origin, read_origins
from quillpost.accounts.models import Caller
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.core.clock import iso
from quillpost.core.errors import Invalid
from quillpost.orders.request import lists_at_hand
from quillpost.web.api.bodies import DIGITS, STOPS_EARLY, Body, Id, Text, said
from quillpost.web.api.dependencies import InTx, Services, may
from quillpost.web.api.errors import BODY_ERRORS, errors
from quillpost.web.api.orders.responses import base_of
from quillpost.web.api.responses import answer
from quillpost.web.api.routes import PREFIX, V2Route
from quillpost.web.api.send.endpoints import OFFERS


class Embed(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "url": "https://mail.example.com/embed/compose/q7Jx...",
                    "expires_at": "2026-12-01T09:15:00Z",
                }
            ]
        }
    )

    url: str = Field(description="The address of the frame. Whoever has it can write sends for your account.")
    expires_at: str = Field(description="When it is good no more.")


router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Send"])

MaySend = Annotated[Caller, Depends(may("send:write"))]

LONGEST_TIME = 3_600
MOST_LISTS = 20
LONGEST_MESSAGE = 1_500
"""It is a part of the address."""
PIECES = {path: offer.piece for offer in OFFERS for path in offer.piece.paths}
SIZES = ("4x6", "6x9", "6x11")
KNOWN = tuple(f"postcard-{size}" for size in SIZES) + tuple(PIECES)

NOT_LISTED = "This site is not among those that may show the composer: an owner adds it at /settings/embed."
NO_PIECE = f"Give one of {', '.join(KNOWN)}."
EXAMPLE: Any = {
    "origin": "https://app.example.com",
    "piece": "postcard",
    "message": "Hi %FIRST_NAME%, thank you!",
    "expires_in": 900,
}


class EmbedBody(Body):
    """Where the composer is shown, and what it begins with."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    origin: Text = Field(
        max_length=300,
        description="The site that shows it in a frame: scheme, host and port. One of those that the account"
        " lists.",
        examples=["https://app.example.com"],
    )
    piece: Text | None = Field(
        None, max_length=40, description=f"What it begins with: {', '.join(KNOWN)}.", examples=["postcard"]
    )
    message: Text | None = Field(
        None, max_length=LONGEST_MESSAGE, description="What stands in its message field at first."
    )
    sub_account_id: Id | None = Field(None, description="The sub account that sends.")
    mailing_list_ids: Annotated[list[Id], Field(max_length=MOST_LISTS), STOPS_EARLY] | None = Field(
        None, description="Saved lists that may be chosen; without any, people are typed or pasted."
    )
    expires_in: Annotated[int, Field(ge=1, le=LONGEST_TIME), DIGITS] | None = Field(
        None, description="Seconds that the address is good for: an hour when nothing is said."
    )


@router.post("/embeds", response_model=Embed, responses=errors(*BODY_ERRORS), summary="Embed the composer")
def create_embed(request: Request, body: EmbedBody, who: MaySend, tx: InTx, parts: Services) -> Response:
    """An address for a frame in a page of your own. Whoever fills in the form there makes a stored send. Its
    address is told to your page, and to nobody else; your server opens it with its token."""
    faults: dict[str, list[str]] = {}
    origin = _origin(body.origin, read_origins(tx, who.account_id), faults)
    piece = said(body.piece)
    if piece is not None and piece not in KNOWN:
        faults["piece"] = [NO_PIECE]
    home = body.sub_account_id if body.sub_account_id is not None else who.sub_account_id
    if home is not None:
        require_sub_account(tx, home)
    lists = lists_at_hand(tx, body.mailing_list_ids or (), home, faults)
    if faults:
        raise Invalid(faults)
    assert who.token_id is not None, "whoever calls the API has a token"
    expires = parts.clock() + timedelta(seconds=body.expires_in or LONGEST_TIME)
    given = Pass(
        account_id=who.account_id,
        sub_account_id=home,
        mode=who.mode,
        token_id=who.token_id,
        origin=origin,
        piece=piece,
        message=said(body.message),
        mailing_list_ids=tuple(one.id for one in lists),
        serial=secrets.token_urlsafe(9),
    )
    url = f"{base_of(request)}/embed/compose/{issue(parts.sealer, given, expires=expires)}"
    return answer({"url": url, "expires_at": iso(expires)})


def _origin(written: str, listed: list[str], faults: dict[str, list[str]]) -> str:
    try:
        origin = normal_origin(written)
    except ValueError as wrong:
        faults["origin"] = [str(wrong)]
        return ""
    if origin not in listed:
        faults["origin"] = [NOT_LISTED]
    return origin
