"""The pictures and PDFs of a request: where they come from, and fetching them."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from quillpost.core.errors import Invalid, Message
from quillpost.core.files import StoredFile
from quillpost.core.ports import Fetcher, FileStore
from quillpost.orders import designs
from quillpost.orders.models import ContentSource, FieldErrors, OrderBranding, ResolvedRequest, name_part
from quillpost.orders.templates.images import (
    FetchedPages,
    FetchedPicture,
    FileToFetch,
    fetch_images,
    fetch_pages,
    load_pages,
    load_picture,
)
from quillpost.recipients.models import Person
from quillpost.rendering.models import SenderName
from quillpost.rendering.text.variables import fill_url, has_variables

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
    """Fetch each distinct URL once, and read the rest from storage; `Invalid` names all wrong fields. Live previews
    pass functions with caches."""
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
    pictures: list[FetchedPicture] = []
    pages, pages_source, errors = None, request.pages, FieldErrors()
    try:
        if named_files:
            pictures = fetch_pictures(fetcher, [named_file for _, named_file in named_files])
    except Invalid as invalid:
        errors |= invalid.fields
    try:
        if pages_source is not None and pages_source.file is not None:
            pages = load_pages(store, pages_source.file.key)
        elif pages_source is not None and pages_source.url is not None:
            pages = fetch_pdf(fetcher, FileToFetch(pages_source.url, pages_source.field, pages_source.part))
    except Invalid as invalid:
        errors |= invalid.fields
    if errors:
        raise Invalid(errors)
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
    return Artwork(**picture_sets, pages=pages, pages_file=pages_source.file if pages_source else None)


def compute_creative_key(request: ResolvedRequest, artwork: Artwork) -> UUID:
    """Identifies the creative by content; ink does not matter. Personal pictures count by their URL with variables."""
    contents: list[str | None] = []
    for source, pictures in ((request.front, artwork.front), (request.background, artwork.background)):
        shared_picture = pictures.by_recipient.get(None)
        if shared_picture is None:
            contents.append(source.url if source else None)
        else:
            contents.append(pictures.file.digest if pictures.file else hashlib.sha256(shared_picture.body).hexdigest())
    pages, pages_file = artwork.pages, artwork.pages_file
    return hash_creative(
        request.piece,
        request.message,
        front=contents[0],
        background=contents[1],
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
    return ContentSource("sub_account_id", url, part=name_part("logo")) if "://" in url else None
