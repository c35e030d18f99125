"""What no send to many can do without: reading the body, laying out, judging addresses, storing rows."""

from collections.abc import Callable
from typing import Any, NotRequired

import orjson
import psycopg
from psycopg import sql
from pydantic import TypeAdapter
from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from benchmarks.send.service import Service
from quillpost.recipients.rules import validate_recipients
from quillpost.rendering.models import PEN_COLORS, Addressee, Design


class _Recipient(TypedDict):
    name: str
    company: NotRequired[str]
    address: str
    address2: NotRequired[str]
    city: str
    province: str
    postal_code: str
    country: NotRequired[str]


class _Body(TypedDict):
    recipients: list[_Recipient]
    message: str
    image_template_id: int


_BODY: TypeAdapter[_Body] = TypeAdapter(_Body)


def decoding(body: bytes) -> Callable[[], object]:
    return lambda: _BODY.validate_python(orjson.loads(body))


def layout(service: Service, body: bytes) -> Callable[[], object]:
    """The layout core on everyone's message and address."""
    given = orjson.loads(body)
    design = Design("postcard-4x6", given["message"], PEN_COLORS["blue"].ink)
    addressees = [Addressee(**person) for person in given["recipients"]]
    return lambda: service.parts.renderer.find_misfits(design, addressees, qr=False)


def standardisation(body: bytes) -> Callable[[], object]:
    people = orjson.loads(body)["recipients"]
    return lambda: validate_recipients(people)


def copying(service: Service, order_id: int) -> Callable[[], object]:
    """The rows of that order's items once more, by COPY into the very table, committed."""
    connection = psycopg.connect(service.conninfo)
    found = connection.execute("select * from items where order_id = %s order by id", (order_id,))
    columns = [column.name for column in found.description or ()]
    kept = [place for place, name in enumerate(columns) if name not in ("id", "code")]
    rows: list[list[Any]] = [[row[place] for place in kept] for row in found]
    names = sql.SQL(", ").join(sql.Identifier(columns[place]) for place in kept)
    copy_items = sql.SQL("copy items ({}) from stdin").format(names)
    connection.commit()

    def copy_all() -> None:
        with connection.cursor() as cursor, cursor.copy(copy_items) as copy:
            for row in rows:
                copy.write_row(row)
        connection.commit()

    return copy_all
