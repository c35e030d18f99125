"""A page as its reader has it: its words, and what it says beside the fields of a form."""

import re
from html import unescape

from httpx2 import Response

TAGS = re.compile(r"<[^>]+>")
FIELD_ERROR = re.compile(r'id="([\w-]+?)-fault\d*"[^>]*>([^<]*)')


def source_of(page: Response | str) -> str:
    return page if isinstance(page, str) else page.text


def page_text(page: Response | str) -> str:
    """A page's words as one line."""
    source = source_of(page)
    return " ".join(unescape(TAGS.sub(" ", source[max(source.find("<body"), 0) :])).split())


def form_errors(page: Response | str) -> dict[str, str]:
    """By field, what is wrong with it."""
    found: dict[str, str] = {}
    for field, words in FIELD_ERROR.findall(source_of(page)):
        found[field] = f"{found.get(field, '')} {unescape(words)}".strip()
    return found


def assert_shows(page: Response | str, *words: str, status: int | None = None) -> None:
    """All these words; and, if one is given, under this status."""
    text = source_of(page)
    assert status is None or (isinstance(page, Response) and page.status_code == status), page
    missing = [each for each in words if each not in text]
    assert missing == [], page_text(text)[:2_000]


def assert_hides(page: Response | str, *words: str) -> None:
    text = source_of(page)
    shown = [each for each in words if each in text]
    assert shown == [], page_text(text)[:2_000]
