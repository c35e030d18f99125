"""The pictures and PDFs of a request: where they come from, and fetching them."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from quillpost.accounts.sub_accounts.queries import SubAccount
from quillpost.core.database import Tx
from quillpost.core.errors import Invalid, Message
from quillpost.core.files import StoredFile, find_files
from quillpost.core.ports import Fetcher, FileStore
from quillpost.orders import designs
from quillpost.orders.models import ContentSource, OrderBranding, OrderRequest, ResolvedRequest, name_part
from quillpost.orders.products import FieldRequirement
from quillpost.orders.templates.images import (
    FetchedPages,
    FetchedPicture,
    FileToFetch,
    fetch_images,
    fetch_pages,
    load_pages,
    load_picture,
)
from quillpost.orders.templates.models import ImageTemplate, MessageTemplate
from quillpost.recipients.models import Person
from quillpost.rendering.models import SenderName
from quillpost.rendering.text.variables import fill_url, has_variables

A = TypeVar("A")
B = TypeVar("B")

FRONT_FIELD, BACKGROUND_FIELD = "front_image_url", "custom_background_image"
PAGES_FIELD, PDF_ONLY_FIELD = "additional_pages_url", "pdf_only_url"

RecipientIndex = int | None
"""The index in the audience; None: everyone without a picture of their own."""


@dataclass(frozen=True, slots=True)
class PictureSet:
    """The pictures of one part of a request; `file` is set if it is stored already."""

    by_recipient: Mapping[RecipientIndex, FetchedPicture]
    file: StoredFile | None = None

    def picture_for(self, recipient_index: RecipientIndex) -> FetchedPicture | None:
        return self.by_recipient.get(recipient_index, self.by_recipient.get(None))

    def distinct_pictures(self) -> dict[FetchedPicture, RecipientIndex]:
        """Each picture with its first recipient."""
        first_recipients: dict[FetchedPicture, RecipientIndex] = {}
        for recipient_index, picture in self.by_recipient.items():
            first_recipients.setdefault(picture, recipient_index)
        return first_recipients


NO_PICTURES = PictureSet({})


@dataclass(frozen=True, slots=True)
class Artwork:
    """The fetched, printable art of a request."""

    front: PictureSet = NO_PICTURES
    background: PictureSet = NO_PICTURES
    logo: PictureSet = NO_PICTURES
    pages: FetchedPages | None = None
    pages_file: StoredFile | None = None


FetchImages = Callable[[Fetcher, Sequence[FileToFetch]], list[FetchedPicture]]
FetchPages = Callable[[Fetcher, FileToFetch], FetchedPages]


def fetch_artwork(
    fetcher: Fetcher,
    store: FileStore,
    request: ResolvedRequest,
    people: Sequence[Person],
    sender: SenderName,
    *,
    fetch_pictures: FetchImages = fetch_images,
    fetch_pdf: FetchPages = fetch_pages,
) -> Artwork:
    """Fetch each distinct URL once, and read the rest from storage. Live previews pass functions with caches."""
    sources = {"front": request.front, "background": request.background, "logo": request.logo}
    urls = {
        name: (source, fill_urls(source.url, request, people, sender))
        for name, source in sources.items()
        if source is not None and source.url is not None and source.file is None
    }
    named_files = [
        (name, FileToFetch(url, source.field, _source_note(source, recipient_index)))
        for name, (source, urls_by_recipient) in urls.items()
        for url, recipient_index in first_recipient_by_url(urls_by_recipient).items()
    ]
    pictures, pages = _run_both(
        lambda: fetch_pictures(fetcher, [named_file for _, named_file in named_files]),
        lambda: _load_pages(fetcher, store, request.pages, fetch_pdf),
    )
    pictures_by_url = {
        (name, named_file.url): picture for (name, named_file), picture in zip(named_files, pictures, strict=True)
    }
    picture_sets = {
        name: PictureSet(
            {recipient_index: pictures_by_url[name, url] for recipient_index, url in urls_by_recipient.items()}
        )
        for name, (_, urls_by_recipient) in urls.items()
    }
    for name, source in sources.items():
        if source is not None and source.file is not None:
            picture_sets[name] = PictureSet({None: load_picture(store, source.file.key)}, source.file)
    return Artwork(**picture_sets, pages=pages, pages_file=request.pages.file if request.pages else None)


def _run_both(first_call: Callable[[], A], second_call: Callable[[], B]) -> tuple[A, B]:
    """Both results, or the errors of both together."""
    try:
        first_result = first_call()
    except Invalid as first_invalid:
        try:
            second_call()
        except Invalid as second_invalid:
            raise Invalid(first_invalid.fields | second_invalid.fields) from None
        raise
    return first_result, second_call()


def _load_pages(
    fetcher: Fetcher, store: FileStore, source: ContentSource | None, fetch_pdf: FetchPages
) -> FetchedPages | None:
    if source is None:
        return None
    if source.file is not None:
        return load_pages(store, source.file.key)
    assert source.url is not None
    return fetch_pdf(fetcher, FileToFetch(source.url, source.field, source.part))


def compute_creative_key(request: ResolvedRequest, artwork: Artwork) -> UUID:
    """Identifies the creative by content; ink does not matter. Personal pictures count by their URL with variables."""

    def content_digest(source: ContentSource | None, pictures: PictureSet) -> str | None:
        shared_picture = pictures.by_recipient.get(None)
        if shared_picture is not None:
            return pictures.file.digest if pictures.file else hashlib.sha256(shared_picture.body).hexdigest()
        return source.url if source else None

    pages, pages_file = artwork.pages, artwork.pages_file
    return hash_creative(
        request.piece,
        request.message,
        front=content_digest(request.front, artwork.front),
        background=content_digest(request.background, artwork.background),
        pages=pages_file.digest if pages_file else hashlib.sha256(pages.body).hexdigest() if pages else None,
    )


def hash_creative(
    layout_name: str, message: str, *, front: str | None, background: str | None, pages: str | None
) -> UUID:
    """From digests of the files, or URLs with variables."""
    payload = json.dumps([layout_name, message, front, background, pages])
    return UUID(bytes=hashlib.sha256(payload.encode()).digest()[:16])


def fill_urls(
    url: str, request: ResolvedRequest, people: Sequence[Person], sender: SenderName
) -> dict[RecipientIndex, str]:
    """One URL for everyone, or filled for each recipient who can be mailed or is previewed."""
    if not has_variables(url):
        return {None: url}
    preview_index = preview_recipient_index(request, people)
    return {
        index: fill_url(url, designs.build_addressee(person), sender)
        for index, person in enumerate(people)
        if index == preview_index or not person.refusal
    }


def first_recipient_by_url(urls: Mapping[RecipientIndex, str]) -> dict[str, RecipientIndex]:
    first_recipients: dict[str, RecipientIndex] = {}
    for recipient_index, url in urls.items():
        first_recipients.setdefault(url, recipient_index)
    return first_recipients


def recipient_label(recipient_index: RecipientIndex) -> str:
    return "" if recipient_index is None else f"for recipient {recipient_index}"


def preview_recipient_index(request: ResolvedRequest, people: Sequence[Person]) -> RecipientIndex:
    """The recipient asked for, or the first who can be mailed; None: only lists may have one."""
    if request.preview_recipient is not None and people:
        return request.preview_recipient
    first_mailable = next((index for index, person in enumerate(people) if not person.refusal), None)
    return first_mailable if first_mailable is not None or request.mailing_list_ids or not people else 0


def _source_note(source: ContentSource, recipient_index: RecipientIndex) -> str:
    recipient = recipient_label(recipient_index)
    if not source.part or not recipient:
        return source.part or recipient
    return Message("part_for_recipient", f"{source.part}, {recipient}", part=source.part, recipient=recipient)


MESSAGE_FIELD, MESSAGE_TEMPLATE_FIELD, IMAGE_TEMPLATE_FIELD, SUB_ACCOUNT_FIELD, LISTS_FIELD = (
    "message", "message_template", "image_template", "sub_account_id", "mailing_list_ids",
)  # fmt: skip


BACKGROUND_SETTINGS: Mapping[str, str] = {
    "postcard-4x6": "message_background_url",
    "postcard-6x9": "postcard6x9_background_url",
    "magnacard": "message_background_url",
    "notecard": "notecard_background_url",
    "letter": "windowedletter_background_url",
    "windowlessletter": "windowlessletter_background_url",
}
"""The sub account's background for each layout; under the cover of a letter."""


