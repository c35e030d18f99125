"""The nearest addresses to a point: ours against PostGIS where it is installed, and a bare index scan.

`python -m benchmarks.audience.radius` runs it alone. QUILLPOST_BENCH_POINTS makes it small, to try it.
"""

import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from quillpost.app.runtime import upgrade_database
from quillpost.core.database import Database, Tx, driver_connection
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.recipients.leads.queries import TagFilters, find_nearest, read_cells, read_density
from quillpost.recipients.leads.rules import Floats, Integers, compute_distances, find_cells, find_cells_within

POINTS = int(os.environ.get("QUILLPOST_BENCH_POINTS", "5000000"))
CENTRES = 200
ROUNDS = {100: 200, 10_000: 40}
"""How often each contender is asked, by how many are wanted."""
LIMIT = 1.2
ALL = TagFilters()

_COLUMNS = (
    "id", "source_id", "grid", "latitude", "longitude", "tags", "address_key", "address", "country",
    "deliverability", "reasons",
)  # fmt: skip
_COUNT = """
    insert into lead_density
    select grid / 36000 / 10 * 3600 + grid % 36000 / 10, count(*) from leads group by 1
"""
_BARE = """
    select l.latitude, l.longitude, l.id
      from unnest(%s::integer[], %s::integer[]) as run (first, last)
      join leads l on l.grid between run.first and run.last
"""
_POSTGIS = """
    select id from leads
     order by geography(st_makepoint(longitude, latitude)) <-> geography(st_makepoint(%s, %s)) limit %s
"""


def measure(points: int = POINTS) -> dict[str, Any]:
    """What the table shows: medians in milliseconds and ratios, and whether all equals brute force."""
    with _server() as conninfo:
        latitudes, longitudes = some_points(points)
        loaded = _load(conninfo, latitudes, longitudes)
        has_postgis = _postgis(conninfo)
        db = Database(conninfo, has_own_logins=True)
        try:
            with db.anonymous_transaction() as tx:
                found = {
                    f"N={count:,}": _raced(tx, count, rounds, has_postgis=has_postgis)
                    for count, rounds in ROUNDS.items()
                }
                equal = _equal_to_brute_force(tx, latitudes, longitudes)
        finally:
            db.close()
    rival = "PostGIS" if has_postgis else "bare index scan"
    claims = [
        {
            "claim": f"{name} of {points:,} points: at most {LIMIT} times {rival}",
            "measured": f"{each['ratio']:.2f} times",
            "holds": each["ratio"] <= LIMIT,
        }
        for name, each in found.items()
    ]
    claims.append(
        {
            "claim": f"the same as brute force around {CENTRES} centres, antimeridian and poles among them",
            "measured": f"{equal} of {CENTRES}",
            "holds": equal == CENTRES,
        }
    )
    return {"points": points, "loaded in seconds": loaded, "rival": rival, **found, "claims": claims}


def some_points(count: int) -> tuple[Floats, Floats]:
    """Towns and fields of a country, both sides of the antimeridian, the poles, and a few anywhere."""
    chance = np.random.default_rng(5)
    towns = np.column_stack([chance.uniform(26, 48, 400), chance.uniform(-123, -70, 400)])
    far = np.array([[52.0, 179.98], [-16.9, -179.95], [89.95, 20.0], [-89.95, -80.0]])
    size = chance.pareto(1.2, len(towns)) + 0.2
    share = np.concatenate([size / size.sum() * 0.68, np.full(len(far), 0.005)])
    each = chance.multinomial(int(count * 0.7), share / share.sum())
    middles = np.repeat(np.concatenate([towns, far]), each, axis=0)
    spread = chance.normal(0, 0.12, middles.shape)
    fields = int(count * 0.29)
    rest = count - len(middles) - fields
    latitudes = np.concatenate(
        [
            (middles + spread)[:, 0].clip(-90, 90),
            chance.uniform(26, 48, fields),
            np.degrees(np.arcsin(chance.uniform(-1, 1, rest))),
        ]
    )
    longitudes = np.concatenate(
        [
            ((middles + spread)[:, 1] + 540) % 360 - 180,
            chance.uniform(-123, -70, fields),
            chance.uniform(-180, 180, rest),
        ]
    )
    return latitudes, longitudes


def some_centres(count: int, seed: int) -> list[tuple[float, float]]:
    """Mostly where people live; a few at the ends of the world."""
    chance = np.random.default_rng(seed)
    ends = [(90.0, 0.0), (-90.0, 5.0), (52.0, 180.0), (52.0, -180.0), (-16.9, 179.999), (89.99, -179.99), (0.0, 0.0)]
    there = zip(chance.uniform(26, 48, count), chance.uniform(-123, -70, count), strict=True)
    return [*ends, *((float(lat), float(lng)) for lat, lng in there)][:count]


