"""An order that is fully checked and not stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from quillpost.accounts.billing.rules import Tariff
from quillpost.core.errors import Message
from quillpost.orders.models import ResolvedRequest
from quillpost.orders.requests.files import Artwork
from quillpost.recipients.leads.search import LeadSearchResult
from quillpost.recipients.models import Person
from quillpost.rendering import models as rendering_models


@dataclass(frozen=True, slots=True)
class OrderDraft:
    """A fully checked request with its pictures fetched and nothing stored. The design has no pictures, as they may
    differ by recipient. `lowest_dpi` and `lowest_contrast` are set where pictures look soft or ink is hard to read.
    `cards_in_stock` and `pause_warnings` are not stored: the review checks them again."""

    request: ResolvedRequest
    people: list[Person]
    tariff: Tariff
    return_address: rendering_models.ReturnAddress
    artwork: Artwork
    design: rendering_models.Design
    creative_key: UUID
    warnings: list[Message]
    lowest_dpi: int | None = None
    lowest_contrast: float | None = None
    lead_search_result: LeadSearchResult | None = None
    cards_in_stock: int | None = None
    pause_warnings: Sequence[str] = ()
