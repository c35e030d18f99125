"""The map of where an order's items are, over `states.svg` (see `tools/draw_states.py`).

At most 5,000 items are read, in runs spread evenly over the order: a million cost no more.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import cos, radians, sin, sqrt
from typing import Any, Final

import sqlalchemy as sa
from fastapi import APIRouter, Response

from quillpost.core.cache import SharedCache
from quillpost.core.database import Tx
from quillpost.orders import queries as order_queries
from quillpost.orders.items.service import WAS_MAILED_SQL
from quillpost.orders.rules import ItemStatus
from quillpost.recipients.addresses.cities import ZIP_PATTERN, find_zip_area
from quillpost.recipients.addresses.rules import HOME_COUNTRY
from quillpost.web.dashboard.responses import PathId, UserContext
from quillpost.web.sessions import is_fragment

MAP_WIDTH: Final = 975
MAP_HEIGHT: Final = 610
_SCALE, _CENTER = 1300.0, (487.5, 305.0)

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class ConicProjection:
    """Equal-area, onto a cone that touches the Earth at two parallels. `center`, in degrees from `meridian` and the
    equator, is drawn at `origin`."""

    parallels: tuple[float, float]
    meridian: float
    center: tuple[float, float]
    origin: Point
    scale: float

    def project(self, latitude: float, longitude: float) -> Point:
        x, y = self._project_unit(longitude - self.meridian, latitude)
        center_x, center_y = self._project_unit(*self.center)
        return self.origin[0] + self.scale * (x - center_x), self.origin[1] - self.scale * (y - center_y)

    def _project_unit(self, east: float, north: float) -> Point:
        first_sine, second_sine = (sin(radians(parallel)) for parallel in self.parallels)
        n = (first_sine + second_sine) / 2
        c = 1 + first_sine * (2 * n - first_sine)
        radius = sqrt(c - 2 * n * sin(radians(north))) / n
        angle = n * radians(east)
        return radius * sin(angle), sqrt(c) / n - radius * cos(angle)


def _inset(right: float, down: float) -> Point:
    return _CENTER[0] + right * _SCALE, _CENTER[1] + down * _SCALE


_MAINLAND: Final = ConicProjection((29.5, 45.5), -96, (-0.6, 38.7), _CENTER, _SCALE)
_ALASKA: Final = ConicProjection((55, 65), -154, (-2, 58.5), _inset(-0.307, 0.201), _SCALE * 0.35)
_HAWAII: Final = ConicProjection((8, 18), -157, (-3, 19.9), _inset(-0.205, 0.212), _SCALE)


def project_to_map(latitude: float, longitude: float) -> Point | None:
    """None where the map does not reach, such as Puerto Rico and Guam."""
    if 50 < latitude < 72 and (longitude < -129 or longitude > 170):
        return _ALASKA.project(latitude, longitude if longitude < 0 else longitude - 360)
    if 18 < latitude < 23 and -161 < longitude < -154:
        return _HAWAII.project(latitude, longitude)
    if 24 < latitude < 50 and -125 < longitude < -66:
        return _MAINLAND.project(latitude, longitude)
    return None


MAX_ITEMS_SAMPLED: Final = 5_000
SAMPLE_RUNS: Final = 250
CELL_SIZE: Final = 9
"""Items this near, in units of the map, are one circle."""
MAX_CIRCLES: Final = 500
MIN_RADIUS, MAX_RADIUS = 4.0, 26.0
MAX_TOWNS: Final = 12
ENDS_WITH_ZIP: Final = re.compile(r"([0-9]{5})(?:-[0-9]{4})?\Z")

LOST_STATUS: Final = "Lost"
"""Failed after it was mailed."""

# A carrier's last word is asked for only where it is the place that counts, and what a piece was before only
# of those that failed.
GROUPED_ITEMS_SQL = f"""
    select status, country, zip, place, count(*) as n from (
        select case when p.status = 'Failed' and exists (
                             select from facts where item_id = p.id and kind = 'item.status'
                                and current = 'Failed' and {WAS_MAILED_SQL})
                    then '{LOST_STATUS}' else p.status end as status,
               p.country, left(p.postal_code, 5) as zip,
               case when p.status in ('In Transit', 'In Local Area', 'Processed for Delivery', 'Re-routed',
                                      'Returned to Sender')
                    then (select f.place from facts f
                           where f.item_id = p.id and f.kind = 'item.status' and f.place is not null
                           order by f.id desc limit 1) end as place
          from picked p) found
     group by 1, 2, 3, 4
