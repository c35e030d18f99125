"""What must fit on the paper, and what a sender is warned of."""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from quillpost.core.errors import Invalid, Message, add_note
from quillpost.orders import designs
from quillpost.orders.models import ContentSource, ResolvedRequest
from quillpost.orders.requests.files import Artwork, PictureSet, RecipientIndex, recipient_label
from quillpost.orders.templates.images import FetchedPicture, measure_tones
from quillpost.recipients.models import Person
from quillpost.rendering import models as rendering_models
from quillpost.rendering.images.models import MIN_SHARP_DPI, printed_whole_dpi, resolution_note
from quillpost.rendering.layout.contrast import HARD_TO_READ_SHARE, INVISIBLE_SHARE, measure_contrast
from quillpost.rendering.layout.models import FIXED_SIZES, Side
from quillpost.rendering.layout.paragraphs import handwriting_settings
from quillpost.rendering.models import DEFAULT_MANNER, MIN_READABLE_CONTRAST, WHITE, contrast_ratio
from quillpost.rendering.service import Renderer
from quillpost.rendering.text.variables import has_variables

INK_HARD_TO_READ = "ink_hard_to_read"

_DARK_INK_CONTRAST = 4.5  # to white: a darker ink would hardly help
DARK_INK_ADVICE = "choose a lighter or calmer picture, or an ink of another color."
LIGHT_INK_ADVICE = "choose a darker ink, or a darker or calmer picture."


@dataclass(frozen=True, slots=True)
class _InkContrast:
    """How the ink stands out from a surface where words become hard to read, and where they become invisible."""

    readable: float
    visible: float
    warning: Message


def check_ink(
    renderer: Renderer, design: rendering_models.Design, artwork: Artwork, request: ResolvedRequest
) -> tuple[float | None, list[Message]]:
    """How well the handwriting stands out from paper or picture: the lowest contrast where much of it is hard to read,
    from 1 (invisible) to 21 (black on white), and the warnings. A blank message gives no warning, but counts: it may
    be changed later."""
    layout = renderer.products[design.product]
    kind = layout.message_side.art
    art, source = (artwork.front, request.front) if kind == "front" else (artwork.background, request.background)
    pictures = art.distinct_pictures() if kind else {}
    message_contrasts: list[_InkContrast] = []
    envelope_contrasts: list[_InkContrast] = []
    on_white = _contrast_on_white(design.ink)
    if not design.pdf_only and pictures:
        label, has_qr = source.label if source else "the picture", request.qrcode_url is not None
        message_contrasts = _contrast_on_pictures(layout.message_side, design, pictures, label, has_qr=has_qr)
    elif not design.pdf_only:
        message_contrasts = [on_white]
    if layout.envelope is not None and layout.envelope.handwritten:
        envelope_contrasts = [on_white]
    visible_contrasts = [*(message_contrasts if design.message.strip() else ()), *envelope_contrasts]
    warnings = [each.warning for each in visible_contrasts if each.readable < MIN_READABLE_CONTRAST]
    lowest = min([MIN_READABLE_CONTRAST, *(each.visible for each in [*message_contrasts, *envelope_contrasts])])
    return lowest if lowest < MIN_READABLE_CONTRAST else None, list(dict.fromkeys(warnings))


def _contrast_on_white(ink: rendering_models.Ink) -> _InkContrast:
    value = contrast_ratio(ink, WHITE)
    surface = Message("on_white_paper", "on white paper: choose a darker color.")
    contrast = f"Its contrast is {value:.1f} to 1; {MIN_READABLE_CONTRAST:g} to 1 reads well."
    return _InkContrast(value, value, _contrast_warning(surface, contrast))


def _contrast_warning(surface: Message, contrast: str) -> Message:
    text = f"The handwriting_color is hard to read {surface} {contrast}"
    return Message(INK_HARD_TO_READ, text, surface=surface, contrast=contrast)


