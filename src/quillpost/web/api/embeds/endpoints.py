"""The embedded composer: a signed address that opens it for a while."""

import secrets
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from quillpost.accounts.embeds import EmbedToken, issue_embed_token, normalize_origin, read_embed_origins
from quillpost.accounts.models import Caller
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.core.clock import format_iso
from quillpost.core.errors import Invalid
from quillpost.orders.resolution import read_usable_lists
from quillpost.web.api.bodies import DIGITS, STOP_AT_ERROR_LIMIT, Body, Id, Text, strip_or_none
from quillpost.web.api.dependencies import RequestTransaction, require_scope
from quillpost.web.api.errors import BODY_ERRORS, error_responses
from quillpost.web.api.orders.responses import base_url
from quillpost.web.api.responses import json_response
from quillpost.web.api.routes import PREFIX, V2Route
from quillpost.web.api.send.endpoints import SENDABLE_PRODUCTS
from quillpost.web.dependencies import Services


class Embed(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"url": "https://mail.example.com/embed/compose/q7Jx...", "expires_at": "2026-12-01T09:15:00Z"}
            ]
        }
    )

    url: str = Field(description="The address of the frame. Whoever has it can write sends for your account.")
    expires_at: str = Field(description="When it is good no more.")


router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Send"])

CanSend = Annotated[Caller, Depends(require_scope("send:write"))]

MAX_LIFETIME_SECONDS = 3_600
MAX_LISTS = 20
MAX_MESSAGE_LENGTH = 1_500
"""It is a part of the address."""
PRODUCTS_BY_PATH = {path: offer.product for offer in SENDABLE_PRODUCTS for path in offer.product.paths}
SIZES = ("4x6", "6x9", "6x11")
PRODUCT_NAMES = tuple(f"postcard-{size}" for size in SIZES) + tuple(PRODUCTS_BY_PATH)

ORIGIN_NOT_LISTED = "This site is not among those that may show the composer: an owner adds it at /settings/embed."
UNKNOWN_PRODUCT = f"Give one of {', '.join(PRODUCT_NAMES)}."
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
        description="The site that shows it in a frame: scheme, host and port. One of those that the account lists.",
        examples=["https://app.example.com"],
    )
    piece: Text | None = Field(
        None, max_length=40, description=f"What it begins with: {', '.join(PRODUCT_NAMES)}.", examples=["postcard"]
    )
    message: Text | None = Field(
        None, max_length=MAX_MESSAGE_LENGTH, description="What stands in its message field at first."
    )
    sub_account_id: Id | None = Field(None, description="The sub account that sends.")
    mailing_list_ids: Annotated[list[Id], Field(max_length=MAX_LISTS), STOP_AT_ERROR_LIMIT] | None = Field(
        None, description="Saved lists that may be chosen; without any, people are typed or pasted."
    )
    expires_in: Annotated[int, Field(ge=1, le=MAX_LIFETIME_SECONDS), DIGITS] | None = Field(
        None, description="Seconds that the address is good for: an hour when nothing is said."
    )


@router.post("/embeds", response_model=Embed, responses=error_responses(*BODY_ERRORS), summary="Embed the composer")
def create_embed(
    request: Request, body: EmbedBody, caller: CanSend, tx: RequestTransaction, container: Services
) -> Response:
    """An address for a frame in a page of your own. Whoever fills in the form there makes a stored send. Its
    address is told to your page, and to nobody else; your server opens it with its token."""
    field_errors: dict[str, list[str]] = {}
    origin = _check_origin(body.origin, read_embed_origins(tx, caller.account_id), field_errors)
    product_name = strip_or_none(body.piece)
    if product_name is not None and product_name not in PRODUCT_NAMES:
        field_errors["piece"] = [UNKNOWN_PRODUCT]
    sub_account_id = body.sub_account_id if body.sub_account_id is not None else caller.sub_account_id
    if sub_account_id is not None:
        require_sub_account(tx, sub_account_id)
    lists = read_usable_lists(tx, body.mailing_list_ids or (), sub_account_id, field_errors)
    if field_errors:
        raise Invalid(field_errors)
    assert caller.token_id is not None, "whoever calls the API has a token"
    expires_at = container.clock() + timedelta(seconds=body.expires_in or MAX_LIFETIME_SECONDS)
    embed_pass = EmbedToken(
        account_id=caller.account_id,
        sub_account_id=sub_account_id,
        mode=caller.mode,
        token_id=caller.token_id,
        origin=origin,
        piece=product_name,
        message=strip_or_none(body.message),
        mailing_list_ids=tuple(mailing_list.id for mailing_list in lists),
        serial=secrets.token_urlsafe(9),
    )
    url = f"{base_url(request)}/embed/compose/{issue_embed_token(container.encryptor, embed_pass, expires=expires_at)}"
    return json_response({"url": url, "expires_at": format_iso(expires_at)})


def _check_origin(text: str, allowed_origins: list[str], errors: dict[str, list[str]]) -> str:
    try:
        origin = normalize_origin(text)
    except ValueError as error:
        errors["origin"] = [str(error)]
        return ""
    if origin not in allowed_origins:
        errors["origin"] = [ORIGIN_NOT_LISTED]
    return origin
