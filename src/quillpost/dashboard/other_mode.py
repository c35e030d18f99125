"""A page of something in the account's other mode: the reader is told so, and switches with a button."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from quillpost.database import Database
from quillpost.database.event_tables import automations, webhooks
from quillpost.database.tables import orders
from quillpost.people.sessions import SignedIn

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
