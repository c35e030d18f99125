"""Previews: how a draft will look, in storage for a week."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.core.database import Tx
from quillpost.core.errors import Invalid
from quillpost.core.files import PendingFile
from quillpost.core.tokens import PREVIEW_CODE
from quillpost.orders import designs
from quillpost.orders.audience import queries as audience_queries
from quillpost.orders.audience.queries import AudienceCriteria
from quillpost.orders.drafts.models import OrderDraft
from quillpost.orders.models import ResolvedRequest
from quillpost.orders.ports import OrderContext
from quillpost.orders.requests.files import RecipientIndex, preview_recipient_index
from quillpost.orders.templates.images import limit_heavy_work
from quillpost.recipients.models import Person
from quillpost.rendering.images.rules import UnprintableArt
from quillpost.rendering.models import Copy, Design
from quillpost.rendering.service import PreviewImages

PREVIEW_LIFETIME = timedelta(days=7)


def draw_preview(context: OrderContext, caller: Caller, draft: OrderDraft) -> PreviewImages:
    """All sides as they would print, for the chosen recipient or the first who can be mailed."""
    recipient_index, person = _choose_preview_recipient(context, caller, draft)
    design, copy = build_preview_copy(draft, recipient_index, person, qr_base=context.qr_base, opt_out=context.opt_out)
    with blame_drawing_on_field(draft.request), limit_heavy_work():
        return context.renderer.preview(design, copy)


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
    logo = next((picture.body for picture in artwork.logo.by_recipient.values()), None)
    design = replace(
        draft.design,
        front=front.body if front else None,
        background=background.body if background else None,
        pages=artwork.pages.body if artwork.pages else None,
        branding=designs.build_branding(request.brand, logo) if request.brand else None,
    )
    copy = designs.build_specimen(
        person,
        request,
        qr_url=f"{qr_base}/q/{PREVIEW_CODE}" if request.qrcode_url else None,
        opt_out=f"{opt_out}{PREVIEW_CODE}" if opt_out else None,
        claim=designs.build_specimen_claim(request.gift, qr_base=qr_base),
    )
    return design, copy


def _choose_preview_recipient(
    context: OrderContext, caller: Caller, draft: OrderDraft
) -> tuple[RecipientIndex, Person]:
    """Repeats do not matter here: nothing is mailed."""
    criteria = replace(AudienceCriteria.for_draft(caller, draft, mails_at=context.clock()), allows_repeats=True)
    with context.db.transaction(build_tenant(caller)) as tx:
        people = audience_queries.refuse_inline_people(tx, draft.people, criteria, lock=False)
        recipient_index = preview_recipient_index(draft.request, people)
        if recipient_index is not None:
            return recipient_index, people[recipient_index]
        if draft.lead_search_result is not None:
            return None, draft.lead_search_result.people[0]
        first_mailed = audience_queries.find_first_mailed(tx, criteria)
    if first_mailed is None:
        raise Invalid({"mailing_list_ids": ["There is nobody on these lists who can be mailed to."]})
    return None, first_mailed


@dataclass(frozen=True, slots=True)
class OrderPreview:
    """Images of all sides, stored for a week."""

    sides: Mapping[str, PendingFile]
    envelope: PendingFile | None
    warnings: list[str]

    @property
    def files(self) -> list[PendingFile]:
        return [*self.sides.values(), *([self.envelope] if self.envelope else [])]


def preview_order(context: OrderContext, caller: Caller, draft: OrderDraft) -> OrderPreview:
    """Draws and stores the images; `record_preview` adds their rows."""
    now = context.clock()
    images = draw_preview(context, caller, draft)
    store = partial(
        context.storage.put, purpose="preview", content_type="image/png", expires_at=now + PREVIEW_LIFETIME, now=now
    )
    sides = {name: store(picture) for name, picture in images.sides.items()}
    envelope = store(images.envelope) if images.envelope else None
    return OrderPreview(sides, envelope, [*draft.pause_warnings, *draft.warnings])


def record_preview(context: OrderContext, tx: Tx, caller: Caller, draft: OrderDraft, preview: OrderPreview) -> None:
    sub_account_id, now = draft.request.sub_account_id, context.clock()
    for file in preview.files:
        context.storage.record_file(tx, file, account_id=caller.account_id, sub_account_id=sub_account_id, now=now)
