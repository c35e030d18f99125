"""The audit log as people read it: a sentence a line, or a table for a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from quillpost.accounts.audit.service import ACTS, APP, Entry
from quillpost.core.clock import iso

WHAT = ("name", "email", "title", "amount")
"""What something was done to is called by one of these; the other words say more about it."""
PLAIN = ("mode", "role", "sub_account")
"""Of those, words that speak for themselves."""
UNSAID = ("id",)
"""For whoever looks things up."""
COLUMNS = ("id", "at", "actor", "act", "about", "sub_account_id", "network")
FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def told(entry: Entry) -> str:
    """Who did what, to what: `dana@example.com made a token: Zapier (live)`. Whoever did it to themselves is
    named once."""
    done = f"{entry.actor} {ACTS.get(entry.act, entry.act)}"
    itself = {
        key: value for key, value in entry.about.items() if entry.actor in (value, APP.format(name=value))
    }
    what, more = _parted({key: value for key, value in entry.about.items() if key not in itself})
    return done + (f": {what}" if what else "") + (f" ({more})" if more else "")


def about_in_words(about: Mapping[str, Any]) -> str:
    what, more = _parted(about)
    return f"{what} ({more})" if what and more else what or more


def _parted(about: Mapping[str, Any]) -> tuple[str, str]:
    """What it was done to, and more about that."""
    said = {key: value for key, value in about.items() if key not in UNSAID and value not in (None, "")}
    what = ", ".join(_shown(said.pop(key)) for key in WHAT if key in said)
    plain = [_shown(said.pop(key)) for key in PLAIN if key in said]
    return what, ", ".join(plain + [f"{key.replace('_', ' ')}: {_shown(said[key])}" for key in sorted(said)])


def csv_rows(entries: Iterable[Entry]) -> Iterator[str]:
    """Lines of a CSV file, the header first. No cell is a formula to a spreadsheet that opens it."""
    yield _line(COLUMNS)
    for entry in entries:
        about = about_in_words(entry.about)
        yield _line(
            (entry.id, iso(entry.at), entry.actor, entry.act, about, entry.sub_account_id, entry.network)
        )


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _line(cells: Iterable[object]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow(_harmless("" if cell is None else str(cell)) for cell in cells)
    return out.getvalue()


def _harmless(cell: str) -> str:
    return f"'{cell}" if cell.startswith(FORMULAS) else cell
