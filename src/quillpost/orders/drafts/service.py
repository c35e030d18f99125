"""Drafts: requests that are looked up, checked and laid out, with what they cost. Nothing is stored."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from quillpost.accounts.billing import service as billing_service
from quillpost.accounts.billing.rules import Tariff
from quillpost.accounts.models import Caller
from quillpost.accounts.service import SenderProfile, build_tenant
from quillpost.core.errors import Invalid, Message, NoMatch
from quillpost.core.ports import Fetcher, FileStore
from quillpost.orders import designs
from quillpost.orders.audience import service as audience_service
from quillpost.orders.audience.service import Audience
from quillpost.orders.designs import longest_of_people
from quillpost.orders.drafts.models import OrderDraft
from quillpost.orders.drafts.rules import (
    check_fit,
    check_ink,
    find_lowest_dpi,
    handwriting_warnings,
    page_warnings,
    picture_warnings,
)
from quillpost.orders.giftcards.rules import shortage_text
from quillpost.orders.models import RETURN_COLUMNS, FieldErrors, OrderRequest, ReplayRequest, ResolvedRequest
from quillpost.orders.ports import OrderContext
from quillpost.orders.requests.files import Artwork, compute_creative_key
from quillpost.orders.requests.files import fetch_artwork as fetch_artwork_uncached
from quillpost.orders.requests.queries import ResolvedOrder, resolve_replay, resolve_request
from quillpost.orders.requests.rules import validate_request
from quillpost.recipients.leads.rules import LeadSearch
from quillpost.recipients.leads.search import LeadSearchResult, search_leads
from quillpost.recipients.models import Person
from quillpost.rendering import models as rendering_models
from quillpost.rendering.text.variables import compile_template

FetchArtwork = Callable[[Fetcher, FileStore, ResolvedRequest, Sequence[Person], rendering_models.SenderName], Artwork]


RETURN_ADDRESS_REQUIRED = Message(
    "return_address_missing", "Live mail needs a return address: in the call or in the account."
)


def prepare_draft(
    context: OrderContext,
    caller: Caller,
    resolved: ResolvedOrder,
    request: ResolvedRequest,
    people: list[Person],
    *,
    leads: LeadSearchResult | None = None,
    needs_return_address: bool = True,
    fetch_artwork: FetchArtwork = fetch_artwork_uncached,
) -> OrderDraft:
    """Check everything outside the request; the network comes last. No transaction is open meanwhile."""
    renderer, sender, longest_people = context.renderer, resolved.sender, resolved.longest_people
    return_address = choose_return_address(request, sender)
    if needs_return_address and caller.mode != "test" and return_address.address is None:
        raise Invalid({"return_address": [RETURN_ADDRESS_REQUIRED]})
    _check_prices(people, resolved.tariff, request)
    if leads is not None:
        variables = {slot.name for slot in compile_template(request.message).slots}
        longest_people = longest_of_people(leads.people, variables)
    design = designs.build_design(
        request,
        own_handwriting=request.own_handwriting,
        sender=rendering_models.SenderName(sender.name, sender.company),
        return_address=return_address,
        indicia=context.environments[caller.mode].indicia[request.mail_class],
    )
    written_message = check_fit(
        renderer,
        design,
        [designs.build_addressee(person, request) for person in people],
        longest_people=longest_people,
        has_qr=request.qrcode_url is not None,
        message_field=request.message_field,
        may_be_blank=request.background is not None,
    )
    artwork = fetch_artwork(context.fetcher, context.storage.store, request, people, design.sender)
    lowest_contrast, ink_warnings = check_ink(renderer, design, artwork, request)
    warnings = [*handwriting_warnings(renderer, design, written_message), *ink_warnings]
    if artwork.front.by_recipient:
        warnings += picture_warnings(renderer, design, artwork.front, "front", request.front)
    if artwork.background.by_recipient:
        warnings += picture_warnings(renderer, design, artwork.background, "background", request.background)
    return OrderDraft(
        request,
        people,
        resolved.tariff,
        return_address,
        artwork,
        design,
        compute_creative_key(request, artwork),
        [*warnings, *page_warnings(artwork, request)],
        lowest_dpi=find_lowest_dpi(renderer, design, artwork),
        lowest_contrast=lowest_contrast,
        lead_search_result=leads,
    )


def choose_return_address(request: ResolvedRequest, sender: SenderProfile) -> rendering_models.ReturnAddress:
    """The call's own if complete, else the sender's."""
    if request.return_address.address is not None:
        return request.return_address
    own_values = {name: getattr(sender, column) for name, column in RETURN_COLUMNS.items()}
    return rendering_models.ReturnAddress(**own_values | {"name": request.return_address.name or sender.return_name})


def _check_prices(people: list[Person], tariff: Tariff, request: ResolvedRequest) -> None:
    errors: dict[str, list[str]] = {}
    for index, person in enumerate(people):
        if tariff.unit_cents(person.country) is None:
            product_label = "standard mail" if request.mail_class == "standard" else "this piece"
            hint = "use first class" if request.mail_class == "standard" else "ask the operator"
            errors[f"recipients.{index}.country"] = [
                f"There is no price for {product_label} to {person.country}: {hint}."
            ]
    if request.mailing_list_ids and not tariff.by_country:
        errors["mailing_list_ids"] = ["There is no price for this piece: ask the operator."]
    if errors:
        raise Invalid(errors)


@dataclass(frozen=True, slots=True)
class OrderEstimate:
    type: str
    audience: Audience
    unit_price: int
    leads_fee: int
    warnings: list[str]

    @property
    def total_cents(self) -> int:
        return self.audience.total_cents + self.leads_fee + self.audience.gift_total


def draft_order(context: OrderContext, caller: Caller, request: OrderRequest, errors: FieldErrors) -> OrderDraft:
    """The order, fully checked; nothing is stored, no transaction stays open. `Invalid` includes the known `errors`."""
    with context.db.transaction(build_tenant(caller)) as tx:
        resolved = resolve_request(tx, caller, request, errors, price_date=context.clock().date())
    return draft_resolved_order(context, caller, resolved, errors)


def draft_replay(context: OrderContext, caller: Caller, replay: ReplayRequest, errors: FieldErrors) -> OrderDraft:
    with context.db.transaction(build_tenant(caller)) as tx:
        resolved = resolve_replay(tx, caller, replay, price_date=context.clock().date())
    return draft_resolved_order(context, caller, resolved, errors)


def draft_resolved_order(
    context: OrderContext, caller: Caller, resolved: ResolvedOrder, errors: FieldErrors
) -> OrderDraft:
    """The rest of the checks for a request that is looked up already."""
    request, people = validate_request(
        resolved.request, styles=context.renderer.hands.styles, check_url=context.check_url, known_errors=errors
    )
    if request.radius_search is None:
        draft = prepare_draft(context, caller, resolved, request, people)
    else:
        draft = _draft_with_leads(context, caller, resolved, request, request.radius_search, people)
    cards_in_stock = context.count_available_cards(caller.mode, request.gift) if request.gift is not None else None
    pause_warnings = [] if caller.mode == "test" else context.list_pause_warnings(caller)
    return replace(draft, pause_warnings=pause_warnings, cards_in_stock=cards_in_stock)


def _draft_with_leads(
    context: OrderContext,
    caller: Caller,
    resolved: ResolvedOrder,
    request: ResolvedRequest,
    radius_search: LeadSearch,
    people: list[Person],
) -> OrderDraft:
    """A draft to those whom its radius search finds, but for those who had the same piece just now."""
    find_leads = partial(
        search_leads,
        context.db,
        context.lead_providers[caller.mode],
        caller,
        radius_search,
        sub_account_id=request.sub_account_id,
        prefix=f"{radius_search.field}.",
    )
    leads = find_leads(now=context.clock())
    draft = prepare_draft(context, caller, resolved, request, people, leads=leads)
    # The creative is known only once its pictures are fetched; few people had the same one just now.
    repeats = audience_service.find_repeats(draft, caller, mails_at=find_due_at(context, caller, request))
    with context.db.transaction(build_tenant(caller)) as tx:
        if not repeats(tx, leads.people):
            return draft
    try:
        remaining_leads = find_leads(find_repeats=repeats, now=context.clock())
    except NoMatch:
        raise NoMatch(audience_service.RECENTLY_MAILED_ALL) from None
    return prepare_draft(context, caller, resolved, request, people, leads=remaining_leads)


def find_due_at(context: OrderContext, caller: Caller, request: ResolvedRequest) -> datetime:
    """When the review ends, unless the caller wants it later."""
    now = context.clock()
    return max(now + context.environments[caller.mode].review_period, request.schedule_for or now)


def estimate_order(context: OrderContext, caller: Caller, draft: OrderDraft) -> OrderEstimate:
    """The audience, the price and all warnings of a draft."""
    with context.db.transaction(build_tenant(caller)) as tx:
        audience = audience_service.find_audience(
            tx, caller, draft, mails_at=find_due_at(context, caller, draft.request), lock=False
        )
    domestic_price = draft.tariff.unit_cents("US") or 0
    unit_price = round(audience.total_cents / audience.mailed_items) if audience.mailed_items else domestic_price
    leads_fee = draft.lead_search_result.cents if draft.lead_search_result is not None else 0
    warnings = [*draft.pause_warnings, *draft.warnings, *audience.warnings, *list_stock_warnings(draft, audience)]
    return OrderEstimate(draft.request.type, audience, unit_price, leads_fee, warnings)


def list_credit_warnings(context: OrderContext, caller: Caller, cents: int) -> list[str]:
    """A warning where the credit does not cover this amount."""
    if not context.environments[caller.mode].needs_credit:
        return []
    with context.db.transaction(build_tenant(caller)) as tx:
        available = billing_service.read_credit(tx, caller.mode)
    return [billing_service.format_insufficient_credit(available, cents)] if 0 < cents > available else []


def list_stock_warnings(draft: OrderDraft, audience: Audience) -> list[str]:
    """A warning where gift cards are short. It is not stored: the review checks the stock again."""
    gift, available = draft.request.gift, draft.cards_in_stock
    if gift is None or available is None or audience.mailed_items <= available:
        return []
    shortage = shortage_text(gift.title, gift.cents, audience.mailed_items, available)
    return [f"{shortage}: it will be held until there are more."]
