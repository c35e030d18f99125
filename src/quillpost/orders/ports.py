"""What orders ask of the outside."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from quillpost.accounts.models import Caller
from quillpost.core.database import Database
from quillpost.core.encryption import Encryptor
from quillpost.core.files import FileStorage
from quillpost.core.ports import Fetcher
from quillpost.core.text import Clock
from quillpost.orders.models import GiftcardChoice
from quillpost.orders.templates.rules import CheckUrl
from quillpost.recipients.leads.ports import LeadProvider
from quillpost.rendering.service import Renderer


class OrderTerms(Protocol):
    """The terms of one mode; `indicia` is the postage mark by class of mail."""

    @property
    def review_period(self) -> timedelta: ...
    @property
    def needs_credit(self) -> bool: ...
    @property
    def indicia(self) -> Mapping[str, tuple[str, ...]]: ...


@dataclass(frozen=True, slots=True)
class OrderContext:
    """All that it takes to draft and create orders.

    `count_available_cards` says how many such gift cards another order of a mode could have now, None where they are
    made on demand; `list_pause_warnings` warns a sender whose order would be paused.
    """

    db: Database
    renderer: Renderer
    storage: FileStorage
    fetcher: Fetcher
    encryptor: Encryptor
    environments: Mapping[str, OrderTerms]
    lead_providers: Mapping[str, LeadProvider]
    check_url: CheckUrl
    qr_base: str
    opt_out: str | None
    clock: Clock
    count_available_cards: Callable[[str, GiftcardChoice], int | None]
    list_pause_warnings: Callable[[Caller], list[str]]
