"""Everything that can still refuse a sound request: what has to be fetched or laid out."""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from quillpost.accounts.billing.rules import Tariff
from quillpost.accounts.models import Caller
from quillpost.accounts.service import SenderProfile
from quillpost.core.errors import Invalid, Message, add_note
from quillpost.core.ports import Fetcher, FileStore
from quillpost.orders import designs
from quillpost.orders.audience import AudienceCriteria
from quillpost.orders.images import Artwork, PictureSet, compute_creative_key, recipient_label
from quillpost.orders.images import fetch_artwork as fetch_artwork_uncached
from quillpost.orders.models import ContentSource, ResolvedRequest
from quillpost.orders.ports import OrderContext
from quillpost.orders.resolution import ResolvedOrder
from quillpost.orders.validation import InkContrast, check_ink_contrast
from quillpost.recipients.leads.search import LeadSearchResult
from quillpost.recipients.models import Person
from quillpost.rendering import models as rendering_models
from quillpost.rendering.images.models import MIN_SHARP_DPI, printed_whole_dpi, resolution_note
from quillpost.rendering.layout.paragraphs import FIXED_SIZES
from quillpost.rendering.service import Renderer
from quillpost.rendering.text.variables import has_variables

FetchArtwork = Callable[[Fetcher, FileStore, ResolvedRequest, Sequence[Person], rendering_models.SenderName], Artwork]

RETURN_ADDRESS_REQUIRED = Message(
    "return_address_missing", "Live mail needs a return address: in the call or in the account."
)
BLANK_MESSAGE_WARNING = Message("message_blank", "The message is blank: nothing is written over the custom background.")

READABLE_POINTS = FIXED_SIZES["medium"]