"""
ALL_ITEMS_SQL = sa.text(
    f"""
    with picked as (select id, status, country, postal_code from items where order_id = :order_id)
    {GROUPED_ITEMS_SQL}
    """
)
SAMPLED_ITEMS_SQL = sa.text(
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
    {GROUPED_ITEMS_SQL}
    """
)


class MapGroup(StrEnum):
    IN_TRANSIT = "On the way"
    DELIVERED = "Delivered"
    RETURNED = "Came back"

    @property
    def color(self) -> str:
        """The status whose color it has."""
        colors = {MapGroup.IN_TRANSIT: "in-transit", MapGroup.DELIVERED: "delivered"}
        return colors.get(self, "returned-to-sender")


_S = ItemStatus
GROUP_BY_STATUS: Final[Mapping[str, MapGroup]] = {
    _S.IN_TRANSIT: MapGroup.IN_TRANSIT,
    _S.IN_LOCAL_AREA: MapGroup.IN_TRANSIT,
    _S.PROCESSED_FOR_DELIVERY: MapGroup.IN_TRANSIT,
    _S.RE_ROUTED: MapGroup.IN_TRANSIT,
    _S.DELIVERED: MapGroup.DELIVERED,
    _S.RETURNED_TO_SENDER: MapGroup.RETURNED,
}
AT_ADDRESS_STATUSES: Final = (_S.DELIVERED, _S.IN_LOCAL_AREA, _S.PROCESSED_FOR_DELIVERY)
"""At or near the address, where no carrier names a place."""
OFF_MAP_LABELS: Final[Mapping[str, str]] = {
    _S.PROCESSING: "not mailed yet",
    _S.PRINTED: "printed, and not scanned by the mail yet",
    _S.FAILED: "not mailed",
    LOST_STATUS: "lost in the mail",
}
UNKNOWN_LOCATION_LABEL, OUTSIDE_MAP_LABEL = "somewhere that the mail has not told", "outside this map"


@dataclass(frozen=True, slots=True)
class MapCircle:
    x: float
    y: float
    radius: float
    group: MapGroup
    label: str


