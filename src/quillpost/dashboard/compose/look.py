"""How a piece looks, as the composer's form says it: from its fields to those of the API's body."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from quillpost.api.v2.send import OFFERS, Offer
from quillpost.api.v2.send_body import LONGEST_TEXT
from quillpost.creative.wording import LONGEST_URL
from quillpost.dashboard.handwriting import ink_in
from quillpost.dashboard.piece_names import PIECE_NAMES
from quillpost.kit.errors import Invalid
from quillpost.reception.forms import Form

CHOOSE_A_PIECE = "Choose what to send."
NOT_A_NUMBER = "Choose one that is on the list."


class Choice(NamedTuple):
    """A piece that can be chosen: its words on the page, and what the API has for it. `drawn_as` names its
    template in composition, `image_type` the saved images that suit it, `type` an order of it."""

    title: str
    about: str
    offer: Offer
    size: str | None
    drawn_as: str
    image_type: str
    type: str

    @property
    def is_letter(self) -> bool:
        return self.offer.piece.is_letter

    @property
    def is_gift(self) -> bool:
        return self.offer.piece.name == "giftcard"

    @property
    def has_background(self) -> bool:
        return "custom_background_image" in self.offer.body.model_fields


def _choice(name: str, about: str, size: str | None = None) -> Choice:
    offer = next(offer for offer in OFFERS if offer.piece.name == name)
    image_type, drawn_as = "postcard" if name == "magnacard" else name, offer.piece.drawn_as(size)
    return Choice(PIECE_NAMES[drawn_as], about, offer, size, drawn_as, image_type, offer.piece.type(size))


CHOICES: Final[Mapping[str, Choice]] = {
    "postcard-4x6": _choice("postcard", "Small and quick to read", "4x6"),
    "postcard-6x9": _choice("postcard", "Room for a picture", "6x9"),
    "postcard-6x11": _choice("postcard", "The largest in the mailbox", "6x11"),
    "letter": _choice("letter", "In an envelope with a window"),
    "windowless-letter": _choice("windowlessletter", "Its envelope is written by hand"),
    "notecard": _choice("notecard", "Folded, in an envelope"),
    "giftcard": _choice("giftcard", "A folded card that brings a gift"),
    "magnacard": _choice("magnacard", "Stays on the refrigerator"),
}
"""Every piece by its name in the form."""

USUAL: Final = "postcard-4x6"

FORM_FIELDS: Final[Mapping[str, str]] = {
    "size": "piece",
    "message": "message",
    "message_template": "message_template_id",
    "image_template": "image_template_id",
    "front_image_url": "front_image_url",
    "custom_background_image": "background_url",
    "handwriting_style": "style",
    "handwriting_color": "color",
    "handwriting_realism": "realism",
    "font_size": "font_size",
    "qrcode_url": "qrcode_url",
    "giftcard_brand": "giftcard_brand",
    "giftcard_amount": "giftcard_amount",
    "landing_page_url": "landing_page_url",
    "pdf_only_url": "pdf_url",
    "additional_pages_url": "pdf_url",
}
"""Where the form shows what is wrong with a field of the API."""


def choice_of(form: Form) -> Choice:
    """The piece that the form is about; `Invalid` for none of ours."""
    found = CHOICES.get(form.text("piece"))
    if found is None:
        raise Invalid({"piece": [CHOOSE_A_PIECE]})
    return found


def fields_of(form: Form, *, is_finished: bool = True) -> dict[str, Any]:
    """The look in the API's words. What the piece has no use for is left out, whatever stands in the form:
    whoever changes their mind about the piece need not empty its fields. While it is not finished nobody is
    told that a picture is still to be chosen."""
    choice = choice_of(form)
    fields: dict[str, Any] = {
        "message": message_of(form),
        "message_template": form.number("message_template_id"),
        "handwriting_style": form.number("style"),
        "handwriting_color": ink_in(form, "color"),
        "handwriting_realism": form.text("realism") == "on",
        "font_size": form.text("font_size") or None,
        "qrcode_url": _url(form, "qrcode_url"),
        **_front(form, is_finished=is_finished),
    }
    if choice.size is not None:
        fields["size"] = choice.size
    if choice.has_background:
        fields["custom_background_image"] = _url(form, "background_url")
    if choice.is_letter:
        is_whole = form.text("pdf_is") == "whole"
        fields["pdf_only_url" if is_whole else "additional_pages_url"] = _url(form, "pdf_url")
    if choice.is_gift:
        fields["giftcard_brand"] = form.text("giftcard_brand") or None
        fields["giftcard_amount"] = form.number("giftcard_amount")
        fields["landing_page_url"] = _url(form, "landing_page_url")
    return {name: value for name, value in fields.items() if value is not None}


def message_of(form: Form) -> str:
    """What is to be written; browsers end each line of a form with two signs."""
    return form.text("message", most=LONGEST_TEXT).replace("\r\n", "\n")


def _front(form: Form, *, is_finished: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    match form.text("image"):
        case "template":
            found = {"image_template": form.number("image_template_id")}
            wrong = {"image_template_id": ["Choose one of your images, or upload one."]}
        case "url":
            found = {"front_image_url": _url(form, "front_image_url")}
            wrong = {"front_image_url": ["Paste the link of a PNG or JPEG."]}
    if is_finished and None in found.values():
        raise Invalid(wrong)
    return found


def _url(form: Form, name: str) -> str | None:
    return form.text(name, most=LONGEST_URL) or None