def _raced(tx: Tx, count: int, rounds: int, *, has_postgis: bool) -> dict[str, Any]:
    """In turns, each around the same centres; milliseconds, the median of all."""
    density = read_density(tx)
    centres = some_centres(rounds + 7, seed=count)[7:]
    times: dict[str, list[float]] = {}
    for lat, lng in centres:
        found = find_nearest(tx, lat, lng, count, filters=ALL, density=density)
        first, last = find_cells_within(lat, lng, found.searched_meters)
        around = partial(find_nearest, tx, lat, lng, count, filters=ALL, density=density)
        contenders: dict[str, Callable[[], object]] = {
            "ours": around,
            "bare index scan": partial(_bare, tx, first, last),
            "the same, as arrays": partial(read_cells, tx, first, last, ALL),
        }
        if has_postgis:
            contenders["PostGIS"] = partial(_by_postgis, tx, lat, lng, count)
        for name, call in contenders.items():
            started = time.perf_counter()
            call()
            times.setdefault(name, []).append(1_000 * (time.perf_counter() - started))
    typical = {name: round(statistics.median(taken), 2) for name, taken in times.items()}
    rival = typical["PostGIS" if has_postgis else "bare index scan"]
    return {"p50 in milliseconds": typical, "ratio": round(typical["ours"] / rival, 2)}


def _bare(tx: Tx, first: Integers, last: Integers) -> object:
    """What reading those cells costs by itself, however it goes on from there."""
    return driver_connection(tx).execute(_BARE, (first.tolist(), last.tolist())).fetchall()


def _by_postgis(tx: Tx, lat: float, lng: float, count: int) -> object:
    return driver_connection(tx).execute(_POSTGIS, (lng, lat, count)).fetchall()


def _equal_to_brute_force(tx: Tx, latitudes: Floats, longitudes: Floats) -> int:
    """Around how many centres the nearest are those that measuring to everyone finds."""
    density, equal = read_density(tx), 0
    ids = np.arange(1, len(latitudes) + 1)
    for place, (lat, lng) in enumerate(some_centres(CENTRES, seed=9)):
        count = (100, 1_000, 10_000)[place % 3]
        far = compute_distances(lat, lng, latitudes, longitudes)
        near = np.flatnonzero(far <= np.partition(far, count - 1)[count - 1])
        expected = near[np.lexsort((ids[near], far[near]))][:count] + 1
        found = find_nearest(tx, lat, lng, count, filters=ALL, density=density)
        equal += bool(np.array_equal(found.ids, expected))
    return equal


def _load(conninfo: str, latitudes: Floats, longitudes: Floats) -> float:
    """In the order of the grid, as an import does; seconds."""
    started = time.perf_counter()
    grid = find_cells(latitudes, longitudes)
    with psycopg.connect(conninfo, autocommit=True) as admin:
        admin.execute("insert into lead_sources (name, is_sample, records, updated_at) values ('b', false, 0, now())")
        with admin.cursor() as cursor, cursor.copy(f"copy leads ({', '.join(_COLUMNS)}) from stdin") as copy:
            order = np.argsort(grid, kind="stable")
            for chunk in np.array_split(order, max(1, len(order) // 20_000)):
                rows = zip(
                    chunk.tolist(),
                    grid[chunk].tolist(),
                    latitudes[chunk].tolist(),
                    longitudes[chunk].tolist(),
                    strict=True,
                )
                copy.write(
                    "".join(
                        f"{n + 1}\t1\t{cell}\t{lat!r}\t{lng!r}\t0\t{n}\t{n} Main St\tUS\tdeliverable\t{{}}\n"
                        for n, cell, lat, lng in rows
                    )
                )
        admin.execute(_COUNT)
        admin.execute("vacuum (analyze) leads")
    return round(time.perf_counter() - started, 1)


def _postgis(conninfo: str) -> bool:
    """Whether it is installed; then the table has its index, too."""
    with psycopg.connect(conninfo, autocommit=True) as admin:
        if not admin.execute("select 1 from pg_available_extensions where name = 'postgis'").fetchone():
            return False
        admin.execute("create extension postgis")
        admin.execute("create index on leads using gist (geography(st_makepoint(longitude, latitude)))")
        admin.execute("analyze leads")
    return True


@contextmanager
def _server() -> Iterator[str]:
    home = Path(tempfile.mkdtemp(prefix="quillpost-radius-"))
    home.chmod(0o755)
    server = EmbeddedPostgres(home)
    server.start()
    try:
        upgrade_database(server.conninfo())
        yield server.conninfo()
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))
