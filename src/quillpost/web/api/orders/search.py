"""Finding orders by whom their pieces went to."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.core.errors import Invalid
from quillpost.orders.search import ItemQuery, search_by_recipient
from quillpost.recipients.addresses.keys import normalize_for_key
from quillpost.recipients.rules import MAX_FIELD_LENGTH, parse_partial_address
from quillpost.web.api.bodies import Text, strip_or_none
from quillpost.web.api.dependencies import RequestTransaction, SubAccountFilter, require_scope
from quillpost.web.api.errors import error_responses
from quillpost.web.api.orders import schemas
from quillpost.web.api.orders.responses import serialize_search
from quillpost.web.api.responses import json_response
from quillpost.web.api.routes import PREFIX, V2Route
from quillpost.web.dependencies import Services

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Orders"])

CanRead = Annotated[Caller, Depends(require_scope("orders:read"))]
StreetQuery = Annotated[
    Text | None,
    Query(
        max_length=MAX_FIELD_LENGTH,
        description="The beginning of a street address; case and punctuation do not matter.",
        examples=["12 main st"],
    ),
]
EmailQuery = Annotated[
    Text | None,
    Query(max_length=MAX_FIELD_LENGTH, description="An e-mail address, in any case.", examples=["jane@example.com"]),
]
NameQuery = Annotated[
    Text | None,
    Query(max_length=MAX_FIELD_LENGTH, description="The beginning of a name, in any case.", examples=["Jane"]),
]


@router.get(
    "/orders/search",
    response_model=schemas.SearchResponse,
    responses=error_responses(400, 422),
    summary="Find orders by their recipients",
)
def search_orders(
    request: Request,
    caller: CanRead,
    tx: RequestTransaction,
    container: Services,
    sub_account_id: SubAccountFilter,
    street_address: StreetQuery = None,
    email: EmailQuery = None,
    name: NameQuery = None,
) -> Response:
    """Pieces of which all that is given is true, newest first, and their orders.

    At most 10,000 pieces; `truncated` says whether there are more.
    """
    filters = ItemQuery(
        streets=parse_streets(street_address),
        email=strip_or_none(email),
        name=strip_or_none(name),
        sub_account_id=sub_account_id,
    )
    if not filters.streets and filters.email is None and filters.name is None:
        message = "Give at least one of street_address, email and name."
        raise Invalid({field: [message] for field in ("street_address", "email", "name")})
    if sub_account_id is not None:
        require_sub_account(tx, sub_account_id)
    return json_response(
        serialize_search(request, container, search_by_recipient(container.db, tx, build_tenant(caller), filters))
    )


def parse_streets(text: str | None) -> list[str]:
    """The street as addresses are kept, also out of a whole address on one line.

    Half a street may be read as another: `7 north gate` begins 7 N GATE, and also 7 NORTH-GATE RD.
    """
    if text is None or not text.strip():
        return []
    address = parse_partial_address({"address": text})
    if not address.street:
        raise Invalid({"street_address": ["This holds neither a letter nor a digit."]})
    return sorted({address.key_prefix, normalize_for_key(text) or address.key_prefix})
