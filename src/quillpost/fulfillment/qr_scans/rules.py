"""Classifies who opens the URL of a printed code: a person, a bot or a preview."""

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Literal, cast

VisitorKind = Literal["person", "bot", "preview"]
CODE_PATTERN = re.compile(r"[A-Za-z0-9]{6,12}")  # anything else needs no lookup
MAX_AGENT_LENGTH = 200
BROWSER_PREFIXES = ("mozilla/", "opera/")
"""Every browser starts with one of these; a program with only its own name is not a browser."""

# CUBOT makes phones.
BOT_PATTERN = re.compile(r"(?<!cu)bot(?![a-z])|crawl|spider")
PREFETCH_HEADERS = ("purpose", "sec-purpose", "x-purpose", "x-moz")  # set by a browser that prefetches
HINT_HEADERS = (*PREFETCH_HEADERS, "sec-fetch-mode", "sec-fetch-dest")


def _load_agent_signatures() -> list[tuple[str, VisitorKind]]:
    lines = files("quillpost.fulfillment.qr_scans").joinpath("agents.csv").read_text().splitlines()
    rows = [line.rpartition(",") for line in lines if not line.startswith("#")]
    return [(signature, cast(VisitorKind, kind)) for signature, _, kind in rows[1:]]


AGENT_SIGNATURES = _load_agent_signatures()


def classify_visitor(agent: str, hints: Mapping[str, str]) -> VisitorKind:
    """`hints` are the request's `HINT_HEADERS`."""
    kind = classify_agent(agent)
    return "preview" if kind == "person" and hints and not _is_visit(hints) else kind


@lru_cache(maxsize=4_096)
def classify_agent(agent: str) -> VisitorKind:
    name = agent.strip().lower()
    for signature, kind in AGENT_SIGNATURES:
        if signature in name:
            return kind
    return "person" if name.startswith(BROWSER_PREFIXES) and not BOT_PATTERN.search(name) else "bot"


def _is_visit(hints: Mapping[str, str]) -> bool:
    """Whether this is a navigation, not a prefetch or a part of another page."""
    if any(purpose in hints.get(name, "").lower() for name in PREFETCH_HEADERS for purpose in ("prefetch", "preview")):
        return False
    fetch = hints.get("sec-fetch-mode", "navigate"), hints.get("sec-fetch-dest", "document")
    return fetch == ("navigate", "document")


def printable_agent(agent: str) -> str:
    truncated = agent[:MAX_AGENT_LENGTH]
    return truncated if truncated.isprintable() else "".join(filter(str.isprintable, truncated))
