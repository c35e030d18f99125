"""What a send would cost, as far as the composer's form is filled in."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Response

from quillpost.accounts.billing import service as billing_service
from quillpost.accounts.billing.rules import LEAD_CENTS
from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.errors import Invalid, Refused
from quillpost.orders.drafts import service as draft_service
from quillpost.orders.drafts.models import OrderDraft
from quillpost.web.dashboard.compose import forms, recipients
from quillpost.web.dashboard.compose.forms import (
    ComposedSend,
    compose_send,
    draft_composed_order,
    list_warnings,
    to_form_errors,
    validate_send,
)
from quillpost.web.dashboard.forms import parse_zone
from quillpost.web.dashboard.responses import UserContext
from quillpost.web.forms import Form, PostedLargeForm
from quillpost.web.messages import page_text

router = APIRouter(include_in_schema=False)

DESIGN_UNFINISHED: Final = "The piece is not finished yet. Who had the same lately is known when it is."
PLACEHOLDER_FIELDS: Final = {"message": "Hello"}
SAMPLE_RECIPIENT: Final = {"name": "Jane Sample", "address": "1100 Congress Ave, Austin, TX 78701"}


@dataclass(frozen=True, slots=True)
class PriceEstimate:
    """In cents. While nobody can be counted there is no total, and `explanation` says what is missing."""

    unit: int | None = None
    pieces: int = 0
    leads: int = 0
    gifts: int = 0
    total: int | None = None
    credit: int | None = None
    excluded_counts: Mapping[str, int] | None = None
    warnings: tuple[str, ...] = ()
    design_warnings: tuple[str, ...] = ()
    """The warnings about the design, not about people or money."""
    explanation: str = ""

    @property
    def postage(self) -> int:
        return (self.total or 0) - self.leads - self.gifts

    @property
    def lead_cents(self) -> int:
        return LEAD_CENTS

    @property
    def agreement(self) -> str:
        """What a sender agrees to: pieces and cents."""
        return f"{self.pieces}:{self.total}"

    @property
    def is_over_credit(self) -> bool:
        return self.credit is not None and self.total is not None and 0 < self.total > self.credit

    def for_guest(self) -> "PriceEstimate":
        """Without the account's credit, and without why people are left out: guests see only how many."""
        excluded_total = sum((self.excluded_counts or {}).values())
        excluded_counts = {"person" if excluded_total == 1 else "people": excluded_total} if excluded_total else {}
        return replace(self, credit=None, excluded_counts=excluded_counts, warnings=self.design_warnings)


@router.post("/compose/price")
def price_fragment(context: UserContext, form: PostedLargeForm) -> Response:
    caller = context.user.caller
    estimate = estimate_form(form, caller, context.container, parse_zone(context.request, form.fields))
    return context.render("compose/price.html", price=estimate, base_path="/compose", is_testing=caller.mode == "test")


def estimate_form(form: Form, caller: Caller, container: Container, zone: ZoneInfo) -> PriceEstimate:
    """Of the whole form; where the design is not finished, of a plain piece to the same people; else of one piece."""

    def estimate(send: ComposedSend) -> PriceEstimate:
        return estimate_draft(draft_composed_order(send, caller, container), caller, container)

    try:
        return estimate(compose_send(form, container, zone))
    except (Invalid, Refused) as design_error:
        reason = _first_message(design_error)
    try:
        audience = recipients.audience_fields(form, container) | forms.schedule_fields(form, zone)
        return replace(estimate(_minimal_send(form, audience)), explanation=DESIGN_UNFINISHED)
    except (Invalid, Refused) as audience_error:
        reason = _first_message(audience_error)
    try:
        unit = estimate(_minimal_send(form, {"recipients": [SAMPLE_RECIPIENT]})).unit
        return PriceEstimate(unit=unit, explanation=reason)
    except (Invalid, Refused):
        return PriceEstimate(explanation=reason)


def estimate_draft(order_draft: OrderDraft, caller: Caller, container: Container) -> PriceEstimate:
    order_estimate = draft_service.estimate_order(container.orders, caller, order_draft)
    audience, total = order_estimate.audience, order_estimate.total_cents
    excluded_counts = {
        "on a suppression list": audience.suppressed,
        "twice or just mailed to": audience.duplicates,
        "that mail does not reach": audience.undeliverable,
    }
    design_warnings = list_warnings(order_draft, container)
    return PriceEstimate(
        unit=order_estimate.unit_price,
        pieces=audience.mailed_items,
        leads=order_estimate.leads_fee,
        gifts=audience.gift_total,
        total=total,
        credit=_read_credit(caller, container),
        excluded_counts={reason: n for reason, n in excluded_counts.items() if n},
        warnings=tuple(dict.fromkeys([*design_warnings, *map(page_text, order_estimate.warnings)])),
        design_warnings=tuple(design_warnings),
    )


def _read_credit(caller: Caller, container: Container) -> int | None:
    if not container.environments[caller.mode].needs_credit:
        return None
    with container.db.transaction(build_tenant(caller)) as tx:
        return billing_service.read_credit(tx, caller.mode)


def _minimal_send(form: Form, audience: Mapping[str, Any]) -> ComposedSend:
    """The chosen product with nothing on it but what it requires."""
    choice = forms.read_choice(form)
    fields: dict[str, Any] = {**PLACEHOLDER_FIELDS, **audience}
    if choice.size is not None:
        fields["size"] = choice.size
    if choice.is_gift:
        design = forms.design_fields(form)
        fields |= {name: design[name] for name in ("giftcard_brand", "giftcard_amount") if name in design}
    return validate_send(choice.offer, fields, form)


def _first_message(error: Invalid | Refused) -> str:
    form_error = to_form_errors(error) if isinstance(error, Refused) else error
    return next(iter(form_error.fields.values()))[0]
