"""Drafts: requests that are looked up, checked and laid out, with what they cost. Nothing is stored."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

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
from quillpost.orders.models import FieldErrors, OrderRequest, ReplayRequest, ResolvedRequest
from quillpost.orders.ports import OrderContext
from quillpost.orders.requests.files import Artwork, compute_creative_key
from quillpost.orders.requests.files import fetch_artwork as fetch_artwork_uncached
from quillpost.orders.requests.queries import ResolvedOrder, resolve_replay, resolve_request
from quillpost.orders.requests.rules import validate_request
from quillpost.recipients.leads.search import FindExcluded, LeadSearchResult, search_leads
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
    needs_return_address: bool = True,
    fetch_artwork: FetchArtwork = fetch_artwork_uncached,
) -> OrderDraft:
    """Check everything outside the request; the network comes last. No transaction is open meanwhile."""
    renderer, return_address = context.renderer, choose_return_address(request, resolved.sender)
    if needs_return_address and caller.mode != "test" and return_address.address is None:
        raise Invalid({"return_address": ["Live mail needs a return address: in the call or in the account."]})
    _check_prices(people, resolved.tariff, request)
    design = designs.build_design(
        request,
        sender=rendering_models.SenderName(resolved.sender.name, resolved.sender.company),
        return_address=return_address,
        indicia=context.environments[caller.mode].indicia[request.mail_class],
    )
    addressees = [designs.build_addressee(person, request) for person in people]
    written_message = check_fit(
        renderer,
        design,
        addressees,
        longest_people=resolved.longest_people,
        has_qr=request.qrcode_url is not None,
        message_field=request.message_field,
        may_be_blank=request.background is not None,
    )
    artwork = fetch_artwork(context.fetcher, context.storage.store, request, people, design.sender)
    ink = check_ink(renderer, design, artwork, request)
    warnings = [
        *handwriting_warnings(renderer, design, written_message),
        *ink.warnings,
        *picture_warnings(renderer, design, artwork.front, "front", request.front),
        *picture_warnings(renderer, design, artwork.background, "background", request.background),
        *page_warnings(artwork, request),
    ]
    key = compute_creative_key(request, artwork)
    lowest_dpi = find_lowest_dpi(renderer, design, artwork)
    return OrderDraft(
        request,
        people,
        resolved.tariff,
        return_address,
        artwork,
        design,
        key,
        warnings,
        lowest_dpi=lowest_dpi,
        lowest_contrast=ink.lowest,
    )


def choose_return_address(request: ResolvedRequest, sender: SenderProfile) -> rendering_models.ReturnAddress:
    """The call's own if complete, else the sender's."""
    if request.return_address.address is not None:
        return request.return_address
    return rendering_models.ReturnAddress(
        name=request.return_address.name or sender.return_name,
        address=sender.return_address,
        address2=sender.return_address2,
        city=sender.return_city,
        province=sender.return_province,
        postal_code=sender.return_postal_code,
    )


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
    leads = _find_leads(context, caller, request)
    draft = replace(
        _prepare_draft(context, caller, resolved, request, people, leads),
        pause_warnings=[] if caller.mode == "test" else context.list_pause_warnings(caller),
        cards_in_stock=context.count_available_cards(caller.mode, request.gift) if request.gift is not None else None,
    )
    if leads is None:
        return draft
    # Which creative it is, is known when its pictures are at hand; it is rare that somebody had it just now.
    repeats = audience_service.find_repeats(draft, caller, mails_at=context.due_at(caller, draft.request))
    with context.db.transaction(build_tenant(caller)) as tx:
        is_first_mailing = not repeats(tx, leads.people)
    if is_first_mailing:
        return draft
    try:
        remaining_leads = _find_leads(context, caller, request, repeats=repeats)
    except NoMatch:
        raise NoMatch(audience_service.RECENTLY_MAILED_ALL) from None
    return replace(
        _prepare_draft(context, caller, resolved, request, people, remaining_leads),
        pause_warnings=draft.pause_warnings,
        cards_in_stock=draft.cards_in_stock,
    )


def estimate_order(context: OrderContext, caller: Caller, draft: OrderDraft) -> OrderEstimate:
    """The audience, the price and all warnings of a draft."""
    with context.db.transaction(build_tenant(caller)) as tx:
        audience = audience_service.find_audience(
            tx, caller, draft, mails_at=context.due_at(caller, draft.request), lock=False
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


def _prepare_draft(
    context: OrderContext,
    caller: Caller,
    resolved: ResolvedOrder,
    request: ResolvedRequest,
    people: list[Person],
    leads: LeadSearchResult | None,
) -> OrderDraft:
    if leads is not None:
        variables = {slot.name for slot in compile_template(request.message).slots}
        resolved = replace(resolved, longest_people=longest_of_people(leads.people, variables))
    draft = prepare_draft(context, caller, resolved, request, people)
    return replace(draft, lead_search_result=leads)


def _find_leads(
    context: OrderContext, caller: Caller, request: ResolvedRequest, *, repeats: FindExcluded | None = None
) -> LeadSearchResult | None:
    """The result of the request's radius search, if it has one."""
    if request.radius_search is None:
        return None
    return search_leads(
        context.db,
        context.lead_providers[caller.mode],
        caller,
        request.radius_search,
        sub_account_id=request.sub_account_id,
        find_repeats=repeats,
        prefix=f"{request.radius_search.field}.",
        now=context.clock(),
    )