def _contrast_on_pictures(
    side: Side,
    design: rendering_models.Design,
    pictures: Mapping[FetchedPicture, RecipientIndex],
    picture_label: str,
    *,
    has_qr: bool,
) -> list[_InkContrast]:
    """Of the pictures that could be measured: the worst is warned of. Empty where none could."""
    area, box = side.art_area, side.message_above_qr if has_qr and side.qr else side.message
    if area is None or box is None:
        return []
    is_dark = contrast_ratio(design.ink, WHITE) >= _DARK_INK_CONTRAST
    advice = DARK_INK_ADVICE if is_dark else LIGHT_INK_ADVICE
    contrasts = []
    for picture, recipient_index in pictures.items():
        tones = measure_tones(picture)
        if tones is None:
            continue
        samples = measure_contrast(design.ink, tones, area, box)
        picture_text = add_note(picture_label, recipient_label(recipient_index))
        surface = Message("on_picture", f"on {picture_text}: {advice}", picture=picture_text, advice=advice)
        contrast = (
            f"Its contrast is below {MIN_READABLE_CONTRAST:g} to 1 on"
            f" {samples.share_below(MIN_READABLE_CONTRAST):.0%} of the message area."
        )
        warning = _contrast_warning(surface, contrast)
        contrasts.append(_InkContrast(samples.lowest(HARD_TO_READ_SHARE), samples.lowest(INVISIBLE_SHARE), warning))
    if not contrasts:
        return []
    worst = min(contrasts, key=lambda each: each.readable)
    return [replace(worst, visible=min(each.visible for each in contrasts))]


BLANK_MESSAGE_WARNING = Message("message_blank", "The message is blank: nothing is written over the custom background.")

READABLE_POINTS = FIXED_SIZES["medium"]

_LONGEST_VALUES_NOTE = " (with the longest values on the lists)"


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
    hand = renderer.hands.hand_for(design.hand_choice)
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


def picture_warnings(
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


def find_lowest_dpi(renderer: Renderer, design: rendering_models.Design, artwork: Artwork) -> int | None:
    """The resolution of the softest picture; None where all are sharp."""
    layout = renderer.products[design.product]
    resolutions = [
        printed_whole_dpi(picture.width, picture.height, area)
        for kind, art in (("front", artwork.front), ("background", artwork.background))
        for picture in art.by_recipient.values()
        for area in layout.art_areas(kind)
    ]
    return min((dpi for dpi in resolutions if dpi < MIN_SHARP_DPI), default=None)


def page_warnings(artwork: Artwork, request: ResolvedRequest) -> list[Message]:
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
    hand = renderer.hands.hand_for(design.hand_choice)
    warnings = []
    chars = "".join(dict.fromkeys("".join(written_message.texts)))
    borrowed_chars, missing_chars = hand.find_lacking_chars(chars)
    if borrowed_chars:
        text = f"The hand {hand.style.name} has no {_list_chars(borrowed_chars)}: another face is used instead."
        warnings.append(Message("letters_borrowed", text))
    if missing_chars:
        text = f"No face has {_list_chars(missing_chars)}: it is spelled in Latin letters, or left out."
        warnings.append(Message("letters_missing", text))
    sizes, _ = handwriting_settings(design, hand.style)
    points = written_message.smallest_points
    if points is not None and points < min(sizes.largest, READABLE_POINTS):
        text = (
            f"The message was shrunk to fit: it is written at {points:g} points, smaller than medium"
            f" ({READABLE_POINTS:g}). Shorten it to have it larger."
        )
        warnings.append(Message("message_shrunk", text))
    if hand.style.lettering and (design.font_size != "auto" or design.manner != DEFAULT_MANNER):
        start = f"The style {hand.style.name} is lettering:"
        text = f"{start} font_size and handwriting_realism have no effect on it."
        warnings.append(Message("settings_without_effect", text, start=start))
    return warnings


def _list_chars(chars: list[str]) -> str:
    labels = [f"{char} ({unicodedata.name(char, 'unnamed').lower()})" for char in chars[:5]]
    more = f" and {len(chars) - 5} more" if len(chars) > 5 else ""
    return ", ".join(labels) + more
