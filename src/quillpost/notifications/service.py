"""The text of e-mails and text messages, and how it is laid out."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from html import escape

from anyascii import anyascii

from quillpost.core import outbox
from quillpost.core.outbox import Claimed
from quillpost.core.text import one_line
from quillpost.notifications.ports import Message
from quillpost.notifications.unsubscribe import Reader

LINK = re.compile(r"https?://[^\s<>\"]*[^\s<>\".,;:!?)]")
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="supported-color-schemes" content="light dark">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 0; padding: 24px 16px; font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; }}
main {{ max-width: 560px; margin: 0 auto; }}
h1 {{ font: 600 22px/1.3 Georgia, "Times New Roman", serif; margin: 0 0 16px; }}
p, ul {{ margin: 0 0 16px; }}
ul {{ padding-left: 20px; }}
li {{ margin: 0 0 4px; }}
footer {{ border-top: 1px solid #8886; margin-top: 24px; padding-top: 12px; font-size: 13px; opacity: .75; }}
footer p {{ margin: 0 0 8px; }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
{body}
<footer>
{footer}
</footer>
</main>
</body>
</html>
"""  # noqa: E501


def page(title: str, words: str, footer: Sequence[str], *, unsubscribe: str | None) -> str:
    """Paragraphs are set apart by empty lines; lines that begin with `- ` are a list; addresses are links."""
    ends = [f"<p>{_linked(line)}</p>" for line in footer]
    if unsubscribe is not None:
        ends.append(f'<p><a href="{escape(unsubscribe)}">Unsubscribe</a></p>')
    return PAGE.format(title=escape(title), body="\n".join(_blocks(words)), footer="\n".join(ends))


def _blocks(words: str) -> Iterator[str]:
    for block in re.split(r"\n\s*\n", words.strip()):
        lines = block.splitlines()
        if all(line.startswith("- ") for line in lines):
            yield "<ul>\n" + "\n".join(f"<li>{_linked(line[2:])}</li>" for line in lines) + "\n</ul>"
        else:
            yield "<p>" + "<br>\n".join(map(_linked, lines)) + "</p>"


def _linked(text: str) -> str:
    """Escaped, and every address in it a link."""
    made, done = [], 0
    for found in LINK.finditer(text):
        shown = escape(found.group())
        made += [escape(text[done : found.start()]), f'<a href="{shown}">{shown}</a>']
        done = found.end()
    return "".join(made) + escape(text[done:])


GSM = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    "ÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
ESCAPED = frozenset("^{}\\[~]|€")
"""Letters of the second table: each takes the place of two."""

TEXT_PLACES = 160
"""What one text message holds; a longer one is sent, and paid, as several."""


def as_text_message(text: str, *, places: int = TEXT_PLACES) -> str:
    """The same in letters that fit into one text message: what the alphabet lacks is written as it is best
    read, and the end is cut."""
    letters = [letter for each in one_line(text, most=4 * places) for letter in _known(each)]
    if _places(letters) <= places:
        return "".join(letters)
    while _places(letters) > places - 3:
        letters.pop()
    return "".join(letters).rstrip() + "..."


def _known(letter: str) -> str:
    if letter in GSM or letter in ESCAPED:
        return letter
    return "".join(each for each in anyascii(letter) if each in GSM)


def _places(letters: list[str]) -> int:
    return len(letters) + sum(each in ESCAPED for each in letters)


LONGEST_SUBJECT = 150
TEST = "This is about testing mode: nothing was printed or mailed."
PLACE = "{link}"

LinkTo = Callable[[Reader], str]
"""Where a reader says that they want to hear no more."""


def compose(notice: Claimed, *, link_to: LinkTo, secret: str | None = None, now: datetime) -> Message:
    """`secret` is what `{link}` in the words stands for, where the notice has one."""
    words = notice.words if secret is None else notice.words.replace(PLACE, secret)
    is_test = notice.mode == "test"
    if notice.channel == "text":
        words = f"Test: {words}" if is_test else words
        number = notice.address.removesuffix(outbox.TEXT_SUFFIX)
        return Message(notice.key, number, notice.subject, as_text_message(words), now)
    title = one_line(notice.subject, most=LONGEST_SUBJECT)
    link = link_to(Reader(notice.account_id, notice.address)) if notice.kind == outbox.SCANS else None
    footer = [TEST] if is_test else []
    footer.append(_reason(notice))
    ends = footer if link is None else [*footer, f"To hear no more of them: {link}"]
    return Message(
        key=notice.key,
        to=notice.address,
        subject=f"[Test] {title}" if is_test else title,
        text=f"{words.strip()}\n\n-- \n" + "\n".join(ends) + "\n",
        at=now,
        html=page(title, words, footer, unsubscribe=link),
        unsubscribe=link,
    )


