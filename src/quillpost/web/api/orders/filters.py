"""What the query strings of reads may ask for, read with all faults at once."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from pydantic import WithJsonSchema

from quillpost.core.errors import Invalid
from quillpost.orders import search as metadata_filter
from quillpost.orders.products import FAMILIES, Family
from quillpost.orders.queries import OrderFilter
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.web.api.dependencies import AskedSearch, SubAccountFilter

Faults = dict[str, list[str]]

# In any case, and with blanks around them; the description has them as we write them.
AskedItemStatus = Annotated[str | None, WithJsonSchema({"type": "string", "enum": list(ItemStatus)})]
AskedOrderStatus = Annotated[str | None, WithJsonSchema({"type": "string", "enum": list(OrderStatus)})]
AskedType = Annotated[str | None, WithJsonSchema({"type": "string", "enum": list(FAMILIES)})]
TYPE_NAMES = (
    "`postcard` is of any size, `postcard6x9` and `6x9-postcard` of that size only; of letters, `letter` is"
    " windowed."
)
AskedMoment = Annotated[
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
        f" Up to {metadata_filter.MOST_METADATA_FILTERS} at once; all of them must hold."
    ),
    "schema": {
        "type": "object",
        "maxProperties": metadata_filter.MOST_METADATA_FILTERS,
        "propertyNames": {"pattern": r"^[^\[\]\u0000]+$"},
        "additionalProperties": {"type": "string", "pattern": r"^[^\u0000]*$"},
        "examples": [{"campaign": "spring"}],
    },
}
"""No framework's parameter is of this style."""


def chosen(name: str, given: str | None, known: Iterable[str], faults: Faults) -> str | None:
    """The one of the known values that is meant, in any case."""
    if not given:
        return None
    by_lower = {value.lower(): value for value in known}
    if given.strip().lower() not in by_lower:
        faults[name] = [f"Unknown {name}. Known: {', '.join(by_lower.values())}."]
    return by_lower.get(given.strip().lower())


def family(given: str | None, faults: Faults) -> Family | None:
    """Which types are wanted, by any of their names."""
    name = chosen("type", given and given.strip(), FAMILIES, faults)
    return None if name is None else FAMILIES[name]


def moment(name: str, given: str | None, faults: Faults) -> datetime | None:
    """The beginning of an ISO 8601 date, or a date-time. A plus that was not encoded arrives as a space."""
    if not given:
        return None
    try:
        at = datetime.fromisoformat(given.replace(" ", "+") if "T" in given else given)
        return at if at.tzinfo else at.replace(tzinfo=UTC)
    except ValueError:
        faults[name] = ["Write an ISO 8601 date or date-time."]
        return None


def moment_after(name: str, given: str | None, faults: Faults) -> datetime | None:
    """The first moment after an ISO 8601 date, or after the second that a date-time names."""
    at = moment(name, given, faults)
    if at is None or given is None:
        return None
    try:
        return at + (timedelta(seconds=1) if "T" in given or ":" in given else timedelta(days=1))
    except OverflowError:
        return None  # until the end of time


def template_types(
    type: Annotated[AskedType, Query(description=f"Only templates of this type: {TYPE_NAMES}")] = None,  # noqa: A002
) -> tuple[str, ...] | None:
    """A template for postcards is good for each size but the largest, which is a type of its own: none is of
    4x6 or of 6x9 alone."""
    faults: Faults = {}
    found = family(type, faults)
    if faults:
        raise Invalid(faults)
    if found is None or found.size is None:
        return None if found is None else found.types
    return tuple(name for name in found.types if name.endswith(found.size))


def item_status(
    status: Annotated[
        AskedItemStatus, Query(description="Only those that stand here, such as In Transit.")
    ] = None,
) -> ItemStatus | None:
    faults: Faults = {}
    found = chosen("status", status, ItemStatus, faults)
    if faults:
        raise Invalid(faults)
    return None if found is None else ItemStatus(found)


def order_filter(
    request: Request,
    sub_account_id: SubAccountFilter,
    search: AskedSearch,
    type: Annotated[AskedType, Query(description=f"Only orders of this type: {TYPE_NAMES}")] = None,  # noqa: A002
    status: Annotated[
        AskedOrderStatus, Query(description="Only those that stand here, such as Reviewing.")
    ] = None,
    created_after: Annotated[
        AskedMoment, Query(description="Made at this ISO 8601 date or date-time, or later.")
    ] = None,
    created_before: Annotated[
        AskedMoment, Query(description="Made before this ISO 8601 date or date-time.")
    ] = None,
) -> OrderFilter:
    faults: Faults = {}
    wanted = OrderFilter(
        sub_account_id=sub_account_id,
        family=family(type, faults),
        status=chosen("status", status, OrderStatus, faults),
        created_after=moment("created_after", created_after, faults),
        created_before=moment("created_before", created_before, faults),
        metadata=_metadata(request, faults),
        search=search,
    )
    if faults:
        raise Invalid(faults)
    return wanted


def _metadata(request: Request, faults: Faults) -> tuple[metadata_filter.Alternatives, ...]:
    try:
        return metadata_filter.read_filters(request.query_params.multi_items())
    except Invalid as wrong:
        faults.update(wrong.fields)
        return ()


WantedOrders = Annotated[OrderFilter, Depends(order_filter)]
WantedTypes = Annotated[tuple[str, ...] | None, Depends(template_types)]
WantedStatus = Annotated[ItemStatus | None, Depends(item_status)]
