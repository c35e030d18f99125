"""A page, read as a browser would: what it names, and what it would fetch."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Self


@dataclass
class ParsedPage(HTMLParser):
    """Ids, addresses that tags point to, attributes and words of a page."""

    ids: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    attributes: set[str] = field(default_factory=set)
    inline_code: list[str] = field(default_factory=list)
    words: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self._open, self._texts = "", list[str]()

    @classmethod
    def of(cls, page: str) -> Self:
        seen = cls()
        seen.feed(page)
        seen.close()
        seen.words = "".join(seen._texts)
        return seen

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = tag
        for name, value in attrs:
            self.attributes.add(name)
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src", "srcset", "action", "data", "poster"):
                self.addresses.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open in ("script", "style") and data.strip():
            self.inline_code.append(data)
        self._texts.append(data)
