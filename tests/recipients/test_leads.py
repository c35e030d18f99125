"""The operator's addresses: imported each once, all files or none, and exactly the nearest found."""

import gzip
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database import Database, driver_connection
from quillpost.core.database.tables.recipients import lead_density, lead_files, lead_sources, leads
from quillpost.recipients.leads import files as reading
from quillpost.recipients.leads import imports, queries, rules
from quillpost.recipients.leads.files import MAX_LINE_LENGTH, BadLeadRow, NotLeadFile
from quillpost.recipients.leads.imports import LeadImportReport, _recount_density, delete_source, import_files
from quillpost.recipients.leads.queries import LeadDensity, NearestLeads, TagFilters, find_nearest, read_density
from quillpost.recipients.leads.rules import RECORD_TYPE_TAGS, Floats, Integers, find_cells, find_cells_within
from support.rows import execute, scalar

HEADER = "LON,LAT,NUMBER,STREET,UNIT,CITY,DISTRICT,REGION,POSTCODE,ID,HASH"
ROWS = (
    "-97.74,30.27,1,Oak St,,Austin,,TX,78701,a,h1",
    "-97.75,30.28,2,Oak St,Apt 4,,,,78701,b,h2",
    '-97.76,30.29,3,"Oak, the old St",,Austin,,TX,78701,c,h3',
)


