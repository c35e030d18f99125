"""What pages of long lists share: pages, spreadsheets, the other mode."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

import sqlalchemy as sa
from fastapi import Response
from fastapi.responses import StreamingResponse

from quillpost.accounts.users.sessions import SignedIn
from quillpost.core.database import Database
from quillpost.core.database.tables.base import orders
from quillpost.core.database.tables.notifications import automations, webhooks
from quillpost.core.paging import PageRequest
from quillpost.web.api.bodies import whole_number
from quillpost.web.api.dependencies import DEFAULT_SIZE, LAST_PAGE

TABLES: Final[Mapping[str, tuple[str, sa.Table]]] = {
    "orders": ("order", orders),
    "webhooks": ("webhook", webhooks),
    "automations": ("automation", automations),
}
PAGE = re.compile(r"/(?P<area>[a-z]+)/(?P<number>[1-9][0-9]{0,17})(?:/|$)")


@dataclass(frozen=True, slots=True)
class OtherMode:
    """What the page is about, and the mode in which it is shown."""

    thing: str
    number: int
    mode: str


def find_in_other_mode(db: Database, who: SignedIn, path: str) -> OtherMode | None:
    """What the page of this path is about, if the reader's account has it in the mode they are not in.

    It is looked up with the reader's own rights, so another account's is not found.
    """
    named = PAGE.match(path)
    if named is None or named["area"] not in TABLES:
        return None
    thing, table = TABLES[named["area"]]
    number = int(named["number"])
    with db.transaction(who.tenant) as tx:
        mode = tx.execute(sa.select(table.c.mode).where(table.c.id == number)).scalar()
    return OtherMode(thing, number, mode) if mode is not None and mode != who.mode else None


def asked_page(page: str, *, per_page: int = DEFAULT_SIZE) -> PageRequest:
    """The page of this number. Whoever asks for something odd gets the first."""
    return PageRequest(min(whole_number(page.strip()) or 1, LAST_PAGE), per_page)


AT_ONCE: Final = 2_000
"""Lines of the file that are read in one transaction, and sent in one piece."""


def csv_file(lines: Iterator[str], name: str) -> Response:
    return StreamingResponse(
        _in_pieces(lines),
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"},
    )


def _in_pieces(lines: Iterator[str]) -> Iterator[str]:
    """Many lines together: each piece costs a step between threads."""
    while piece := "".join(islice(lines, AT_ONCE)):
        yield piece
