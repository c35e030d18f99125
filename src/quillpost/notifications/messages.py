"""The text of e-mails and text messages, and its layout."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from html import escape
from importlib.resources import files
from string import Template

from anyascii import anyascii

from quillpost.core import outbox
from quillpost.core.outbox import ClaimedNotification
from quillpost.core.text import to_one_line
from quillpost.notifications.ports import OutgoingMessage


@dataclass(frozen=True, slots=True)
class NotificationReader:
    account_id: int
    address: str


LINK_PATTERN = re.compile(r"https?://[^\s<>\"]*[^\s<>\".,;:!?)]")
HTML_PAGE = Template(files("quillpost.notifications").joinpath("email_page.template").read_text())


def render_html(title: str, text: str, footer: Sequence[str], *, unsubscribe: str | None) -> str:
    """Paragraphs are separated by empty lines; lines that begin with `- ` are a list; URLs are links."""
    footer_lines = [f"<p>{_link_urls(line)}</p>" for line in footer]
    if unsubscribe is not None:
        footer_lines.append(f'<p><a href="{escape(unsubscribe)}">Unsubscribe</a></p>')
    return HTML_PAGE.substitute(
        title=escape(title), body="\n".join(_render_blocks(text)), footer="\n".join(footer_lines)
    )


def _render_blocks(text: str) -> Iterator[str]:
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = block.splitlines()
        if all(line.startswith("- ") for line in lines):
            yield "<ul>\n" + "\n".join(f"<li>{_link_urls(line[2:])}</li>" for line in lines) + "\n</ul>"
        else:
            yield "<p>" + "<br>\n".join(map(_link_urls, lines)) + "</p>"


def _link_urls(text: str) -> str:
    html_parts, end = [], 0
    for match in LINK_PATTERN.finditer(text):
        url = escape(match.group())
        html_parts += [escape(text[end : match.start()]), f'<a href="{url}">{url}</a>']
        end = match.end()
    return "".join(html_parts) + escape(text[end:])


GSM_CHARS = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    "ÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
GSM_EXTENDED_CHARS = frozenset("^{}\\[~]|€")  # each counts as two
MAX_TEXT_LENGTH = 160  # a longer one is sent, and paid, as several


def fit_text_message(text: str, *, max_length: int = MAX_TEXT_LENGTH) -> str:
    """Transliterate and cut the text to one text message."""
    chars = [char for source_char in to_one_line(text, max_length=4 * max_length) for char in _to_gsm(source_char)]
    if _gsm_length(chars) <= max_length:
        return "".join(chars)
    while _gsm_length(chars) > max_length - 3:
        chars.pop()
    return "".join(chars).rstrip() + "..."


def _to_gsm(char: str) -> str:
    if char in GSM_CHARS or char in GSM_EXTENDED_CHARS:
        return char
    return "".join(replacement for replacement in anyascii(char) if replacement in GSM_CHARS)


def _gsm_length(chars: list[str]) -> int:
    return len(chars) + sum(char in GSM_EXTENDED_CHARS for char in chars)


MAX_SUBJECT_LENGTH = 150
TEST_MODE_NOTE = "This is about testing mode: nothing was printed or mailed."
LINK_PLACEHOLDER = "{link}"
UnsubscribeLinkBuilder = Callable[[NotificationReader], str]


def compose_message(
    notification: ClaimedNotification, *, build_link: UnsubscribeLinkBuilder, secret: str | None = None, now: datetime
) -> OutgoingMessage:
    """`secret` replaces `{link}` in the text."""
    text = notification.words if secret is None else notification.words.replace(LINK_PLACEHOLDER, secret)
    is_test = notification.mode == "test"
    if notification.channel == "text":
        text = f"Test: {text}" if is_test else text
        number = notification.address.removesuffix(outbox.TEXT_SUFFIX)
        return OutgoingMessage(notification.key, number, notification.subject, fit_text_message(text), now)
    title = to_one_line(notification.subject, max_length=MAX_SUBJECT_LENGTH)
    link = (
        build_link(NotificationReader(notification.account_id, notification.address))
        if notification.kind == outbox.SCANS_KIND
        else None
    )
    footer = [TEST_MODE_NOTE] if is_test else []
    footer.append(_reason_text(notification))
    footer_lines = footer if link is None else [*footer, f"To hear no more of them: {link}"]
    return OutgoingMessage(
        key=notification.key,
        to=notification.address,
        subject=f"[Test] {title}" if is_test else title,
        text=f"{text.strip()}\n\n-- \n" + "\n".join(footer_lines) + "\n",
        at=now,
        html=render_html(title, text, footer, unsubscribe=link),
        unsubscribe_url=link,
    )


def _reason_text(notification: ClaimedNotification) -> str:
    name = to_one_line(notification.account_name, max_length=MAX_SUBJECT_LENGTH)
    if notification.kind == outbox.SCANS_KIND:
        return f"You get this because {name} has named your address to be told of scans."
    if notification.kind == outbox.PEOPLE_KIND:
        return "You get this because you sign in to Quillpost with this address, or are invited to."
    if notification.kind == outbox.GIFTCARDS_KIND:
        return f"You get this because you look after the account {name}, or are told of its orders."
    return f"You get this because your address is that of the account {name}."


MAX_LISTED_ITEMS = 20
MAX_NAME_LENGTH = 60

PRODUCT_LABELS = {
    "postcard": "postcard",
    "postcard6x11": "postcard",
    "letter": "letter",
    "windowlessletter": "letter",
    "notecard": "notecard",
    "giftcard": "gift card",
    "magnacard": "magnacard",
}


@dataclass(frozen=True, slots=True)
class ScannedItem:
    """`scans` are those of this digest."""

    item_id: int
    name: str | None
    city: str | None
    province: str | None
    scans: int
    total_scans: int
    last_at: datetime

    @property
    def display_name(self) -> str:
        return to_one_line(self.name or "", max_length=MAX_NAME_LENGTH) or "Someone"

    @property
    def location(self) -> str:
        parts = (to_one_line(part or "", max_length=MAX_NAME_LENGTH) for part in (self.city, self.province))
        return ", ".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class ScanNews:
    """Scans of one order that an address has not been notified of; `items` are the first."""

    order_id: int
    type: str
    scans: int
    item_count: int
    first_at: datetime
    last_at: datetime
    order_scans: int
    order_multi_scans: int
    items: Sequence[ScannedItem]

    @property
    def product_label(self) -> str:
        return PRODUCT_LABELS.get(self.type, "piece")


def build_subject(news: ScanNews) -> str:
    if news.scans == 1:
        return f"{news.items[0].display_name} scanned your {news.product_label}"
    return f"{news.scans:,} scans of your {news.product_label} (order {news.order_id})"


def build_email_text(news: ScanNews, *, zone: tzinfo) -> str:
    return _single_scan_text(news, zone) if news.scans == 1 else _many_scans_text(news, zone)


def build_text_message(news: ScanNews) -> str:
    first_name = ", ".join(filter(None, (news.items[0].display_name, news.items[0].location.replace(",", ""))))
    order_text = f"your {news.product_label} (order {news.order_id})"
    if news.scans == 1:
        return f"{first_name}, scanned {order_text}. {_total_scans_text(news.items[0])}"
    others_text = f" and {news.item_count - 1:,} more" if news.item_count > 1 else ""
    return f"{news.scans:,} scans of {order_text}: {first_name}{others_text}. {news.order_scans:,} in all."


def _single_scan_text(news: ScanNews, zone: tzinfo) -> str:
    item = news.items[0]
    location_text = f" in {item.location}" if item.location else ""
    return (
        f"{item.display_name}{location_text} scanned the QR code on your {news.product_label} on "
        f"{_format_datetime(news.last_at, zone)}.\n\n"
        f"{_total_scans_text(item)} It is piece {item.item_id} of order {news.order_id}, which has "
        f"{_scan_count_text(news.order_scans)} in all."
    )


def _many_scans_text(news: ScanNews, zone: tzinfo) -> str:
    first, last = _format_datetime(news.first_at, zone), _format_datetime(news.last_at, zone)
    period = f"on {last}" if first == last else f"between {first} and {last}"
    items_text = "one piece" if news.item_count == 1 else f"{news.item_count:,} pieces"
    lines = [
        f"- {', '.join(filter(None, (item.display_name, item.location)))}: {_scan_count_text(item.scans)}, "
        f"{'last ' if item.scans > 1 else ''}on {_format_short_datetime(item.last_at, zone)}"
        for item in news.items
    ]
    if news.item_count > len(news.items):
        lines.append(f"- and {news.item_count - len(news.items):,} more")
    multi_scans = news.order_multi_scans
    multi_text = f"{multi_scans:,} of its pieces {'was' if multi_scans == 1 else 'were'} scanned more than once"
    return (
        f"The QR code on your {news.product_label} was scanned {news.scans:,} times, on {items_text}, {period}:\n\n"
        + "\n".join(lines)
        + f"\n\nOrder {news.order_id} has {_scan_count_text(news.order_scans)} in all"
        + (f"; {multi_text}." if multi_scans else ".")
    )


def _total_scans_text(item: ScannedItem) -> str:
    if item.total_scans <= 1:
        return "This is its first scan."
    return f"It was scanned {item.total_scans:,} times so far."


def _scan_count_text(count: int) -> str:
    return "1 scan" if count == 1 else f"{count:,} scans"


def _format_datetime(at: datetime, zone: tzinfo) -> str:
    local = at.astimezone(zone)
    return f"{local:%B} {local.day}, {local.year}, at {local:%H:%M} {local.tzname()}"


def _format_short_datetime(at: datetime, zone: tzinfo) -> str:
    local = at.astimezone(zone)
    return f"{local:%B} {local.day} at {local:%H:%M}"
