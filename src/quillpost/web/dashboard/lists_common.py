"""What pages of long lists share: pages, spreadsheets, the other mode."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

import sqlalchemy as sa
from fastapi import Response
from fastapi.responses import StreamingResponse

from quillpost.accounts.users.sessions import SignedInUser
from quillpost.core.database import Database
from quillpost.core.database.tables.base import orders
from quillpost.core.database.tables.notifications import automations, webhooks
from quillpost.core.paging import PageRequest
from quillpost.web.api.bodies import parse_digits
from quillpost.web.api.dependencies import DEFAULT_PAGE_SIZE, MAX_PAGE

TABLES_BY_AREA: Final[Mapping[str, tuple[str, sa.Table]]] = {
    "orders": ("order", orders),
    "webhooks": ("webhook", webhooks),
    "automations": ("automation", automations),
}
DETAIL_PATH_PATTERN = re.compile(r"/(?P<area>[a-z]+)/(?P<number>[1-9][0-9]{0,17})(?:/|$)")


@dataclass(frozen=True, slots=True)
class OtherMode:
    """What the page is about, and the mode in which it is shown."""

    resource: str
    number: int
    mode: str


def find_in_other_mode(db: Database, user: SignedInUser, path: str) -> OtherMode | None:
    """What the page of this path is about, if the reader's account has it in the mode they are not in.

    It is looked up with the reader's own rights, so another account's is not found.
    """
    match = DETAIL_PATH_PATTERN.match(path)
    if match is None or match["area"] not in TABLES_BY_AREA:
        return None
    thing, table = TABLES_BY_AREA[match["area"]]
    number = int(match["number"])
    with db.transaction(user.tenant) as tx:
        mode = tx.execute(sa.select(table.c.mode).where(table.c.id == number)).scalar()
    return OtherMode(thing, number, mode) if mode is not None and mode != user.mode else None


def parse_page(page: str, *, per_page: int = DEFAULT_PAGE_SIZE) -> PageRequest:
    """The page of this number. Whoever asks for something odd gets the first."""
    return PageRequest(min(parse_digits(page.strip()) or 1, MAX_PAGE), per_page)


CSV_CHUNK_LINES: Final = 2_000
"""Lines of the file that are read in one transaction, and sent in one piece."""


def csv_response(lines: Iterator[str], file_name: str) -> Response:
    return StreamingResponse(
        _join_chunks(lines),
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{file_name}"', "Cache-Control": "no-store"},
    )


def _join_chunks(lines: Iterator[str]) -> Iterator[str]:
    """Many lines together: each piece costs a step between threads."""
    while chunk := "".join(islice(lines, CSV_CHUNK_LINES)):
        yield chunk
