"""What the query strings of reads may ask for, and finding orders by their recipients."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import Depends, Query, Request, Response
from pydantic import WithJsonSchema

from quillpost.accounts.service import build_tenant
from quillpost.accounts.sub_accounts.queries import require_sub_account
from quillpost.client import orders as wire
from quillpost.core.errors import Invalid
from quillpost.orders import rules
from quillpost.orders.items.queries import ItemQuery, search_by_recipient
from quillpost.orders.products import PRODUCT_FAMILIES, ProductFamily
from quillpost.orders.queries import OrderQuery
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.recipients.addresses.text import normalize_for_key
from quillpost.recipients.rules import MAX_FIELD_LENGTH, parse_partial_address
from quillpost.web.api.dependencies import ApiCaller, RequestTransaction, SearchQuery, SubAccountFilter
from quillpost.web.api.orders.responses import serialize_search
from quillpost.web.api.responses import json_response
from quillpost.web.api.routes import ApiRouter
from quillpost.web.api.schemas import Text, strip_or_none
from quillpost.web.dependencies import Services

router = ApiRouter("Orders", resource="orders")

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


@router.get("/orders/search", wire.SearchResponse, summary="Find orders by their recipients")
def search_orders(
    request: Request,
    caller: ApiCaller,
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
    require_sub_account(tx, sub_account_id)
    return json_response(
        serialize_search(request, container, search_by_recipient(container.db, tx, build_tenant(caller), filters))
    )


def parse_streets(text: str | None) -> list[str]:
    """Half a street may be read in two ways: `7 north gate` begins 7 N GATE, and also 7 NORTH-GATE RD."""
    if text is None or not text.strip():
        return []
    address = parse_partial_address({"address": text})
    if not address.street:
        raise Invalid({"street_address": ["This holds neither a letter nor a digit."]})
    return sorted({address.key_prefix, normalize_for_key(text) or address.key_prefix})


QueryErrors = dict[str, list[str]]

# In any case, and with blanks around them; the description has them as we write them.
ItemStatusQuery = Annotated[str | None, WithJsonSchema({"type": "string", "enum": list(ItemStatus)})]
OrderStatusQuery = Annotated[str | None, WithJsonSchema({"type": "string", "enum": list(OrderStatus)})]
TypeQuery = Annotated[str | None, WithJsonSchema({"type": "string", "enum": list(PRODUCT_FAMILIES)})]
TYPE_DESCRIPTION = (
    "`postcard` is of any size, `postcard6x9` and `6x9-postcard` of that size only; of letters, `letter` is windowed."
)
TimeQuery = Annotated[
    str | None,
    WithJsonSchema(
        {
            "anyOf": [{"type": "string", "format": "date"}, {"type": "string", "format": "date-time"}],
            "examples": ["2026-05-01", "2026-05-01T09:00:00Z"],
        }
    ),
]

METADATA_PARAMETER: dict[str, Any] = {
    "name": "metadata",
    "in": "query",
    "required": False,
    "style": "deepObject",
    "explode": True,
    "description": (
        "`metadata[key]=value`: only orders whose metadata has this value there, as text or, where it reads"
        " as one, as a number, true, false or null. `metadata[outer][inner]=value` looks inside an object."
        f" Up to {rules.MAX_METADATA_FILTERS} at once; all of them must hold."
    ),
    "schema": {
        "type": "object",
        "maxProperties": rules.MAX_METADATA_FILTERS,
        "propertyNames": {"pattern": r"^[^\[\]\u0000]+$"},
        "additionalProperties": {"type": "string", "pattern": r"^[^\u0000]*$"},
        "examples": [{"campaign": "spring"}],
    },
}
"""No framework's parameter is of this style."""


