"""Importing addresses: CSV and GeoJSON, packed or not, all files or none, and each address once."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.recipients import lead_density, lead_files, lead_sources, leads
from quillpost.recipients.leads import files as reading
from quillpost.recipients.leads import imports
from quillpost.recipients.leads.files import MAX_LINE_LENGTH, BadLeadRow, NotLeadFile
from quillpost.recipients.leads.imports import LeadImportReport, delete_source, import_files
from quillpost.recipients.leads.rules import BUSINESS_TAG, CONDO_TAG, RECORD_TYPE_TAGS

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
            self.parts.db,
            files,
            source=source,
            replace=replace,
            country="US",
            open_progress=lambda _: lambda done, of: None,
            report_rejected=lambda _, bad: self.refused.extend(bad),
            now=self.parts.clock(),
        )

    def rows(self) -> list[Any]:
        with self.parts.db.system_transaction() as tx:
            return list(tx.execute(sa.select(leads).order_by(leads.c.address_key)))


@pytest.fixture
def office(container: Container, tmp_path: Path) -> Office:
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
    plain, packed = csv_of(*ROWS), gzip.compress(csv_of(*ROWS).encode())
    office.take(office.file("a.csv", plain))
    before = office.rows()
    again = office.take(office.file("again.csv", plain))
    assert again.files[0].is_already_imported
    assert office.rows() == before
    office.take(office.file("a.csv.gz", packed))
    assert len(office.rows()) == 3
    header = f"{HEADER},pool"
    newer = ("-97.70,30.20,1,OAK STREET,,Austin,,TX,78701,a,h1,no", "-97.71,30.21,1,Oak St.,,Austin,,TX,78701,a,h1,yes")
    report = office.take(office.file("newer.csv", csv_of(*newer, header=header)))
    assert report.files[0].records == 1
    [oak, *_] = office.rows()
    assert (oak.latitude, oak.tags & RECORD_TYPE_TAGS["pool"]) == (30.21, RECORD_TYPE_TAGS["pool"])
    assert len(office.rows()) == 3


def test_an_import_may_replace_all_that_its_source_has(office: Office) -> None:
    office.take(office.file("a.csv", csv_of(*ROWS)))
    report = office.take(office.file("b.csv", csv_of(ROWS[0])), replace=True)
    assert report.replaced_count == 3
    assert len(office.rows()) == 1
    office.take(office.file("c.csv", csv_of(ROWS[0])), source="another")
    assert delete_source(office.parts.db, "county") == 1
    assert len(office.rows()) == 1
    with office.parts.db.system_transaction() as tx:
        assert tx.execute(sa.select(sa.func.count()).select_from(lead_files)).scalar_one() == 1


def test_of_several_files_all_are_imported_or_none(office: Office) -> None:
    good, bad = office.file("a.csv", csv_of(*ROWS)), office.file("b.csv", "A poem,about\nroses,red\n")
    with pytest.raises(NotLeadFile, match="no column LON, LAT, STREET, POSTCODE"):
        office.take(good, bad)
    assert office.rows() == []
    with office.parts.db.system_transaction() as tx:
        assert tx.execute(sa.select(lead_sources)).all() == []


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_only_the_ends_of_lines_divide_rows(office: Office, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "READ_SIZE", 7)
    odd = "\u2028 \u2029 \x85 \x0b \x0c \x1c \x1d \x1e"
    rows = (f"-97.74,30.27,1,Oak St,,Austin{odd}x,,TX,78701,a,h1", ROWS[1], f'-97.7,30.2,3,"Oak{end} St",,,,,78701,c,')
    report = office.take(office.file("odd.csv", end.join([HEADER, *rows, ""])))
    assert [(file.rows, file.records) for file in report.files] == [(3, 3)]
    assert office.refused == []


def test_geojson_is_read_by_lines_and_as_a_collection(office: Office) -> None:
    features = [feature(n, record_types=["pool"], owner_name="Olive") for n in range(1, 4)]
    lines = "\n".join(map(json.dumps, features))
    whole = json.dumps({"type": "FeatureCollection", "name": "x", "features": features}, indent=1)
    for place, content in enumerate((lines, whole)):
        office.take(office.file(f"{place}.geojson", content), replace=True)
        rows = office.rows()
        assert [row.address.upper() for row in rows] == ["1 OAK ST", "2 OAK ST", "3 OAK ST"]
        assert all(row.tags == RECORD_TYPE_TAGS["pool"] and row.name == "Olive" for row in rows)


def test_a_large_collection_is_read_piece_by_piece(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quillpost.recipients.leads.files.READ_SIZE", 100)
    features = [feature(n) for n in range(1, 30)]
    content = json.dumps({"type": "FeatureCollection", "features": features})
    office.take(office.file("a.geojson", content))
    assert len(office.rows()) == 29


def test_columns_say_of_which_kinds_an_address_is_and_whose(office: Office) -> None:
    header = "lat,lon,number,street,zip,record_types,renters,business,condo,owner_name,owner_address,owner_zip"
    rows = (
        "30.2,-97.7,1,Oak St,78701,retired;pool,yes,0,TRUE,Olive Owner,9 Pine St,98101",
        "30.2,-97.7,2,Oak St,78701,newbusiness,,,,Olive Owner,2 Oak St,78701",
    )
    office.take(office.file("a.csv", csv_of(*rows, header=header)))
    elsewhere, here = office.rows()
    expected_tags = (
        RECORD_TYPE_TAGS["retired"]
        | RECORD_TYPE_TAGS["pool"]
        | RECORD_TYPE_TAGS["renters"]
        | RECORD_TYPE_TAGS["absenteeowner"]
        | CONDO_TAG
    )
    assert elsewhere.tags == expected_tags
    assert (elsewhere.owner["name"], elsewhere.owner["city"].upper()) == ("Olive Owner", "SEATTLE")
    assert here.tags == RECORD_TYPE_TAGS["newbusiness"] | BUSINESS_TAG
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


ODD: dict[str, bytes] = {
    "no column LON": b"",
    "no column LON, LAT": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n",
    "two columns for lat": csv_of(header=f"{HEADER},LATITUDE").encode(),
    "more than 500 columns": csv_of(*ROWS, header=HEADER + ",z" * 600).encode(),
    "no row that can be used": csv_of("-97.74,x,1,Oak St,,Austin,,TX,78701,a,h").encode(),
    "no CSV": b"x" * (MAX_LINE_LENGTH + 100_000),
    "breaks off in the middle": b'{"type": "FeatureCollection", "features": [{"type": "Fea',
    "breaks off, or is damaged": gzip.compress(csv_of(*ROWS).encode(), mtime=0)[:60],
}


def test_what_is_no_such_file_is_refused_with_the_reason(office: Office) -> None:
    for reason, content in ODD.items():
        with pytest.raises(NotLeadFile, match=reason):
            office.take(office.file("odd", content))
    assert office.rows() == []


def test_one_bad_line_of_features_keeps_no_other_out(office: Office) -> None:
    def feature(number: int) -> str:
        address = {"number": str(number), "street": "Oak St", "city": "Austin", "region": "TX", "postcode": "78701"}
        point = {"type": "Point", "coordinates": [-97.74, 30 + number / 1_000]}
        return json.dumps({"type": "Feature", "properties": address, "geometry": point})

    bad = ('{"type": "Feature", oops}', feature(7)[:60], '{"a": "no end')
    lines = [feature(1), bad[0], feature(2), bad[1], feature(3), bad[2]]
    office.take(office.file("a.geojson", "\n".join(lines).encode()))
    assert len(office.rows()) == 3
    assert [found.number for found in office.refused] == [2, 4, 6]


def test_large_files_are_checked_by_several_processes_with_the_same_result(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [f"-97.74,{30 + n / 10_000},{n},Oak St,,Austin,,TX,78701,a,h" for n in range(1, 900)]
    file = office.file("a.csv", csv_of(*rows, "bad"))
    office.take(file)
    alone = [(row.address_key, row.grid) for row in office.rows()]
    monkeypatch.setattr(imports, "SMALL_FILE_BYTES", 0)
    monkeypatch.setattr(imports, "ROWS_PER_CHUNK", 100)
    office.take(file, replace=True)
    assert [(row.address_key, row.grid) for row in office.rows()] == alone
    assert [bad.number for bad in office.refused] == [900, 900]
