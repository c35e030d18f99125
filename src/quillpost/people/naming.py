"""What somebody is called."""

from datetime import datetime

import sqlalchemy as sa

from quillpost.database import Tx
from quillpost.database.people_tables import people
from quillpost.kit.errors import Invalid
from quillpost.kit.text import one_line

LONGEST_NAME = 100


def plain(name: str) -> str:
    """As it is kept: one line."""
    return one_line(name, most=LONGEST_NAME + 1)


def fault_of(name: str) -> str | None:
    """What is wrong with a plain name, in a sentence."""
    if not name:
        return "Give your name."
    if len(name) > LONGEST_NAME:
        return f"A name has at most {LONGEST_NAME} characters."
    return None


def rename(tx: Tx, person_id: int, name: str, *, now: datetime) -> None:
    """`Invalid` (name) for none, or one that is too long. Takes the worker's transaction."""
    called = plain(name)
    if fault := fault_of(called):
        raise Invalid({"name": [fault]})
    tx.execute(sa.update(people).where(people.c.id == person_id).values(name=called, updated_at=now))