@dataclass(frozen=True, slots=True)
class MapTown:
    name: str
    counts: dict[MapGroup, int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass(slots=True)
class OrderMap:
    """`off_map_counts` are items without a circle, by label."""

    sampled_count: int
    circles: list[MapCircle] = field(default_factory=list)
    towns: list[MapTown] = field(default_factory=list)
    off_map_counts: dict[str, int] = field(default_factory=dict)

    @property
    def memory_size(self) -> int:
        """An estimate, in bytes."""
        return 500 + 200 * (len(self.circles) + len(self.towns))


def read_order_map(tx: Tx, order_id: int, *, item_count: int) -> OrderMap:
    params: dict[str, Any] = {"order_id": order_id}
    if item_count <= MAX_ITEMS_SAMPLED:
        return build_order_map(tx.execute(ALL_ITEMS_SQL, params))
    return build_order_map(
        tx.execute(SAMPLED_ITEMS_SQL, params | {"runs": SAMPLE_RUNS, "each": MAX_ITEMS_SAMPLED // SAMPLE_RUNS})
    )


def build_order_map(rows: Iterable[Any]) -> OrderMap:
    """From rows of status or `LOST_STATUS`, country, ZIP code, the carrier's last place, and count."""
    looked_at = 0
    cells: dict[tuple[int, int, MapGroup], _MapCell] = {}
    towns: dict[str, Counter[MapGroup]] = {}
    elsewhere: Counter[str] = Counter()
    for status, country, item_zip, carrier_location, n in rows:
        looked_at += n
        group, point = GROUP_BY_STATUS.get(status), None
        if group is None:
            elsewhere[OFF_MAP_LABELS[status]] += n
            continue
        zip_code = _find_zip(ItemStatus(status), country, item_zip, carrier_location)
        zip_location = find_zip_area(zip_code) if zip_code else None
        if zip_location is not None:
            towns.setdefault(f"{zip_location.city}, {zip_location.state}", Counter())[group] += n
            if zip_location.latitude is not None and zip_location.longitude is not None:
                point = project_to_map(zip_location.latitude, zip_location.longitude)
        if point is None:
            elsewhere[
                UNKNOWN_LOCATION_LABEL if country == HOME_COUNTRY and zip_location is None else OUTSIDE_MAP_LABEL
            ] += n
            continue
        cell = cells.setdefault((int(point[0] // CELL_SIZE), int(point[1] // CELL_SIZE), group), _MapCell())
        assert zip_location is not None
        cell.add(*point, f"{zip_location.city}, {zip_location.state}", n)
    return OrderMap(looked_at, _build_circles(cells), _top_towns(towns), dict(elsewhere))


@dataclass(slots=True)
class _MapCell:
    """Its center is that of its items."""

    x: float = 0.0
    y: float = 0.0
    n: int = 0
    names: Counter[str] = field(default_factory=Counter)

    def add(self, x: float, y: float, name: str, n: int) -> None:
        self.x, self.y, self.n = self.x + x * n, self.y + y * n, self.n + n
        self.names[name] += n


def _find_zip(status: ItemStatus, country: str, item_zip: str | None, carrier_location: str | None) -> str | None:
    match = ENDS_WITH_ZIP.search(carrier_location) if carrier_location else None
    if match:
        return match[1]
    if (
        status not in AT_ADDRESS_STATUSES
        or country != HOME_COUNTRY
        or item_zip is None
        or not ZIP_PATTERN.fullmatch(item_zip)
    ):
        return None
    return item_zip


def _build_circles(cells: dict[tuple[int, int, MapGroup], _MapCell]) -> list[MapCircle]:
    """The largest first, so that none hides another."""
    largest_count = max((cell.n for cell in cells.values()), default=1)
    largest_cells = sorted(cells.items(), key=lambda each: -each[1].n)[:MAX_CIRCLES]
    return [
        MapCircle(
            x=round(cell.x / cell.n, 1),
            y=round(cell.y / cell.n, 1),
            radius=round(
                MIN_RADIUS
                + (MAX_RADIUS - MIN_RADIUS) * sqrt(cell.n / largest_count) * min(1, sqrt(largest_count / 20)),
                1,
            ),
            group=group,
            label=_circle_label(cell, group),
        )
        for (_, _, group), cell in largest_cells
    ]


def _circle_label(cell: _MapCell, group: MapGroup) -> str:
    town = cell.names.most_common(1)[0][0]
    suffix = " and around" if len(cell.names) > 1 else ""
    return f"{town}{suffix}: {cell.n:,} {group.value.lower()}"


def _top_towns(counts_by_town: dict[str, Counter[MapGroup]]) -> list[MapTown]:
    all_towns = [MapTown(name, dict(counts)) for name, counts in counts_by_town.items()]
    return sorted(all_towns, key=lambda town: (-town.total, town.name))[:MAX_TOWNS]


router = APIRouter(include_in_schema=False)

CACHE_BYTES = 8_000_000

MapCache = SharedCache[tuple[int, tuple[int, ...]], OrderMap]


def new_map_cache() -> MapCache:
    """By order and how many items have which status."""
    return SharedCache(max_size=CACHE_BYTES, size_of=lambda order_map: order_map.memory_size)


@router.get("/orders/{order_id}/map")
def map_page(context: UserContext, order_id: PathId) -> Response:
    cache: MapCache = context.request.app.state.order_map_cache
    with context.transaction() as tx:
        order = order_queries.read_order(tx, order_id)
        status_counts = tuple(order.status_counts.values())
        order_map = cache.get(
            (order.id, status_counts), lambda: read_order_map(tx, order.id, item_count=sum(status_counts))
        )
    return context.render(
        "orders/map_fragment.html" if is_fragment(context.request) else "orders/map.html",
        order=order,
        order_map=order_map,
        item_count=sum(status_counts),
        groups=list(MapGroup),
        size=(MAP_WIDTH, MAP_HEIGHT),
    )
