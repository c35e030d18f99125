"""The map of where an order's items are.

The parameters are those of the picture `states.svg` (see `tools/draw_states.py`), which is 975 units wide
and 610 high.

At most 5,000 pieces are looked at, in runs that are evenly spread over the order: it costs no more with a
million.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import cos, radians, sin, sqrt
from typing import Any, Final

import sqlalchemy as sa
from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.core.cache import Recent
from quillpost.core.database import Tx
from quillpost.orders import items
from quillpost.orders.rules import ItemStatus
from quillpost.orders.status import WAS_MAILED
from quillpost.recipients.addresses.cities import ZIP, zip_place
from quillpost.recipients.addresses.service import HOME
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.rendering import show
from quillpost.web.sessions import OurParts, Reader, is_fragment

WIDTH: Final = 975
HEIGHT: Final = 610
_SCALE, _MIDDLE = 1300.0, (487.5, 305.0)

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Conic:
    """An equal-area projection onto a cone that touches the Earth at two parallels. `meridian` is straight
    up, and `centre`, in degrees from it and from the equator, comes to lie at `at`."""

    parallels: tuple[float, float]
    meridian: float
    centre: tuple[float, float]
    at: Point
    scale: float

    def point(self, latitude: float, longitude: float) -> Point:
        x, y = self._raw(longitude - self.meridian, latitude)
        middle_x, middle_y = self._raw(*self.centre)
        return self.at[0] + self.scale * (x - middle_x), self.at[1] - self.scale * (y - middle_y)

    def _raw(self, east: float, north: float) -> Point:
        first, second = (sin(radians(parallel)) for parallel in self.parallels)
        n = (first + second) / 2
        c = 1 + first * (2 * n - first)
        radius = sqrt(c - 2 * n * sin(radians(north))) / n
        turn = n * radians(east)
        return radius * sin(turn), sqrt(c) / n - radius * cos(turn)


def _inset(right: float, down: float) -> Point:
    return _MIDDLE[0] + right * _SCALE, _MIDDLE[1] + down * _SCALE


_MAINLAND: Final = Conic((29.5, 45.5), -96, (-0.6, 38.7), _MIDDLE, _SCALE)
_ALASKA: Final = Conic((55, 65), -154, (-2, 58.5), _inset(-0.307, 0.201), _SCALE * 0.35)
_HAWAII: Final = Conic((8, 18), -157, (-3, 19.9), _inset(-0.205, 0.212), _SCALE)


def on_map(latitude: float, longitude: float) -> Point | None:
    """Where on the map this is; None where it is not on it, as Puerto Rico and Guam."""
    if 50 < latitude < 72 and (longitude < -129 or longitude > 170):
        return _ALASKA.point(latitude, longitude if longitude < 0 else longitude - 360)
    if 18 < latitude < 23 and -161 < longitude < -154:
        return _HAWAII.point(latitude, longitude)
    if 24 < latitude < 50 and -125 < longitude < -66:
        return _MAINLAND.point(latitude, longitude)
    return None


MOST: Final = 5_000
RUNS: Final = 250
CELL: Final = 9
"""What is as near as this, in units of the map, is one circle."""
MOST_CIRCLES: Final = 500
SMALLEST, LARGEST = 4.0, 26.0
TOP: Final = 12
ENDS_WITH_ZIP: Final = re.compile(r"([0-9]{5})(?:-[0-9]{4})?\Z")

LOST: Final = "Lost"
"""Failed, and not before it was mailed."""

# A carrier's last word is asked for only where it is the place that counts, and what a piece was before only
# of those that failed.
GROUPED = f"""
    select status, country, zip, place, count(*) as n from (
        select case when p.status = 'Failed' and exists (
                             select from facts where item_id = p.id and kind = 'item.status'
                                and current = 'Failed' and {WAS_MAILED})
                    then '{LOST}' else p.status end as status,
               p.country, left(p.postal_code, 5) as zip,
               case when p.status in ('In Transit', 'In Local Area', 'Processed for Delivery', 'Re-routed',
                                      'Returned to Sender')
                    then (select f.place from facts f
                           where f.item_id = p.id and f.kind = 'item.status' and f.place is not null
                           order by f.id desc limit 1) end as place
          from picked p) found
     group by 1, 2, 3, 4