def parse_choice(name: str, text: str | None, choices: Iterable[str], errors: QueryErrors) -> str | None:
    """The one of the known values that is meant, in any case."""
    if not text:
        return None
    by_lower = {value.lower(): value for value in choices}
    if text.strip().lower() not in by_lower:
        errors[name] = [f"Unknown {name}. Known: {', '.join(by_lower.values())}."]
    return by_lower.get(text.strip().lower())


def parse_family(value: str | None, errors: QueryErrors) -> ProductFamily | None:
    name = parse_choice("type", value and value.strip(), PRODUCT_FAMILIES, errors)
    return None if name is None else PRODUCT_FAMILIES[name]


def parse_time(name: str, value: str | None, errors: QueryErrors) -> datetime | None:
    """The beginning of an ISO 8601 date, or a date-time. A plus that was not encoded arrives as a space."""
    if not value:
        return None
    try:
        at = datetime.fromisoformat(value.replace(" ", "+") if "T" in value else value)
        return at if at.tzinfo else at.replace(tzinfo=UTC)
    except ValueError:
        errors[name] = ["Write an ISO 8601 date or date-time."]
        return None


def parse_end_time(name: str, value: str | None, errors: QueryErrors) -> datetime | None:
    """The first moment after an ISO 8601 date, or after the second that a date-time names."""
    at = parse_time(name, value, errors)
    if at is None or value is None:
        return None
    try:
        return at + (timedelta(seconds=1) if "T" in value or ":" in value else timedelta(days=1))
    except OverflowError:
        return None  # until the end of time


async def get_template_types(
    type: Annotated[TypeQuery, Query(description=f"Only templates of this type: {TYPE_DESCRIPTION}")] = None,  # noqa: A002
) -> tuple[str, ...] | None:
    """A postcard template is for every size but the largest, which is a type of its own."""
    errors: QueryErrors = {}
    type_family = parse_family(type, errors)
    if errors:
        raise Invalid(errors)
    if type_family is None or type_family.size is None:
        return None if type_family is None else type_family.types
    return tuple(name for name in type_family.types if name.endswith(type_family.size))


async def get_item_status(
    status: Annotated[ItemStatusQuery, Query(description="Only those that stand here, such as In Transit.")] = None,
) -> ItemStatus | None:
    errors: QueryErrors = {}
    value = parse_choice("status", status, ItemStatus, errors)
    if errors:
        raise Invalid(errors)
    return None if value is None else ItemStatus(value)


async def get_order_filter(
    request: Request,
    sub_account_id: SubAccountFilter,
    search: SearchQuery,
    type: Annotated[TypeQuery, Query(description=f"Only orders of this type: {TYPE_DESCRIPTION}")] = None,  # noqa: A002
    status: Annotated[OrderStatusQuery, Query(description="Only those that stand here, such as Reviewing.")] = None,
    created_after: Annotated[TimeQuery, Query(description="Made at this ISO 8601 date or date-time, or later.")] = None,
    created_before: Annotated[TimeQuery, Query(description="Made before this ISO 8601 date or date-time.")] = None,
) -> OrderQuery:
    errors: QueryErrors = {}
    filters = OrderQuery(
        sub_account_id=sub_account_id,
        family=parse_family(type, errors),
        status=parse_choice("status", status, OrderStatus, errors),
        created_after=parse_time("created_after", created_after, errors),
        created_before=parse_time("created_before", created_before, errors),
        metadata=_parse_metadata_filters(request, errors),
        search=search,
    )
    if errors:
        raise Invalid(errors)
    return filters


def _parse_metadata_filters(request: Request, errors: QueryErrors) -> tuple[rules.MetadataAlternatives, ...]:
    try:
        return rules.parse_metadata_filters(request.query_params.multi_items())
    except Invalid as error:
        errors.update(error.fields)
        return ()


OrderFilterQuery = Annotated[OrderQuery, Depends(get_order_filter)]
TemplateTypesQuery = Annotated[tuple[str, ...] | None, Depends(get_template_types)]
StatusFilterQuery = Annotated[ItemStatus | None, Depends(get_item_status)]
