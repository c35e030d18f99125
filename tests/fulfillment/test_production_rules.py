"""What the printer is given beside the print file."""

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.fulfillment.batches.rules import (
    MANIFEST_COLUMNS,
    MAX_BATCH_ITEMS,
    batch_reference,
    build_manifest_csv,
    build_manifest_json,
    parse_batch_reference,
)


def row(**changes: object) -> dict[str, object]:
    return dict.fromkeys(MANIFEST_COLUMNS) | {"item_id": 7, "name": "Jane Doe"} | changes


def read_back(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_a_spreadsheet_takes_no_name_for_a_formula(start: str) -> None:
    [piece] = read_back(build_manifest_csv([row(name=f"{start}HYPERLINK(1)", city=f"{start}x")]))
    assert piece["name"] == f"'{start}HYPERLINK(1)"
    assert piece["city"] == f"'{start}x"


@given(name=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_a_name_comes_through_whole(name: str) -> None:
    [piece] = read_back(build_manifest_csv([row(name=name)]))
    assert piece["name"].removeprefix("'") == name.removeprefix("'")
    assert piece["name"][0] not in "=+-@\t\r"
    assert json.loads(build_manifest_json([row(name=name)]))["pieces"][0]["name"] == name


def test_a_print_file_has_at_most_five_thousand_pieces() -> None:
    assert MAX_BATCH_ITEMS == 5_000


def test_the_manifest_has_a_head_and_a_line_for_each_piece() -> None:
    lines = build_manifest_csv([row(), row(item_id=8)]).decode().split("\r\n")
    assert lines[0] == ",".join(MANIFEST_COLUMNS)
    assert [line.split(",")[1:2] for line in lines[1:]] == [["7"], ["8"], []]


def test_both_manifests_say_nothing_for_what_is_unknown() -> None:
    [piece] = read_back(build_manifest_csv([row(company=None)]))
    assert piece["company"] == ""
    assert json.loads(build_manifest_json([row(company=None)]))["pieces"][0]["company"] is None


def test_a_batch_has_one_reference() -> None:
    assert [batch_reference(7), batch_reference(123_456), batch_reference(1_234_567)] == [
        "batch-000007", "batch-123456", "batch-1234567",
    ]  # fmt: skip


@given(st.integers(1, 10**9))
def test_a_reference_leads_back_to_its_batch(batch_id: int) -> None:
    assert parse_batch_reference(batch_reference(batch_id)) == batch_id


@pytest.mark.parametrize(
    "name", ["", "batch-7", "batch-0000007", "batch-000007 ", "BATCH-000007", "batch-00000７", "batch--00001", "x"]
)
def test_nothing_else_is_a_reference(name: str) -> None:
    assert parse_batch_reference(name) is None