_LONGEST_VALUES_NOTE = " (with the longest values on the lists)"


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

    def audience_criteria(self, caller: Caller, *, mails_at: datetime) -> AudienceCriteria:
        return AudienceCriteria.for_request(
            caller, self.request, creative_key=self.creative_key, mails_at=mails_at, tariff=self.tariff
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
    if needs_return_address and not caller.is_testing and return_address.address is None:
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
    ink = _check_ink(renderer, design, artwork, request)
    warnings = [
        *handwriting_warnings(renderer, design, written_message),
        *ink.warnings,
        *_picture_warnings(renderer, design, artwork.front, "front", request.front),
        *_picture_warnings(renderer, design, artwork.background, "background", request.background),
        *_page_warnings(artwork, request),
    ]
    key = compute_creative_key(request, artwork)
    lowest_dpi = _lowest_dpi(renderer, design, artwork)
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
class WrittenMessage:
    """The message for every recipient; `smallest_points` is its smallest font size."""

    texts: list[str]
    smallest_points: float | None


def check_fit(
    renderer: Renderer,
    design: rendering_models.Design,
    addressees: Sequence[rendering_models.Addressee],
    *,
    longest_people: Sequence[Person],
    has_qr: bool,
    message_field: str = "message",
    may_be_blank: bool = False,
) -> WrittenMessage:
    """Every recipient's text must fit, and the longest of the lists. A message that is blank for everyone passes where
    it `may_be_blank`. Addresses of lists are checked when they are printed."""
    texts = [] if design.pdf_only else renderer.fill_messages(design, addressees)
    longest_texts = (
        []
        if design.pdf_only
        else renderer.fill_messages(design, [designs.build_addressee(person) for person in longest_people])
    )
    hand = renderer.hands.hand(design.hand)
    is_left_blank = may_be_blank and not design.message.strip()
    for index, text in enumerate(texts):
        if not is_left_blank and not hand.has_visible_text(text):
            raise Invalid({message_field: [f"The message is empty{_recipient_note(design, index)}."]})
    misfits = renderer.find_misfits(design, addressees, qr=has_qr, messages=texts)
    errors: dict[str, list[str]] = {}
    if misfits.sender:
        errors["return_address"] = [misfits.sender.message]
    for index, too_long in list(misfits.messages.items())[:1]:
        errors[message_field] = [too_long.message + _recipient_note(design, index)]
    for index, too_long in misfits.addresses.items():
        errors[f"recipients.{index}.address"] = [too_long.message]
    sizes = [misfits.smallest_size]
    if longest_texts and message_field not in errors:
        list_misfits = renderer.find_misfits(design, [], qr=has_qr, messages=longest_texts)
        sizes.append(list_misfits.smallest_size)
        for too_long in list(list_misfits.messages.values())[:1]:
            errors[message_field] = [too_long.message + _LONGEST_VALUES_NOTE]
    if errors:
        raise Invalid(errors)
    return WrittenMessage(texts + longest_texts, min((size for size in sizes if size is not None), default=None))


def _recipient_note(design: rendering_models.Design, index: int) -> str:
    return f" (for recipient {index})" if has_variables(design.message) else ""


def _picture_warnings(
    renderer: Renderer, design: rendering_models.Design, art: PictureSet, kind: str, source: ContentSource | None
) -> list[Message]:
    """What was changed to make pictures printable, and which look soft; each once."""
    layout = renderer.products[design.product]
    label = source.label if source else kind
    recipient_notes: dict[Message, str] = {}
    for picture, recipient_index in art.distinct_pictures().items():
        picture_warnings = [_file_note(label, note) for note in picture.notes]
        for area in layout.art_areas(kind):
            note = resolution_note(picture.width, picture.height, area, product_name=f"a {layout.title}")
            picture_warnings += [Message("picture_soft", f"{label} {note}", file=label, note=note)] if note else []
        for warning in picture_warnings:
            recipient_notes.setdefault(warning, recipient_label(recipient_index))
    return [add_note(warning, recipient_note) for warning, recipient_note in recipient_notes.items()]


def _file_note(label: str, note: str) -> Message:
    return Message("file_note", f"{label}: {note}", file=label, note=note)


def _check_ink(
    renderer: Renderer, design: rendering_models.Design, artwork: Artwork, request: ResolvedRequest
) -> InkContrast:
    """How well the handwriting stands out from the picture under it."""
    layout = renderer.products[design.product]
    kind = layout.message_side.art
    art, source = (artwork.front, request.front) if kind == "front" else (artwork.background, request.background)
    pictures = art.distinct_pictures() if kind else {}
    label, has_qr = source.label if source else "the picture", request.qrcode_url is not None
    return check_ink_contrast(layout, design, pictures, picture_label=label, has_qr=has_qr)


def _lowest_dpi(renderer: Renderer, design: rendering_models.Design, artwork: Artwork) -> int | None:
    """The resolution of the softest picture; None where all are sharp."""
    layout = renderer.products[design.product]
    resolutions = [
        printed_whole_dpi(picture.width, picture.height, area)
        for kind, art in (("front", artwork.front), ("background", artwork.background))
        for picture in art.distinct_pictures()
        for area in layout.art_areas(kind)
    ]
    return min((dpi for dpi in resolutions if dpi < MIN_SHARP_DPI), default=None)


def _page_warnings(artwork: Artwork, request: ResolvedRequest) -> list[Message]:
    notes = artwork.pages.notes if artwork.pages else ()
    warnings = [_file_note(ContentSource(request.pages.field).label, note) for note in notes if request.pages]
    if "message" in request.unused_fields:
        warnings.append(Message("message_not_printed", "The PDF is the whole letter: the message is not printed."))
    if request.template_pdf_ignored:
        text = "The call's own message is the letter: the PDF of its template is not printed."
        warnings.append(Message("template_pdf_not_printed", text))
    return warnings


def handwriting_warnings(
    renderer: Renderer, design: rendering_models.Design, written_message: WrittenMessage
) -> list[Message]:
    """What cannot be written as asked."""
    if not written_message.texts:
        return []
    if not design.message.strip():
        return [BLANK_MESSAGE_WARNING]
    hand = renderer.hands.hand(design.hand)
    warnings = []
    chars = "".join(dict.fromkeys("".join(written_message.texts)))
    borrowed_chars, missing_chars = hand.find_borrowed_chars(chars), hand.find_missing_chars(chars)
    if substituted_chars := [char for char in borrowed_chars if char not in missing_chars]:
        text = f"The hand {hand.style.name} has no {_list_chars(substituted_chars)}: another face is used instead."
        warnings.append(Message("letters_borrowed", text))
    if missing_chars:
        text = f"No face has {_list_chars(missing_chars)}: it is spelled in Latin letters, or left out."
        warnings.append(Message("letters_missing", text))
    warnings += _shrunk_warnings(renderer, design, written_message.smallest_points)
    if hand.style.kind != "AI" and (design.font_size != "auto" or not design.realism):
        start = f"The hand {hand.style.name} is of type {hand.style.kind}:"
        text = f"{start} font_size and handwriting_realism have no effect on it."
        warnings.append(Message("settings_without_effect", text, start=start))
    return warnings


def _shrunk_warnings(
    renderer: Renderer, design: rendering_models.Design, smallest_points: float | None
) -> list[Message]:
    sizes, _ = renderer.handwriting_settings(design)
    if smallest_points is None or smallest_points >= min(sizes.largest, READABLE_POINTS):
        return []
    text = (
        f"The message was shrunk to fit: it is written at {smallest_points:g} points, smaller than medium"
        f" ({READABLE_POINTS:g}). Shorten it to have it larger."
    )
    return [Message("message_shrunk", text)]


def _list_chars(chars: list[str]) -> str:
    labels = [f"{char} ({unicodedata.name(char, 'unnamed').lower()})" for char in chars[:5]]
    more = f" and {len(chars) - 5} more" if len(chars) > 5 else ""
    return ", ".join(labels) + more