"""
ALL = sa.text(
    f"""
    with picked as (select id, status, country, postal_code from items where order_id = :order_id)
    {GROUPED}
    """
)
SAMPLED = sa.text(
    f"""
    with ends as (
        select (select min(id) from items where order_id = :order_id) as first,
               (select max(id) from items where order_id = :order_id) as last),
    picked as (
        select distinct p.id, p.status, p.country, p.postal_code
          from ends, generate_series(0, :runs - 1) n,
               lateral (select id, status, country, postal_code from items
                         where order_id = :order_id
                           and id >= ends.first + (ends.last - ends.first) * n / :runs
                         order by id limit :each) p)
    {GROUPED}
    """
)


class Group(StrEnum):
    """What becomes of a piece, in the colours of the map."""

    MOVING = "On the way"
    DELIVERED = "Delivered"
    BACK = "Came back"

    @property
    def colour(self) -> str:
        """The state whose colour it has."""
        return {"On the way": "in-transit", "Delivered": "delivered"}.get(self.value, "returned-to-sender")


_S = ItemStatus
GROUPS: Final[Mapping[str, Group]] = {
    _S.IN_TRANSIT: Group.MOVING,
    _S.IN_LOCAL_AREA: Group.MOVING,
    _S.PROCESSED_FOR_DELIVERY: Group.MOVING,
    _S.RE_ROUTED: Group.MOVING,
    _S.DELIVERED: Group.DELIVERED,
    _S.RETURNED_TO_SENDER: Group.BACK,
}
AT_ITS_ADDRESS: Final = (_S.DELIVERED, _S.IN_LOCAL_AREA, _S.PROCESSED_FOR_DELIVERY)
"""Where no carrier names a place, these are at, or near, the address."""
NOT_ON_IT: Final[Mapping[str, str]] = {
    _S.PROCESSING: "not mailed yet",
    _S.PRINTED: "printed, and not scanned by the mail yet",
    _S.FAILED: "not mailed",
    LOST: "lost in the mail",
}
UNKNOWN_PLACE, ABROAD = "somewhere that the mail has not told", "outside this map"


@dataclass(frozen=True, slots=True)
class Circle:
    x: float
    y: float
    radius: float
    group: Group
    label: str


@dataclass(frozen=True, slots=True)
class Town:
    name: str
    counts: dict[Group, int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass(slots=True)
class Places:
    """`elsewhere` are those that no circle stands for, in words."""

    looked_at: int
    circles: list[Circle] = field(default_factory=list)
    towns: list[Town] = field(default_factory=list)
    elsewhere: dict[str, int] = field(default_factory=dict)

    @property
    def weight(self) -> int:
        """Roughly what it takes in memory."""
        return 500 + 200 * (len(self.circles) + len(self.towns))


def places_of(tx: Tx, order_id: int, *, pieces: int) -> Places:
    """Where this order's pieces are, of which there are so many."""
    asked: dict[str, Any] = {"order_id": order_id}
    if pieces <= MOST:
        return place(tx.execute(ALL, asked))
    return place(tx.execute(SAMPLED, asked | {"runs": RUNS, "each": MOST // RUNS}))


def place(rows: Iterable[Any]) -> Places:
    """From rows of a status or `LOST`, a country, a ZIP code, a carrier's last place, and how many."""
    looked_at = 0
    cells: dict[tuple[int, int, Group], _Cell] = {}
    towns: dict[str, Counter[Group]] = {}
    elsewhere: Counter[str] = Counter()
    for status, country, zip5, told, n in rows:
        looked_at += n
        group, found = GROUPS.get(status), None
        if group is None:
            elsewhere[NOT_ON_IT[status]] += n
            continue
        code = _zip_of(ItemStatus(status), country, zip5, told)
        known = zip_place(code) if code else None
        if known is not None:
            towns.setdefault(f"{known.city}, {known.state}", Counter())[group] += n
            if known.latitude is not None and known.longitude is not None:
                found = on_map(known.latitude, known.longitude)
        if found is None:
            elsewhere[UNKNOWN_PLACE if country == HOME and known is None else ABROAD] += n
            continue
        cell = cells.setdefault((int(found[0] // CELL), int(found[1] // CELL), group), _Cell())
        assert known is not None
        cell.add(*found, f"{known.city}, {known.state}", n)
    return Places(looked_at, _circles(cells), _towns(towns), dict(elsewhere))


@dataclass(slots=True)
class _Cell:
    """A spot of the map: its middle is that of its pieces."""

    x: float = 0.0
    y: float = 0.0
    n: int = 0
    names: Counter[str] = field(default_factory=Counter)

    def add(self, x: float, y: float, name: str, n: int) -> None:
        self.x, self.y, self.n = self.x + x * n, self.y + y * n, self.n + n
        self.names[name] += n


def _zip_of(status: ItemStatus, country: str, zip5: str | None, told: str | None) -> str | None:
    at_carrier = ENDS_WITH_ZIP.search(told) if told else None
    if at_carrier:
        return at_carrier[1]
    if status not in AT_ITS_ADDRESS or country != HOME or zip5 is None or not ZIP.fullmatch(zip5):
        return None
    return zip5


def _circles(cells: dict[tuple[int, int, Group], _Cell]) -> list[Circle]:
    """The largest first, so that none hides another."""
    most = max((cell.n for cell in cells.values()), default=1)
    ordered = sorted(cells.items(), key=lambda each: -each[1].n)[:MOST_CIRCLES]
    return [
        Circle(
            x=round(cell.x / cell.n, 1),
            y=round(cell.y / cell.n, 1),
            radius=round(SMALLEST + (LARGEST - SMALLEST) * sqrt(cell.n / most) * min(1, sqrt(most / 20)), 1),
            group=group,
            label=_label(cell, group),
        )
        for (_, _, group), cell in ordered
    ]


def _label(cell: _Cell, group: Group) -> str:
    town = cell.names.most_common(1)[0][0]
    around = " and around" if len(cell.names) > 1 else ""
    return f"{town}{around}: {cell.n:,} {group.value.lower()}"


def _towns(towns: dict[str, Counter[Group]]) -> list[Town]:
    found = [Town(name, dict(counts)) for name, counts in towns.items()]
    return sorted(found, key=lambda town: (-town.total, town.name))[:TOP]


router = APIRouter(include_in_schema=False)

MOST_BYTES = 8_000_000

Maps = Recent[tuple[int, tuple[int, ...]], Places]


def remembered_maps() -> Maps:
    """Maps that were drawn lately, by their order and how many of its pieces stood where."""
    return Recent(most_bytes=MOST_BYTES, size=lambda places: places.weight)


@router.get("/orders/{order_id}/map")
def map_page(request: Request, order_id: str, who: Reader, parts: OurParts) -> Response:
    """A part of the order's page, or a page by itself."""
    number = id_in_path(order_id)
    maps: Maps = request.app.state.order_maps
    with parts.db.transaction(tenant(who.caller)) as tx:
        order = items.read_order(tx, number)
        stand = tuple(order.tally.values())
        places = maps.get((order.id, stand), lambda: places_of(tx, order.id, pieces=sum(stand)))
    return show(
        request,
        "orders/map_part.html" if is_fragment(request) else "orders/map.html",
        who=who,
        order=order,
        places=places,
        pieces=sum(stand),
        groups=list(Group),
        size=(WIDTH, HEIGHT),
    )
