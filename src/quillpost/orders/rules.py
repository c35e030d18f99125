"""Statuses of orders and items, and filters by metadata."""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum

from quillpost.core import exact_json
from quillpost.core.errors import Invalid

SWEEP_TASK, MATERIALIZE_TASK = "fulfillment.sweep_due_orders", "orders.materialize"
"""The tasks that take orders whose review has ended, and that make items of the people of an order's lists. They live
above, so only their names are known here."""


class OrderStatus(StrEnum):
    REVIEWING = "reviewing"
    PROCESSING = "processing"
    PRINTING = "printing"
    MAILED = "mailed"
    FULFILLED = "fulfilled"
    CANCELLED = "cancelled"
    PAUSED = "paused"
    ERROR = "error"

    @property
    def is_held_back(self) -> bool:
        """Nothing has been made yet, so the order can be cancelled and nobody counts as mailed to."""
        return self in (OrderStatus.REVIEWING, OrderStatus.PAUSED)

    @property
    def is_stopped(self) -> bool:
        """It ended before anything was made, so nobody is mailed to."""
        return self in (OrderStatus.CANCELLED, OrderStatus.ERROR)


class ItemStatus(StrEnum):
    PROCESSING = "Processing"
    PRINTED = "Printed"
    IN_TRANSIT = "In Transit"
    IN_LOCAL_AREA = "In Local Area"
    PROCESSED_FOR_DELIVERY = "Processed for Delivery"
    DELIVERED = "Delivered"
    RE_ROUTED = "Re-routed"
    RETURNED_TO_SENDER = "Returned to Sender"
    FAILED = "Failed"

    @property
    def count_name(self) -> str:
        """The name under which an order counts the items that stand here."""
        return self.value.lower().replace(" ", "_").replace("-", "_")


_IN_THE_MAIL = (ItemStatus.IN_TRANSIT, ItemStatus.IN_LOCAL_AREA, ItemStatus.PROCESSED_FOR_DELIVERY)
_END_OR_DETOUR = frozenset(
    {ItemStatus.DELIVERED, ItemStatus.RE_ROUTED, ItemStatus.RETURNED_TO_SENDER, ItemStatus.FAILED}
)

NEXT_STATUSES: Mapping[ItemStatus, frozenset[ItemStatus]] = {
    ItemStatus.PROCESSING: frozenset({ItemStatus.PRINTED, ItemStatus.FAILED}),
    ItemStatus.PRINTED: _END_OR_DETOUR.union(_IN_THE_MAIL),
    **{status: _END_OR_DETOUR.union(_IN_THE_MAIL[n:]) for n, status in enumerate(_IN_THE_MAIL, start=1)},
    ItemStatus.RE_ROUTED: _END_OR_DETOUR.union(_IN_THE_MAIL) - {ItemStatus.RE_ROUTED},
    **dict.fromkeys((ItemStatus.DELIVERED, ItemStatus.RETURNED_TO_SENDER, ItemStatus.FAILED), frozenset()),
}
"""A late or repeated scan asks for a status that does not follow, and so changes nothing."""

FINAL_STATUSES = tuple(status for status, following in NEXT_STATUSES.items() if not following)


MAX_METADATA_FILTERS = 10


MAX_METADATA_DEPTH = 20


METADATA_FILTER_NAME = re.compile(r"metadata((?:\[[^\[\]]+\])+)")


# No longer than what the index holds: a number beyond that is text to it.
JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,999})(?:\.[0-9]{1,999})?(?:[eE][+-]?[0-9]{1,4})?")


JSON_LITERALS = ("true", "false", "null")


MetadataAlternatives = tuple[str, ...]
"""JSON objects; an order matches whose metadata contains one of them."""


def parse_metadata_filters(query: Iterable[tuple[str, str]]) -> tuple[MetadataAlternatives, ...]:
    """Every filter by metadata in a query string, or `Invalid` with all that is wrong about them."""
    filters = [(name, value) for name, value in query if name.partition("[")[0] == "metadata"]
    errors = {name: [error] for name, value in filters if (error := _filter_error(name, value))}
    if len(filters) > MAX_METADATA_FILTERS:
        errors["metadata"] = [f"At most {MAX_METADATA_FILTERS} filters by metadata, please."]
    if errors:
        raise Invalid(errors)
    return tuple(_alternatives(name, value) for name, value in filters)


def _filter_error(name: str, value: str) -> str | None:
    match = METADATA_FILTER_NAME.fullmatch(name)
    if match is None:
        return "Write metadata[key]=value, or metadata[outer][inner]=value."
    if match[1].count("[") > MAX_METADATA_DEPTH:
        return f"At most {MAX_METADATA_DEPTH} keys in one another, please."
    if "\x00" in name + value:
        return "This text holds a NUL character, which no filter finds."
    return None


def _alternatives(name: str, value: str) -> MetadataAlternatives:
    """A query string is all text: `5` may have been written as the text or as the number."""
    json_values = [exact_json.dump_json(value)]
    if value in JSON_LITERALS or JSON_NUMBER.fullmatch(value):
        json_values.append(value)
    keys = name.removeprefix("metadata[").removesuffix("]").split("][")
    json_prefix = "".join(f"{{{exact_json.dump_json(key)}:" for key in keys)
    return tuple(json_prefix + json_value + "}" * len(keys) for json_value in json_values)
