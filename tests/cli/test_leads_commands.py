"""`quillpost leads`: importing, listing and forgetting, as an operator does it."""

import csv
from pathlib import Path

import pytest

from quillpost.app.container import Container
from quillpost.integrations.leads.table import TableLeadProvider
from quillpost.recipients.leads.ports import LeadQuery
from quillpost.recipients.leads.rules import RECORD_TYPES
from support.cli_results import CommandResult, Quillpost

ROWS = """LON,LAT,NUMBER,STREET,POSTCODE
-97.74,30.27,1,Oak St,78701
-97.74,30.27,1,OAK ST,78701
,,2,=Oak St,78701
"""


@pytest.fixture
def run(quillpost: Quillpost, conninfo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Quillpost:
    monkeypatch.chdir(tmp_path)

    def leads(*words: object, **settings: object) -> CommandResult:
        return quillpost("leads", *words, home=tmp_path / "home", database_url=conninfo, **settings)

    return leads


def test_files_are_imported_listed_and_forgotten(run: Quillpost, tmp_path: Path) -> None:
    file = tmp_path / "county.csv"
    file.write_text(ROWS)
    done = run("import", file, "--source", "county")
    assert done.code == 0, done.err
    assert "county.csv: 3 rows, 1 records, 1 doubles, 1 refused" in done.out
    with (tmp_path / "leads-rejected.csv").open() as rejected:
        [row] = csv.DictReader(rejected)
    assert (row["file"], row["row"], row["street"]) == ("county.csv", "3", "'=Oak St")
    assert "latitude" in row["reason"]
    assert "imported before, nothing changed" in run("import", file, "--source", "county").out
    assert "county" in run("list").out
    assert run("forget", "county").out == "1 records of county were removed.\n"
    gone = run("forget", "county")
    assert (gone.code, "quillpost leads list" in gone.err) == (1, True)
    assert "no addresses yet" in run("list").out


def test_what_cannot_be_imported_is_one_sentence(run: Quillpost, tmp_path: Path) -> None:
    poem = tmp_path / "poem.txt"
    poem.write_text("Roses are red")
    for words in ((poem,), (tmp_path / "missing.csv",), (poem, "--country", "Texas"), (poem, "--source", "sample")):
        outcome = run("import", *words)
        assert outcome.code == 1
        assert outcome.err.startswith("quillpost: ")
        assert len(outcome.err.strip().splitlines()) == 1


def test_the_sample_has_every_kind_of_record_around_austin(run: Quillpost, container: Container) -> None:
    assert "made-up addresses are there" in run("sample").out
    found = TableLeadProvider(container.db, use_samples=True, clock=container.clock)
    for kind in RECORD_TYPES:
        leads = found.search(LeadQuery(30.27, -97.74, 20, [kind]))
        assert len(leads) == 20, kind
        assert all("Sample" in (lead.resident.name or lead.resident.company or "") for lead in leads)
    assert (
        TableLeadProvider(container.db, use_samples=False, clock=container.clock).search(LeadQuery(30.27, -97.74, 20))
        == []
    )


def test_the_first_search_of_testing_mode_brings_the_sample(container: Container) -> None:
    found = container.lead_providers["test"].search(LeadQuery(30.27, -97.74, 5))
    assert len(found) == 5
    assert container.lead_providers["live"].search(LeadQuery(30.27, -97.74, 5)) == []