def pdf_only_source(request: OrderRequest, message_template: MessageTemplate | None) -> ContentSource | None:
    """The PDF that is the whole letter; a message of the call's own replaces a template's."""
    if request.pdf_only_url:
        return ContentSource(PDF_ONLY_FIELD, request.pdf_only_url)
    if request.own_message is None and message_template is not None and message_template.pdf_only_url:
        return ContentSource(MESSAGE_TEMPLATE_FIELD, message_template.pdf_only_url, part=name_part("pdf_only_url"))
    return None


def pages_source(request: OrderRequest, message_template: MessageTemplate | None) -> ContentSource | None:
    if not request.product.is_letter:
        return None
    if request.additional_pages_url:
        return ContentSource(PAGES_FIELD, request.additional_pages_url)
    if message_template is not None and message_template.additional_pages:
        return ContentSource(
            MESSAGE_TEMPLATE_FIELD, message_template.additional_pages, part=name_part("additional_pages")
        )
    return None


def front_source(
    tx: Tx, request: OrderRequest, sub_account: SubAccount | None, image_template: ImageTemplate | None
) -> ContentSource | None:
    if request.front_image_url:
        return ContentSource(FRONT_FIELD, request.front_image_url)
    if image_template is not None:
        return ContentSource(
            IMAGE_TEMPLATE_FIELD, file=find_files(tx, [image_template.image_file_id])[image_template.image_file_id]
        )
    return _sub_account_background(request, sub_account) if request.product.is_letter else None


