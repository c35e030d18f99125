"""Finding orders by whom their pieces went to."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.core.errors import Invalid
from quillpost.orders.search import Sought, search
from quillpost.recipients.addresses.keys import bare
from quillpost.recipients.rules import LONGEST, whereabouts
from quillpost.web.api.bodies import Text, said
from quillpost.web.api.dependencies import InTx, Services, SubAccountFilter, may
from quillpost.web.api.errors import errors
from quillpost.web.api.orders import schemas as schemas
from quillpost.web.api.orders.responses import search_shape
from quillpost.web.api.responses import answer
from quillpost.web.api.routes import PREFIX, V2Route

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Orders"])

MayRead = Annotated[Caller, Depends(may("orders:read"))]
Street = Annotated[
    Text | None,
    Query(
        max_length=LONGEST,
        description="The beginning of a street address; case and punctuation do not matter.",
        examples=["12 main st"],
    ),
]
Email = Annotated[
    Text | None,
    Query(max_length=LONGEST, description="An e-mail address, in any case.", examples=["jane@example.com"]),
]
Name = Annotated[
    Text | None,
    Query(max_length=LONGEST, description="The beginning of a name, in any case.", examples=["Jane"]),
]


@router.get(
    "/orders/search",
    response_model=schemas.SearchResponse,
    responses=errors(400, 422),
    summary="Find orders by their recipients",
)
def search_orders(
    request: Request,
    who: MayRead,
    tx: InTx,
    parts: Services,
    sub_account_id: SubAccountFilter,
    street_address: Street = None,
    email: Email = None,
    name: Name = None,
) -> Response:
    """Pieces of which all that is given is true, newest first, and their orders.

    At most 10,000 pieces; `truncated` says whether there are more.
    """
    sought = Sought(
        streets=streets_of(street_address),
        email=said(email),
        name=said(name),
        sub_account_id=sub_account_id,
    )
    if not sought.streets and sought.email is None and sought.name is None:
        nothing = "Give at least one of street_address, email and name."
        raise Invalid({field: [nothing] for field in ("street_address", "email", "name")})
    if sub_account_id is not None:
        require_sub_account(tx, sub_account_id)
    return answer(search_shape(request, parts, search(parts.db, tx, tenant(who), sought)))


def streets_of(given: str | None) -> list[str]:
    """The street as addresses are kept, also out of a whole address on one line.

    Half a street may be read as another: `7 north gate` begins 7 N GATE, and also 7 NORTH-GATE RD.
    """
    if given is None or not given.strip():
        return []
    where = whereabouts({"address": given})
    if not where.street:
        raise Invalid({"street_address": ["This holds neither a letter nor a digit."]})
    return sorted({where.beginning, bare(given) or where.beginning})
