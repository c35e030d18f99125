"""Previews: how a draft will look, in storage for a week."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from quillpost.accounts.billing import service as billing_service
from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.core.database import Database, Tx
from quillpost.core.errors import Invalid, NoMatch
from quillpost.core.stored_files import FileStorage, PendingFile
from quillpost.core.tokens import PREVIEW_CODE
from quillpost.orders import audience, designs, pricing
from quillpost.orders.designs import longest_of_people
from quillpost.orders.drafts import OrderDraft, prepare_draft
from quillpost.orders.giftcards.rules import shortage_text
from quillpost.orders.images import RecipientIndex, preview_recipient_index
from quillpost.orders.models import FieldErrors, OrderRequest, ReplayRequest, ResolvedRequest
from quillpost.orders.ports import OrderContext
from quillpost.orders.pricing import Audience
from quillpost.orders.resolution import ResolvedOrder, resolve_replay, resolve_request
from quillpost.orders.templates.images import limit_heavy_work
from quillpost.orders.validation import validate_request
from quillpost.recipients.leads.search import FindExcluded, LeadSearchResult, search_leads
from quillpost.recipients.models import Person
from quillpost.rendering.images.rules import UnprintableArt
from quillpost.rendering.models import Copy, Design
from quillpost.rendering.service import PreviewImages, Renderer
from quillpost.rendering.text.variables import compile_template

PREVIEW_LIFETIME = timedelta(days=7)


def draw_preview(
    db: Database,
    renderer: Renderer,
    caller: Caller,
    draft: OrderDraft,
    *,
    qr_base: str,
    opt_out: str | None,
    now: datetime,
) -> PreviewImages:
    """All sides as they would print, for the recipient asked for or the first who can be mailed."""
    recipient_index, person = _choose_preview_recipient(db, caller, draft, now=now)
    design, copy = build_preview_copy(draft, recipient_index, person, qr_base=qr_base, opt_out=opt_out)
    with blame_drawing_on_field(draft.request), limit_heavy_work():
        return renderer.preview(design, copy)


@contextmanager
def blame_drawing_on_field(request: ResolvedRequest) -> Iterator[None]:
    """`Invalid` for the field whose art is too heavy to draw: a PDF first, as it can draw anything."""
    try:
        yield
    except UnprintableArt as bad_art:
        sources = [
            (request.pages, "PDF"), (request.background, "image"), (request.front, "image"), (request.logo, "image"),
        ]  # fmt: skip
        for source, file_kind in sources:
            if source is not None:
                raise Invalid({source.field: [f"The {file_kind} cannot be drawn. {bad_art.message}"]}) from None
        raise


def build_preview_copy(
    draft: OrderDraft, recipient_index: RecipientIndex, person: Person, *, qr_base: str, opt_out: str | None
) -> tuple[Design, Copy]:
    """The draft as this person's item."""
    request, artwork = draft.request, draft.artwork
    front, background = (artwork.front.picture_for(recipient_index), artwork.background.picture_for(recipient_index))
    design = replace(
        draft.design,
        front=front.body if front else None,
        background=background.body if background else None,
        pages=artwork.pages.body if artwork.pages else None,
        branding=designs.build_branding(request.brand, next((p.body for p in artwork.logo.distinct_pictures()), None)),
    )
    copy = designs.build_specimen(
        person,
        request,
        qr_url=f"{qr_base}/q/{PREVIEW_CODE}" if request.qrcode_url else None,
        opt_out=f"{opt_out}{PREVIEW_CODE}" if opt_out else None,
        claim=designs.build_specimen_claim(request.gift, qr_base=qr_base),
    )
    return design, copy


def store_previews(storage: FileStorage, pictures: Mapping[str, bytes], *, now: datetime) -> dict[str, PendingFile]:
    expires_at = now + PREVIEW_LIFETIME
    return {
        name: storage.put(picture, purpose="preview", content_type="image/png", expires_at=expires_at, now=now)
        for name, picture in pictures.items()
    }


def _choose_preview_recipient(
    db: Database, caller: Caller, draft: OrderDraft, *, now: datetime
) -> tuple[RecipientIndex, Person]:
    """Repeats do not matter here: nothing is mailed."""
    criteria = draft.audience_criteria(caller, mails_at=now).with_repeats()
    with db.transaction(build_tenant(caller)) as tx:
        people = audience.refuse_inline_people(tx, draft.people, criteria, lock=False)
        recipient_index = preview_recipient_index(draft.request, people)
        if recipient_index is not None:
            return recipient_index, people[recipient_index]
        if draft.lead_search_result is not None:
            return None, draft.lead_search_result.people[0]
        first_mailed = audience.find_first_mailed(tx, criteria)
    if first_mailed is None:
        raise Invalid({"mailing_list_ids": ["There is nobody on these lists who can be mailed to."]})
    return None, first_mailed


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


@dataclass(frozen=True, slots=True)
class OrderPreview:
    """Images of all sides, stored for a week."""

    sides: Mapping[str, PendingFile]
    envelope: PendingFile | None
    warnings: list[str]

    @property
    def files(self) -> list[PendingFile]:
        return [*self.sides.values(), *([self.envelope] if self.envelope else [])]


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
        pause_warnings=context.list_pause_warnings(caller),
        cards_in_stock=context.count_available_cards(caller.mode, request.gift) if request.gift is not None else None,
    )
    if leads is None:
        return draft
    # Which creative it is, is known when its pictures are at hand; it is rare that somebody had it just now.
    repeats = pricing.find_repeats(draft, caller, mails_at=context.due_at(caller, draft.request))
    with context.db.transaction(build_tenant(caller)) as tx:
        is_first_mailing = not repeats(tx, leads.people)
    if is_first_mailing:
        return draft
    try:
        remaining_leads = _find_leads(context, caller, request, repeats=repeats)
    except NoMatch:
        raise NoMatch(pricing.RECENTLY_MAILED_ALL) from None
    return replace(
        _prepare_draft(context, caller, resolved, request, people, remaining_leads),
        pause_warnings=draft.pause_warnings,
        cards_in_stock=draft.cards_in_stock,
    )


def estimate_order(context: OrderContext, caller: Caller, draft: OrderDraft) -> OrderEstimate:
    """The audience, the price and all warnings of a draft."""
    with context.db.transaction(build_tenant(caller)) as tx:
        audience = pricing.find_audience(tx, caller, draft, mails_at=context.due_at(caller, draft.request), lock=False)
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


def preview_order(context: OrderContext, caller: Caller, draft: OrderDraft) -> OrderPreview:
    """Draws and stores the images; `record_preview` adds their rows."""
    now = context.clock()
    images = draw_preview(
        context.db, context.renderer, caller, draft, qr_base=context.qr_base, opt_out=context.opt_out, now=now
    )
    sides = store_previews(context.storage, images.sides, now=now)
    envelopes = store_previews(context.storage, {"": images.envelope} if images.envelope else {}, now=now)
    return OrderPreview(sides, envelopes.get(""), [*draft.pause_warnings, *draft.warnings])


def record_preview(context: OrderContext, tx: Tx, caller: Caller, draft: OrderDraft, preview: OrderPreview) -> None:
    context.storage.record_files(
        tx,
        preview.files,
        account_id=caller.account_id,
        sub_account_id=draft.request.sub_account_id,
        now=context.clock(),
    )


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