def _reason(notice: Claimed) -> str:
    name = one_line(notice.account_name, most=LONGEST_SUBJECT)
    if notice.kind == outbox.SCANS:
        return f"You get this because {name} has named your address to be told of scans."
    if notice.kind == outbox.PEOPLE:
        return "You get this because you sign in to Quillpost with this address, or are invited to."
    if notice.kind == outbox.GIFTS:
        return f"You get this because you look after the account {name}, or are told of its orders."
    return f"You get this because your address is that of the account {name}."


MOST_NAMED = 20
LONGEST_NAME = 60

PIECES = {
    "postcard": "postcard",
    "postcard6x11": "postcard",
    "letter": "letter",
    "windowlessletter": "letter",
    "notecard": "notecard",
    "giftcard": "gift card",
    "magnacard": "magnacard",
}


@dataclass(frozen=True, slots=True)
class Scanned:
    """A piece whose code was scanned: how often by this news, and how often so far."""

    item_id: int
    name: str | None
    city: str | None
    province: str | None
    scans: int
    so_far: int
    last_at: datetime

    @property
    def who(self) -> str:
        return one_line(self.name or "", most=LONGEST_NAME) or "Someone"

    @property
    def where(self) -> str:
        parts = (one_line(part or "", most=LONGEST_NAME) for part in (self.city, self.province))
        return ", ".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class News:
    """The scans of one order of which somebody has not heard; `named` are the first pieces of them."""

    order_id: int
    type: str
    scans: int
    pieces: int
    first_at: datetime
    last_at: datetime
    order_scans: int
    order_multi_scans: int
    named: Sequence[Scanned]

    @property
    def piece(self) -> str:
        return PIECES.get(self.type, "piece")


def subject(news: News) -> str:
    if news.scans == 1:
        return f"{news.named[0].who} scanned your {news.piece}"
    return f"{news.scans:,} scans of your {news.piece} (order {news.order_id})"


def letter(news: News, *, zone: tzinfo) -> str:
    return _of_one(news, zone) if news.scans == 1 else _of_many(news, zone)


def text_message(news: News) -> str:
    who = ", ".join(filter(None, (news.named[0].who, news.named[0].where.replace(",", ""))))
    order = f"your {news.piece} (order {news.order_id})"
    if news.scans == 1:
        return f"{who}, scanned {order}. {_so_far(news.named[0])}"
    others = f" and {news.pieces - 1:,} more" if news.pieces > 1 else ""
    return f"{news.scans:,} scans of {order}: {who}{others}. {news.order_scans:,} in all."


def _of_one(news: News, zone: tzinfo) -> str:
    one = news.named[0]
    place = f" in {one.where}" if one.where else ""
    return (
        f"{one.who}{place} scanned the QR code on your {news.piece} on {_moment(news.last_at, zone)}.\n\n"
        f"{_so_far(one)} It is piece {one.item_id} of order {news.order_id}, which has "
        f"{_times(news.order_scans)} in all."
    )


def _of_many(news: News, zone: tzinfo) -> str:
    first, last = _moment(news.first_at, zone), _moment(news.last_at, zone)
    between = f"on {last}" if first == last else f"between {first} and {last}"
    pieces = "one piece" if news.pieces == 1 else f"{news.pieces:,} pieces"
    lines = [
        f"- {', '.join(filter(None, (each.who, each.where)))}: {_times(each.scans)}, "
        f"{'last ' if each.scans > 1 else ''}on {_short_moment(each.last_at, zone)}"
        for each in news.named
    ]
    if news.pieces > len(news.named):
        lines.append(f"- and {news.pieces - len(news.named):,} more")
    multi = news.order_multi_scans
    more = f"{multi:,} of its pieces {'was' if multi == 1 else 'were'} scanned more than once"
    return (
        f"The QR code on your {news.piece} was scanned {news.scans:,} times, on {pieces}, {between}:\n\n"
        + "\n".join(lines)
        + f"\n\nOrder {news.order_id} has {_times(news.order_scans)} in all"
        + (f"; {more}." if multi else ".")
    )


def _so_far(one: Scanned) -> str:
    if one.so_far <= 1:
        return "This is its first scan."
    return f"It was scanned {one.so_far:,} times so far."


def _times(count: int) -> str:
    return "1 scan" if count == 1 else f"{count:,} scans"


def _moment(at: datetime, zone: tzinfo) -> str:
    local = at.astimezone(zone)
    return f"{local:%B} {local.day}, {local.year}, at {local:%H:%M} {local.tzname()}"


def _short_moment(at: datetime, zone: tzinfo) -> str:
    """Where the year and the zone have been told."""
    local = at.astimezone(zone)
    return f"{local:%B} {local.day} at {local:%H:%M}"
