"""`quillpost tracking ingest`: a summary, the rows that could not be read, and an exit code."""

import gzip
import json
import sys
from io import TextIOWrapper
from pathlib import Path

import pytest

from quillpost.app.container import Container
from support.carrier_scans import mailed_order, scan_journey, tracking_codes
from support.cli_results import CommandResult, Quillpost
from support.orders import open_account


@pytest.fixture
def files(tmp_path: Path, container: Container) -> Path:
    """A folder with scans of one of our pieces, and of somebody else's."""
    order = mailed_order(container, open_account(container))
    scans = [json.loads(scan.raw) for scan in scan_journey(container, *tracking_codes(container, order))]
    others = {"imb": "00310555555000000001", "scanDatetime": "2026-05-05T12:00:00Z", "mailPhase": "1"}
    events = json.dumps({"events": [*scans, others, {"imb": "12"}]}).encode()
    (tmp_path / "scans.json").write_bytes(events)
    (tmp_path / "scans.json.gz").write_bytes(gzip.compress(events))
    (tmp_path / "poem.txt").write_text("Roses are red")
    return tmp_path


def ingest(quillpost: Quillpost, files: Path, conninfo: str, *names: object) -> CommandResult:
    return quillpost("tracking", "ingest", *names, home=files / "home", database_url=conninfo)


def test_a_file_is_read_and_summed_up(quillpost: Quillpost, files: Path, conninfo: str) -> None:
    outcome = ingest(quillpost, files, conninfo, files / "scans.json")
    assert outcome.code == 0
    assert outcome.out.strip() == (
        f"{files / 'scans.json'}: 6 rows read, 5 new, 4 of our pieces, 1 refused; moved: 1 Delivered"
    )
    assert outcome.err == "  row 6: its barcode is not 20 or 31 digits\n"


def test_a_file_that_was_read_before_changes_nothing(quillpost: Quillpost, files: Path, conninfo: str) -> None:
    outcome = ingest(quillpost, files, conninfo, files / "scans.json", files / "scans.json.gz")
    assert outcome.code == 0
    assert "6 rows read, 0 new, 0 of our pieces, 1 refused; moved: none" in outcome.out.splitlines()[1]


def test_a_file_without_scans_is_reported_and_the_others_are_read(
    quillpost: Quillpost, files: Path, conninfo: str, container: Container
) -> None:
    outcome = ingest(quillpost, files, conninfo, files / "poem.txt", files / "scans.json")
    assert outcome.code == 1
    assert f"{files / 'poem.txt'}: This is no file of scans" in outcome.err
    assert "moved: 1 Delivered" in outcome.out


def test_standard_input_is_a_file_too(
    quillpost: Quillpost, files: Path, conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (files / "scans.json.gz").open("rb") as packed:
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(packed))
        outcome = ingest(quillpost, files, conninfo, "-")
    assert outcome.code == 0
    assert outcome.out.startswith("-: 6 rows read, 5 new")


def test_a_file_that_is_not_there_is_one_sentence(quillpost: Quillpost, files: Path, conninfo: str) -> None:
    assert ingest(quillpost, files, conninfo, files / "nowhere.json").is_one_sentence()
