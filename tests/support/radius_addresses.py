"""A street of houses, each a little farther from the first, that can be searched and bought."""

from typing import Any

from quillpost.app.container import Container
from quillpost.core.database.tables.recipients import lead_purchases, lead_sources, leads
from quillpost.recipients.leads.files import LeadRow
from quillpost.recipients.leads.imports import replace_source_rows
from support.factories import postcard

CENTRE = "100 Sample Oak St, Austin, TX 78701"
TABLES = leads, lead_sources, lead_purchases


def make_address(number: int, **more: str) -> dict[str, str]:
    """The first is number 100; the next, 101, is some forty metres farther on."""
    return {
        "lat": f"{30.27 + (number - 100) * 0.0004:.6f}", "lon": "-97.74", "number": str(number),
        "street": "Sample Oak St", "city": "Austin", "region": "TX", "postcode": "78701",
        "name": f"Sample Resident {number}", **more,
    }  # fmt: skip


def store_addresses(container: Container, houses: list[dict[str, str]], *, live: bool = False) -> None:
    """Put them into the table: for testing mode, or as an operator's own for live."""
    rows = [LeadRow(place, fields) for place, fields in enumerate(houses, start=1)]
    source = "county" if live else "sample"
    replace_source_rows(container.db, rows, source=source, country="US", is_sample=not live, now=container.clock())


def radius_search(count: int, **more: Any) -> dict[str, Any]:
    return {"address": CENTRE, "record_count": count, **more}


def card(**changes: Any) -> dict[str, Any]:
    """A good postcard to whom the changes say."""
    return postcard(recipients=None, **changes)


def radius_card(count: int, /, **changes: Any) -> dict[str, Any]:
    """To those around, but for the changes to the search."""
    return card(radius_search=radius_search(count, **changes))


def once_card(count: int, /, **changes: Any) -> dict[str, Any]:
    """To nobody again so soon."""
    return radius_card(count, **changes) | {"allow_duplicates": False}
