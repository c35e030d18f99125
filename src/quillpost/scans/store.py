"""Queries of scans as they come in, in the driver's own words: a statement that is put together anew for each
handful of scans would cost more than all the rest."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

import orjson
import psycopg

from quillpost.composition.content import Addressee, Sender
from quillpost.orders import look
from quillpost.scans.rules import Kind

# One text for all of them: the driver writes arrays value by value, which costs ten times as much.
KEEP = """
    insert into visit_inbox (item_id, at, kind, agent)
    select (row ->> 0)::bigint, (row ->> 1)::timestamptz, row ->> 2, row ->> 3
      from json_array_elements(%s::json) row
"""

_WORDS = (
    "name", "company", "address", "address2", "city", "province", "postal_code", "country", "email", "phone",
    "dob", "anniversary",
)  # fmt: skip
_CUSTOM = [f"i.custom{n}" for n in range(1, 11)]

LOOK_UP = f"""
    select i.code, i.id, i.created_at, o.qrcode_url, array[o.sender_name, o.sender_company],
           array[{", ".join(f"i.{word}::text" for word in _WORDS)}],
           array[{", ".join(_CUSTOM)}]
      from items i join orders o on o.id = i.order_id
     where i.code = any(%s) and o.qrcode_url is not null
"""


class Coming(NamedTuple):
    """A scan that is not yet counted."""

    item_id: int
    at: datetime
    kind: Kind
    agent: str


class Lead(NamedTuple):
    """Where a piece's code leads, and since when there is such a piece."""

    code: str
    item_id: int
    url: str
    made_at: datetime


def look_up(connection: psycopg.Connection, codes: Iterable[str]) -> Iterator[Lead]:
    """Those of the codes that are on a piece, each with the sender's page in the recipient's words."""
    for code, item_id, made_at, url, sender, words, custom in connection.execute(LOOK_UP, [list(codes)]):
        whom = Addressee(**dict(zip(_WORDS, words, strict=True)), custom=tuple(custom))
        yield Lead(code, item_id, look.qr_destination(url, whom, Sender(*sender)), made_at)


def keep(connection: psycopg.Connection, coming: Sequence[Coming]) -> None:
    connection.execute(KEEP, [orjson.dumps([tuple(one) for one in coming]).decode()])
