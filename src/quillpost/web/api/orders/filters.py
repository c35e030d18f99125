"""What the query strings of reads may ask for, read with all faults at once."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from pydantic import WithJsonSchema

from quillpost.core.errors import Invalid
from quillpost.orders import search as order_search
from quillpost.orders.products import PRODUCT_FAMILIES, ProductFamily
from quillpost.orders.queries import OrderQuery
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.web.api.dependencies import SearchQuery, SubAccountFilter

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
        f" Up to {order_search.MAX_METADATA_FILTERS} at once; all of them must hold."
    ),
    "schema": {
        "type": "object",
        "maxProperties": order_search.MAX_METADATA_FILTERS,
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
    """Which types are wanted, by any of their names."""
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


def get_template_types(
    type: Annotated[TypeQuery, Query(description=f"Only templates of this type: {TYPE_DESCRIPTION}")] = None,  # noqa: A002
) -> tuple[str, ...] | None:
    """A template for postcards is good for each size but the largest, which is a type of its own: none is of
    4x6 or of 6x9 alone."""
    errors: QueryErrors = {}
    type_family = parse_family(type, errors)
    if errors:
        raise Invalid(errors)
    if type_family is None or type_family.size is None:
        return None if type_family is None else type_family.types
    return tuple(name for name in type_family.types if name.endswith(type_family.size))


def get_item_status(
    status: Annotated[ItemStatusQuery, Query(description="Only those that stand here, such as In Transit.")] = None,
) -> ItemStatus | None:
    errors: QueryErrors = {}
    value = parse_choice("status", status, ItemStatus, errors)
    if errors:
        raise Invalid(errors)
    return None if value is None else ItemStatus(value)


def get_order_filter(
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


def _parse_metadata_filters(request: Request, errors: QueryErrors) -> tuple[order_search.MetadataAlternatives, ...]:
    try:
        return order_search.parse_metadata_filters(request.query_params.multi_items())
    except Invalid as error:
        errors.update(error.fields)
        return ()


OrderFilterQuery = Annotated[OrderQuery, Depends(get_order_filter)]
TemplateTypesQuery = Annotated[tuple[str, ...] | None, Depends(get_template_types)]
StatusFilterQuery = Annotated[ItemStatus | None, Depends(get_item_status)]