def background_source(
    request: OrderRequest, sub_account: SubAccount | None, message_template: MessageTemplate | None
) -> ContentSource | None:
    """A template's background is also printed where the product ignores the call's field."""
    if request.product.is_letter:
        return None
    if request.background_url and request.product.background is not FieldRequirement.NOT_USED:
        return ContentSource(BACKGROUND_FIELD, request.background_url)
    if not request.use_custom_background:
        return None
    if message_template is not None and message_template.custom_background_url:
        return ContentSource(
            MESSAGE_TEMPLATE_FIELD, message_template.custom_background_url, part=name_part("custom_background_url")
        )
    return _sub_account_background(request, sub_account)


def _sub_account_background(request: OrderRequest, sub_account: SubAccount | None) -> ContentSource | None:
    setting_name = BACKGROUND_SETTINGS.get(request.product.layout_name(request.size))
    url = sub_account.backgrounds.get(setting_name) if sub_account and setting_name else None
    if not url or not request.use_custom_background:
        return None
    return ContentSource(SUB_ACCOUNT_FIELD, url, part=name_part(setting_name or ""))


def build_branding(branding: Mapping[str, str | None]) -> OrderBranding | None:
    contacts = (branding.get("phone"), branding.get("domain") or branding.get("email"))
    brand = OrderBranding(
        accent=branding.get("accentColor"),
        company=branding.get("company") or branding.get("name"),
        contact=" · ".join(part for part in contacts if part) or None,
        disclaimer=branding.get("disclaimer"),
    )
    return brand if brand != OrderBranding() or logo_source(branding) else None


def logo_source(branding: Mapping[str, str | None]) -> ContentSource | None:
    """Some logos are stored as a word, which is not printed."""
    url = branding.get("logo") or ""
    return ContentSource(SUB_ACCOUNT_FIELD, url, part=name_part("logo")) if "://" in url else None
