"""Who opens the address of a printed code: a person, or a machine that looks at it for one or for nobody."""

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Literal, cast

Kind = Literal["person", "bot", "preview"]

CODE = re.compile(r"[A-Za-z0-9]{6,12}")
"""What can be a code. Those of today have eight; nobody has to ask the database about anything else."""

LONGEST_AGENT = 200

BROWSERS = ("mozilla/", "opera/")
"""What every browser calls itself first, for reasons of history. A program that says nothing, or its own
name alone, is none."""

# CUBOT makes phones.
MACHINE_WORDS = re.compile(r"(?<!cu)bot(?![a-z])|crawl|spider")

AHEAD_OF_TIME = ("purpose", "sec-purpose", "x-purpose", "x-moz")
"""Headers in which a browser says that it only prepares for somebody who may come."""

HINTS = (*AHEAD_OF_TIME, "sec-fetch-mode", "sec-fetch-dest")


def _signs() -> list[tuple[str, Kind]]:
    lines = files("quillpost.fulfillment.qr_scans").joinpath("agents.csv").read_text().splitlines()
    rows = [line.rpartition(",") for line in lines if not line.startswith("#")]
    return [(sign, cast(Kind, kind)) for sign, _, kind in rows[1:]]


SIGNS = _signs()


def kind_of(agent: str, hints: Mapping[str, str]) -> Kind:
    """`hints` are those of the headers `HINTS` that came, by their names."""
    kind = kind_of_agent(agent)
    return "preview" if kind == "person" and hints and not _is_visit(hints) else kind


@lru_cache(maxsize=4_096)
def kind_of_agent(agent: str) -> Kind:
    name = agent.strip().lower()
    for sign, kind in SIGNS:
        if sign in name:
            return kind
    return "person" if name.startswith(BROWSERS) and not MACHINE_WORDS.search(name) else "bot"


def _is_visit(hints: Mapping[str, str]) -> bool:
    """Whether somebody goes there now, and it is not a part of another page that is loaded."""
    if any(word in hints.get(name, "").lower() for name in AHEAD_OF_TIME for word in ("prefetch", "preview")):
        return False
    going = hints.get("sec-fetch-mode", "navigate"), hints.get("sec-fetch-dest", "document")
    return going == ("navigate", "document")


def shown_agent(agent: str) -> str:
    """As much of the agent's name as is kept, without what cannot be stored or seen."""
    short = agent[:LONGEST_AGENT]
    return short if short.isprintable() else "".join(filter(str.isprintable, short))