class Office:
    """Imports into the test's database, and keeps what was refused."""

    def __init__(self, container: Container, folder: Path) -> None:
        self.parts, self.folder = container, folder
        self.refused: list[BadLeadRow] = []

    def file(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def take(self, *files: Path, replace: bool = False, source: str = "county") -> LeadImportReport:
        return import_files(
            self.parts.db, files, source=source, replace=replace, country="US", now=self.parts.clock(),
            open_progress=lambda _: lambda done, of: None, report_rejected=lambda _, bad: self.refused.extend(bad),
        )  # fmt: skip

    def rows(self) -> list[Any]:
        with self.parts.db.system_transaction() as tx:
            return list(tx.execute(sa.select(leads).order_by(leads.c.address_key)))


@pytest.fixture
def office(clean_database: None, container: Container, tmp_path: Path) -> Office:
    return Office(container, tmp_path)


def csv_of(*rows: str, header: str = HEADER) -> str:
    return "\n".join([header, *rows]) + "\n"


def feature(number: int, **properties: Any) -> dict[str, Any]:
    place = {"type": "Point", "coordinates": [-97.74, 30.27]}
    known = {"number": str(number), "street": "OAK ST", "postcode": "78701"}
    return {"type": "Feature", "properties": known | properties, "geometry": place}


def test_a_file_of_addresses_becomes_rows_in_the_order_of_the_grid(office: Office) -> None:
    report = office.take(office.file("a.csv", csv_of(*ROWS)))
    assert [(done.rows, done.records, done.rejected) for done in report.files] == [(3, 3, 0)]
    first, second, _ = office.rows()
    assert (first.latitude, first.longitude, first.address.upper()) == (30.27, -97.74, "1 OAK ST")
    assert (second.city.upper(), second.province) == ("AUSTIN", "TX")  # of its ZIP code
    with office.parts.db.system_transaction() as tx:
        by_id = tx.execute(sa.select(leads.c.grid).order_by(leads.c.id)).scalars().all()
        assert by_id == sorted(by_id)
        assert tx.execute(sa.select(sa.func.sum(lead_density.c.records))).scalar_one() == 3
        assert tx.execute(sa.select(lead_sources.c.records)).scalar_one() == 3


def test_a_file_that_was_imported_changes_nothing_and_the_last_of_two_stands(office: Office) -> None:
    plain = csv_of(*ROWS)
    office.take(office.file("a.csv", plain))
    before = office.rows()
    assert office.take(office.file("again.csv", plain)).files[0].is_already_imported
    assert office.rows() == before
    office.take(office.file("a.csv.gz", gzip.compress(plain.encode())))
    assert len(office.rows()) == 3
    newer = ("-97.70,30.20,1,OAK STREET,,Austin,,TX,78701,a,h1,no", "-97.71,30.21,1,Oak St.,,Austin,,TX,78701,a,h1,yes")
    report = office.take(office.file("newer.csv", csv_of(*newer, header=f"{HEADER},pool")))
    assert report.files[0].records == 1
    [oak, *_] = office.rows()
    assert (oak.latitude, oak.tags & RECORD_TYPE_TAGS["pool"]) == (30.21, RECORD_TYPE_TAGS["pool"])
    assert len(office.rows()) == 3


def test_an_import_may_replace_all_that_its_source_has(office: Office) -> None:
    office.take(office.file("a.csv", csv_of(*ROWS)))
    report = office.take(office.file("b.csv", csv_of(ROWS[0])), replace=True)
    assert (report.replaced_count, len(office.rows())) == (3, 1)
    office.take(office.file("c.csv", csv_of(ROWS[0])), source="another")
    assert (delete_source(office.parts.db, "county"), len(office.rows())) == (1, 1)
    assert scalar(office.parts, sa.select(sa.func.count()).select_from(lead_files)) == 1


ODD: dict[str, bytes] = {
    "no column LON": b"",
    "no column LON, LAT": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n",
    "no column LON, LAT, STREET, POSTCODE": b"A poem,about\nroses,red\n",
    "two columns for lat": csv_of(header=f"{HEADER},LATITUDE").encode(),
    "more than 500 columns": csv_of(*ROWS, header=HEADER + ",z" * 600).encode(),
    "no row that can be used": csv_of("-97.74,x,1,Oak St,,Austin,,TX,78701,a,h").encode(),
    "no CSV": b"x" * (MAX_LINE_LENGTH + 100_000),
    "breaks off in the middle": b'{"type": "FeatureCollection", "features": [{"type": "Fea',
    "breaks off, or is damaged": gzip.compress(csv_of(*ROWS).encode(), mtime=0)[:60],
}


def test_of_several_files_all_are_imported_or_none(office: Office, subtests: pytest.Subtests) -> None:
    good = office.file("good.csv", csv_of(*ROWS))
    for reason, content in ODD.items():
        with subtests.test(reason):
            for files in ((office.file("odd", content),), (good, office.file("odd", content))):
                with pytest.raises(NotLeadFile, match=reason):
                    office.take(*files)
    assert office.rows() == []
    assert execute(office.parts, sa.select(lead_sources)) == []


def test_only_the_ends_of_lines_divide_rows(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "READ_SIZE", 7)
    odd = "-97.74,30.27,1,Oak St,,Austin\u2028 \u2029 \x85 \x0b \x0c \x1c \x1d \x1ex,,TX,78701,a,h1"
    for end in ("\n", "\r\n", "\r"):
        rows = (odd, ROWS[1], f'-97.7,30.2,3,"Oak{end} St",,,,,78701,c,')
        report = office.take(office.file("odd.csv", end.join([HEADER, *rows, ""])), replace=True)
        assert [(file.rows, file.records) for file in report.files] == [(3, 3)]
    assert office.refused == []


def test_geojson_is_read_by_lines_whole_and_piece_by_piece(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    features = [feature(n, record_types=["pool"], owner_name="Olive") for n in range(1, 30)]
    lines = "\n".join(map(json.dumps, features))
    whole = json.dumps({"type": "FeatureCollection", "name": "x", "features": features}, indent=1)
    for read_size, content in ((reading.READ_SIZE, lines), (reading.READ_SIZE, whole), (100, whole)):
        monkeypatch.setattr(reading, "READ_SIZE", read_size)
        office.take(office.file(f"{read_size}.geojson", content), replace=True)
        rows = office.rows()
        assert sorted(row.address.upper() for row in rows) == sorted(f"{n} OAK ST" for n in range(1, 30))
        assert all(row.tags == RECORD_TYPE_TAGS["pool"] and row.name == "Olive" for row in rows)
    bad = ('{"type": "Feature", oops}', json.dumps(feature(7))[:60], '{"a": "no end')
    mixed = [json.dumps(feature(1)), bad[0], json.dumps(feature(2)), bad[1], json.dumps(feature(3)), bad[2]]
    office.take(office.file("mixed.geojson", "\n".join(mixed)), replace=True)
    assert len(office.rows()) == 3, "one bad line keeps no other out"
    assert [found.number for found in office.refused] == [2, 4, 6]


def test_columns_say_of_which_kinds_an_address_is_and_whose(office: Office) -> None:
    header = "lat,lon,number,street,zip,record_types,renters,business,condo,owner_name,owner_address,owner_zip"
    rows = (
        "30.2,-97.7,1,Oak St,78701,retired;pool,yes,0,TRUE,Olive Owner,9 Pine St,98101",
        "30.2,-97.7,2,Oak St,78701,newbusiness,,,,Olive Owner,2 Oak St,78701",
    )
    office.take(office.file("a.csv", csv_of(*rows, header=header)))
    elsewhere, here = office.rows()
    kinds = ("retired", "pool", "renters", "absenteeowner")
    assert elsewhere.tags == sum(RECORD_TYPE_TAGS[kind] for kind in kinds) + rules.CONDO_TAG
    assert (elsewhere.owner["name"], elsewhere.owner["city"].upper()) == ("Olive Owner", "SEATTLE")
    assert here.tags == RECORD_TYPE_TAGS["newbusiness"] | rules.BUSINESS_TAG
    assert (here.owner, here.name) == (None, "Olive Owner")


def test_unusable_rows_are_reported_with_the_reason(office: Office) -> None:
    bad = {
        ",30.27,1,Oak St,,Austin,,TX,78701,a,h": "no latitude and longitude",
        "-97.74,x,1,Oak St,,Austin,,TX,78701,a,h": "no latitude and longitude",
        "0,0,1,Oak St,,Austin,,TX,78701,a,h": "are 0",
        "-197.74,30.27,1,Oak St,,Austin,,TX,78701,a,h": "beyond the globe",
        "nan,30.27,1,Oak St,,Austin,,TX,78701,a,h": "no latitude and longitude",
        "-97.74,30.27,,Oak St,,Austin,,TX,78701,a,h": "no house number",
        "-97.74,30.27,1,,,Austin,,TX,78701,a,h": "no street",
        "-97.74,30.27,1,Oak St,,Austin,,TX,,a,h": "no ZIP",
        "-97.74,30.27,1,Oak St,,Austin,,TX": "columns",
        f"-97.74,30.27,1,{'O' * 301} St,,Austin,,TX,78701,a,h": "300 characters",
    }
    mixed = csv_of(*bad, *ROWS).encode() + b"-97.74,30.27,1,Oak \xff St,,Austin,,TX,78701,a,h\n"
    report = office.take(office.file("a.csv", mixed))
    assert (report.files[0].records, report.files[0].rejected) == (3, len(bad) + 1)
    for found, reason in zip(office.refused, [*bad.values(), "UTF-8"], strict=True):
        assert reason in found.reason
    assert [found.number for found in office.refused] == [*range(1, len(bad) + 1), len(bad) + 4]


def test_several_processes_check_large_files_with_one_result(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"-97.74,{30 + n / 10_000},{n},Oak St,,Austin,,TX,78701,a,h" for n in range(1, 300)]
    file = office.file("a.csv", csv_of(*rows, "bad"))
    office.take(file)
    alone = [(row.address_key, row.grid) for row in office.rows()]
    monkeypatch.setattr(imports, "SMALL_FILE_BYTES", 0)
    monkeypatch.setattr(imports, "ROWS_PER_CHUNK", 20)
    office.take(file, replace=True)
    assert [(row.address_key, row.grid) for row in office.rows()] == alone
    assert [bad.number for bad in office.refused] == [300, 300]


Points = tuple[Floats, Floats, Integers]
POINT_COLUMNS = "id, source_id, grid, latitude, longitude, tags, address_key, address, country, deliverability, reasons"
CORNERS = (
    (90.0, 0.0), (-90.0, 17.0), (89.9999, -179.9999), (-89.995, 180.0), (0.0, 180.0), (0.0, -180.0),
    (51.5, 179.9999), (-16.8, -179.995), (0.0, 0.0), (30.27, -97.74), (89.2, 45.0),
)  # fmt: skip


def some_points(seed: int, count: int) -> Points:
    """Towns, fields, both sides of the antimeridian, and polar stations; a few exactly as far as others."""
    chance = np.random.default_rng(seed)
    everywhere = np.degrees(np.arcsin(chance.uniform(-1, 1, count))), chance.uniform(-180, 180, count)
    many = count // 8
    towns = [
        (chance.normal(lat, 0.05, many).clip(-90, 90), (chance.normal(lng, 0.05, many) + 540) % 360 - 180)
        for lat, lng in ((30.27, -97.74), (51.5, 179.99), (-16.8, -179.99), (89.9, 10.0), (-89.9, -100.0))
    ]  # fmt: skip
    latitudes = np.concatenate([everywhere[0], *(town[0] for town in towns), np.full(40, 30.3)])
    longitudes = np.concatenate([everywhere[1], *(town[1] for town in towns), np.full(40, -97.7)])
    return latitudes, longitudes, chance.integers(0, 8, len(latitudes))


def store_points(db: Database, latitudes: Floats, longitudes: Floats, tags: Integers) -> None:
    """Their ids are their places, from 1 on."""
    grid = find_cells(latitudes, longitudes)
    with db.system_transaction() as tx:
        made = sa.insert(lead_sources).values(name="points", is_sample=False, records=0, updated_at=sa.func.now())
        source = tx.execute(made.returning(lead_sources.c.id)).scalar_one()
        driver_connection(tx).execute(
            f"create temp table points on commit drop as select {POINT_COLUMNS} from leads with no data"
        )
        with driver_connection(tx).cursor() as cursor, cursor.copy(f"copy points ({POINT_COLUMNS}) from stdin") as copy:
            for n, (cell, lat, lng, tag) in enumerate(zip(grid, latitudes, longitudes, tags, strict=True)):
                copy.write_row(
                    (n + 1, source, int(cell), float(lat), float(lng), int(tag), str(n), "1 Main St", "US",
                     "deliverable", [])
                )  # fmt: skip
        driver_connection(tx).execute(
            f"insert into leads ({POINT_COLUMNS}) overriding system value"
            f" select {POINT_COLUMNS} from points order by grid"
        )
        _recount_density(tx)


def brute_force(latitude: float, longitude: float, count: int, points: Points, filters: TagFilters) -> NearestLeads:
    latitudes, longitudes, tags = points
    is_match = ((tags & filters.any_of) != 0) | (filters.any_of == 0)
    is_match &= ((tags & filters.all_of) == filters.all_of) & ((tags & filters.none_of) == 0)
    ids = np.arange(1, len(tags) + 1)[is_match]
    far = rules.compute_distances(latitude, longitude, latitudes[is_match], longitudes[is_match])
    order = np.lexsort((ids, far))[:count]
    return NearestLeads(ids[order], far[order], np.inf)


@pytest.mark.usefixtures("clean_database")
def test_the_nearest_equal_those_found_by_measuring_to_everyone(container: Container) -> None:
    points, chance = some_points(1, 4_000), np.random.default_rng(2)
    store_points(container.db, *points)
    random_ones = [(float(np.degrees(np.arcsin(u))), float(v)) for u, v in chance.uniform(-1, 1, (22, 2)) * (1, 180)]
    cells = np.arange(queries.DENSITY_ROWS * queries.DENSITY_COLUMNS)
    with container.db.anonymous_transaction() as tx:
        density = read_density(tx)
        for place, (lat, lng) in enumerate([*CORNERS, *random_ones]):
            count = (1, 30, 500)[place % 3]
            filters = (TagFilters(), TagFilters(any_of=3), TagFilters(all_of=4, none_of=1))[place // 3 % 3]
            found = find_nearest(tx, lat, lng, count, filters=filters, density=density)
            expected = brute_force(lat, lng, count, points, filters)
            assert found.ids.tolist() == expected.ids.tolist(), (lat, lng, count)
            assert found.meters.tolist() == expected.meters.tolist()

        near = brute_force(30.27, -97.74, 10**6, points, TagFilters())
        found = find_nearest(tx, 30.27, -97.74, 5_000, filters=TagFilters(), density=density, max_meters=8_000.0)
        assert found.ids.tolist() == near.ids[near.meters <= 8_000].tolist(), "nobody farther away than is looked"

        wrong_guesses = [LeadDensity(cells, np.full(len(cells), each)) for each in (0, 1, 300)]
        for lat, lng in ((30.27, -97.74), (51.5, 179.99), (-89.9, -100.0)):
            expected = brute_force(lat, lng, 450, points, TagFilters())
            for guess in wrong_guesses:
                found = find_nearest(tx, lat, lng, 450, filters=TagFilters(), density=guess, max_meters=200_000.0)
                assert found.ids.tolist() == expected.ids.tolist()


def test_a_look_is_as_wide_as_those_around_lie_apart_and_the_next_reads_the_rest() -> None:
    cells = np.arange(queries.DENSITY_ROWS * queries.DENSITY_COLUMNS)
    evenly = LeadDensity(cells, np.full(len(cells), 100))  # one in about 1.1 square kilometers
    assert evenly.estimate_radius(0.05, 0.05, 100) == pytest.approx(6_270, rel=0.02)
    assert evenly.estimate_radius(0.0, 180.0, 10_000) == pytest.approx(62_700, rel=0.02)
    assert evenly.estimate_radius(60.05, -179.99, 10_000) == pytest.approx(62_700 / 2**0.5, rel=0.05)
    assert 0 < evenly.estimate_radius(90.0, 0.0, 100) < evenly.estimate_radius(0.0, 0.0, 100)
    middle = queries.DENSITY_COLUMNS // 2 + queries.DENSITY_ROWS // 2 * queries.DENSITY_COLUMNS
    one_town = LeadDensity(np.array([middle]), np.array([1_000]))
    assert one_town.estimate_radius(0.05, 3.05, 500) == pytest.approx(335_000, rel=0.3)
    assert one_town.estimate_radius(0.05, 3.05, 2_000) == rules.HALF_EARTH_METERS
    for lat, lng in CORNERS:
        whole = rules.HALF_EARTH_METERS
        for near, far in ((500.0, 900.0), (20_000.0, 40_000.0), (90_000.0, 1_200_000.0), (9e6, whole)):
            small, large = find_cells_within(lat, lng, near), find_cells_within(lat, lng, far)
            ring = rules.subtract_runs(large, small)
            first, last = (np.concatenate(both) for both in zip(small, ring, strict=True))
            order = np.argsort(first)
            assert (first[order][1:] > last[order][:-1]).all()
            assert (last - first + 1).sum() == (large[1] - large[0] + 1).sum()
            assert np.isin(first[order][0], large[0])


def test_whoever_is_in_the_circle_is_in_its_cells_and_no_cell_is_read_twice() -> None:
    latitudes, longitudes, _ = some_points(3, 3_000)
    cells = find_cells(latitudes, longitudes)
    for meters, (lat, lng) in product((10.0, 1_500.0, 90_000.0, 4_000_000.0, 12_000_000.0), CORNERS):
        first, last = find_cells_within(lat, lng, meters)
        order = np.argsort(first)
        first, last = first[order], last[order]
        assert (first <= last).all()
        assert (first[1:] > last[:-1]).all()
        assert 0 <= first[0] <= last[-1] < rules.GRID_ROWS * rules.GRID_COLUMNS
        run = np.searchsorted(first, cells, side="right") - 1
        is_read = (run >= 0) & (cells <= last[run])
        assert is_read[rules.compute_distances(lat, lng, latitudes, longitudes) <= meters].all()
    # Small circles read little: a run of a few cells, not a row around the globe.
    first, last = find_cells_within(30.27, -97.74, 1_500.0)
    assert (last - first + 1).sum() <= 20
