"""Carriers' files: in every form that they come in, and in forms that nobody intended."""

import csv
import gzip
import io
import json
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quillpost.fulfillment.tracking import files as source
from quillpost.fulfillment.tracking.rules import BadScanRow, InvalidScanFile, Scan, UnreadableScan, parse_barcode
from quillpost.fulfillment.tracking.service import read_scans, read_scans_from_bytes

CODE = "00310999999000000017"
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
EVENT = {
    "eventId": "1", "imb": CODE + "78701123499", "scanDatetime": "2026-05-04T12:00:00Z",
    "mailPhase": "Phase 2a - Destination MMP Processing", "scanFacilityName": "AUSTIN P&DC",
    "scanFacilityCity": "AUSTIN", "scanFacilityState": "TX", "scanFacilityZip": "78710",
}  # fmt: skip


def scans(data: bytes) -> list[Scan]:
    return [row for row in read_scans_from_bytes(data) if isinstance(row, Scan)]


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


FORMS = {
    "events": as_json({"events": [EVENT, EVENT]}),
    "another name, and more around it": as_json(
        {"feedId": 7, "recordCount": "2", "partial": None, "data": [EVENT, EVENT], "trailer": {"of": [1, {}]}}
    ),
    "a bare array": as_json([EVENT, EVENT]),
    "an object a line": as_json(EVENT) + b"\r\n" + as_json(EVENT) + b"\n",
    "objects one after another": as_json(EVENT) + as_json(EVENT),
    "arrays one after another": as_json({"events": [EVENT]}) + b"\n" + as_json({"events": [EVENT]}),
    "bare arrays one after another": as_json([EVENT]) + b"\n" + as_json([EVENT]),
    "laid out": json.dumps({"events": [EVENT, EVENT]}, indent=4).encode(),
    "with a mark before it": b"\xef\xbb\xbf  \n" + as_json([EVENT, EVENT]),
    "sixteen bits": json.dumps([EVENT, EVENT]).encode("utf-16"),
    "an object before the array": as_json(
        {"meta": {"page": 1, "of": [1, 2], "tags": []}, "notes": ["a", 2], "events": [EVENT, EVENT], "z": {}}
    ),
    "an array in an object": as_json(
        {"meta": {"page": 1}, "data": {"count": 2, "more": {"a": 1}, "events": [EVENT, EVENT], "z": [1]}, "y": 3}
    ),
    "arrays in objects one after another": as_json({"data": {"events": [EVENT]}}) * 2,
    "a large object before the array": as_json({"meta": {"x": "y" * 40_000}, "events": [EVENT, EVENT]}),
    "packed": gzip.compress(as_json([EVENT, EVENT])),
    "packed in two parts": gzip.compress(as_json(EVENT) + b"\n") + gzip.compress(as_json(EVENT)),
    "a comma too many": b"[" + as_json(EVENT) + b",\n," + as_json(EVENT) + b",]",
}


def test_every_form_of_json_is_read(subtests: pytest.Subtests) -> None:
    for form, data in FORMS.items():
        with subtests.test(form):
            found = list(read_scans_from_bytes(data))
            assert [type(row) for row in found] == [Scan, Scan]
            for row in found:
                assert isinstance(row, Scan)
                assert row[:3] == (CODE, "2a", NOON)
                assert (row.location, json.loads(row.raw)) == ("AUSTIN P&DC, Austin, TX 78710", EVENT)


USUAL = {"imb": CODE, "scanDatetime": "2026-05-04T12:00:00Z", "mailPhase": "2a"}
CODE_AND_PHASE = {"imb": CODE, "mailPhase": "2a"}
COLUMNS: dict[str, dict[str, Any]] = {
    "lower case": {"imb": CODE, "scandatetime": "2026-05-04T12:00:00Z", "mailphase": "2a"},
    "with underscores": {"IMB_TRACKING_CODE": CODE, "scan_date_time": "2026-05-04 12:00:00", "mail_phase": "2a"},
    "with spaces": {"IMb Tracking Code": CODE, "SCAN DATETIME": "2026-05-04T12:00:00.000Z", "Mail Phase": "2a"},
    "both barcodes": USUAL | {"imb": CODE + "78701", "imbTrackingCode": CODE, "scanDatetime": "2026-05-04T12:00Z"},
    "one of them blank": USUAL
    | {"imb": CODE + "787011234", "imbTrackingCode": " ", "scanDatetime": "20260504T120000Z"},
    "digits in groups": USUAL | {"imb": "00 310 999999 000000017"},
    "a spreadsheet's quote": USUAL | {"imb": f"'{CODE}"},
    "a number": USUAL | {"imb": int("4" + CODE[1:])},
    "an offset": USUAL | {"scanDatetime": "2026-05-04T07:00:00-05:00"},
    "an American time": USUAL | {"scanDatetime": "05/04/2026 12:00:00"},
    "an American half day": USUAL | {"scanDatetime": "5/4/2026 12:00 PM"},
    "an American zone": USUAL | {"scanDatetime": "05/04/2026 08:00:00 EDT"},
    "its own day and time": CODE_AND_PHASE | {"scanDate": "05/04/2026", "scanTime": "12:00:00"},
    "an operation alone": {"imb": CODE, "scanDatetime": "2026-05-04T12:00:00Z", "scanEventCode": "893"},
    "much that means nothing": USUAL | {"x": {"y": [1e999]}, "ü": "\u0000\ud800"},
}


def test_columns_are_found_however_they_are_spelled(subtests: pytest.Subtests) -> None:
    for kind, event in COLUMNS.items():
        with subtests.test(kind):
            [found] = scans(as_json(event).replace(b"Infinity", b"1e999"))
            assert found[:3] == (("4" + CODE[1:] if kind == "a number" else CODE), "2a", NOON)
            assert "\\u0000" not in found.raw
            found.raw.encode()


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_lines_with_a_header_are_read(delimiter: str) -> None:
    out, name = io.StringIO(), f'The "big{delimiter}one"\nin Austin'
    writer = csv.DictWriter(out, EVENT.keys(), delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writeheader()
    writer.writerows([EVENT, EVENT | {"scanFacilityName": name}])
    for mark in (b"", b"\xef\xbb\xbf"):
        first, second = scans(mark + out.getvalue().encode())
        assert first[:3] == second[:3] == (CODE, "2a", NOON)
        assert (json.loads(first.raw), json.loads(second.raw)["scanFacilityName"]) == (EVENT, name)


def test_the_older_lines_without_a_header_are_read() -> None:
    lines = f"78710,896,05/04/2026 12:00:00,787011234,{CODE}\r\n\r\n78710,777,05/04/2026 13:00:00,,{CODE}\r\n"
    first, second = scans(lines.encode())
    assert first[:3] == (CODE, "3a", NOON)
    assert first.location == "ZIP 78710"
    assert second[:3] == (CODE, "operation 777", NOON + timedelta(hours=1))
    assert json.loads(first.raw)["operationCode"] == "896"


def test_rows_that_cannot_be_read_are_named_and_passed_over() -> None:
    header = "imb,scanDatetime,mailPhase\n"
    rows = [
        f"{CODE},2026-05-04T12:00:00Z,1", "123,2026-05-04T12:00:00Z,1", f"{CODE},yesterday,1",
        f"{CODE},02/30/2026 12:00:00,1", f"{CODE},1850-01-01T00:00:00Z,1", f"{CODE},2026-05-04T12:00:00Z,1,and more",
        ",2026-05-04T12:00:00Z,1", f"{CODE},,1", f"{CODE},05/04/2026 12:00:00 MOON,1",
        f"{CODE},2026-05-05T12:00:00Z,2",
    ]  # fmt: skip
    found = list(read_scans_from_bytes((header + "\n".join(rows)).encode()))
    assert [row.at.day for row in found if isinstance(row, Scan)] == [4, 5]
    assert {row.row: row.reason for row in found if isinstance(row, BadScanRow)} == {
        3: "its barcode is not 20 or 31 digits",
        4: "its time cannot be read: write 2026-05-04T12:00:00Z or 05/04/2026 12:00:00", 5: "its time does not exist",
        6: "its time is not between 2000 and 2100", 7: "it has 4 columns instead of 3", 8: "it has no barcode",
        9: "it has no time", 10: "its time is in a zone that nobody knows: MOON",
    }  # fmt: skip


def test_json_that_breaks_off_in_one_row_goes_on_with_the_next(subtests: pytest.Subtests) -> None:
    good = as_json(EVENT)
    for broken in (b'{"imb": nonsense}', b"7", b"[]", b'{"imb": "12', b"{" * 100_000, b"null"):
        with subtests.test(broken=broken[:20]):
            rows = b",".join([good, broken, good, good])
            found = list(read_scans_from_bytes(b'{"events": [' + rows + b"]}"))
            assert sum(isinstance(row, Scan) for row in found) >= 2
            assert any(isinstance(row, BadScanRow) for row in found)


def test_a_file_that_is_none_or_unfolds_without_end_is_refused(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [
        b"", b" \n ", b"Dear carrier, thank you.", b"name,address\nJane,12 Main St\n", b"{}", b'{"hello": "world"}',
        b"[1, 2, 3]", b'{"events": "none"}', b'{"error": {"details": []}}', b'{"a": {"b": {"events": [{}]}}}',
        b"\x89PNG\r\n\x1a\n" + bytes(range(256)), b"\x1f\x8b\x08\x00damaged",
        gzip.compress(as_json([EVENT] * 100))[:-20],
    ]  # fmt: skip
    for data in files:
        with subtests.test(data=data[:40]), pytest.raises(InvalidScanFile, match=r"\.$"):
            list(read_scans_from_bytes(data))
    monkeypatch.setattr(source, "MAX_FILE_BYTES", 1_000_000)
    bomb = gzip.compress(b"[" + b" " * 30_000_000)
    with pytest.raises(InvalidScanFile, match="larger than 1,000,000 bytes"):
        list(read_scans_from_bytes(bomb))


def test_an_array_may_be_empty_long_or_in_a_row_and_what_follows_it_is_named() -> None:
    first, second = read_scans_from_bytes(as_json([EVENT]) + b" and so on")
    assert isinstance(first, Scan)
    assert second == BadScanRow(2, "what follows is not JSON")
    assert list(read_scans_from_bytes(b'{"events": []}')) == list(read_scans_from_bytes(b"[]")) == []
    assert list(read_scans_from_bytes(b'{"meta": {"tags": []}, "data": {"events": []}}')) == []
    data = as_json({"data": {"events": [EVENT] * 3_000, "end": True}, "trailer": {"n": 1}})
    assert len(data) > 2 * source.CHUNK_BYTES
    assert [type(row) for row in read_scans_from_bytes(data)] == [Scan] * 3_000
    rows: list[dict[str, Any]] = [{"flags": []}, {"parts": [{"a": 1}]}, {"of": {"events": [{}]}}]
    for extra in rows:
        assert [type(row) for row in read_scans_from_bytes(as_json(EVENT | extra) * 2)] == [Scan, Scan], extra


def test_a_barcode_that_lost_its_zeros_as_a_number_has_them_again() -> None:
    moment = "2026-05-04T12:00:00Z"
    for kind in ("270", "271", "310", "311", "040"):
        for routing in ("", "78701", "787011234", "78701123499"):
            code = f"00{kind}{CODE[5:]}"
            number = int(code + routing)
            assert len(str(number)) < len(code + routing)
            [parsed] = scans(as_json({"imb": number, "scanDatetime": moment, "mailPhase": "2a"}))
            [listed] = scans(f"imb,scanDatetime,mailPhase\n{number},{moment},2a\n".encode())
            assert parsed.tracking == listed.tracking == code
    [found] = scans(f"78710,896,05/04/2026 12:00:00,787011234,{int(CODE)}\n".encode())
    assert found[:3] == (CODE, "3a", NOON)
    whole = {"0" + "1" * 28: "0" + "1" * 19}  # a number does not begin with a zero
    whole |= {"00310" + "9" * 24: "00310" + "9" * 15, "4" * 29: "4" * 20}
    short = {"4" * length: "00" + "4" * 18 for length in (18, 23, 27)}
    short |= {"4" * length: "0" + "4" * 19 for length in (28, 30)}
    for digits, code in (whole | short).items():
        assert parse_barcode(digits) == code
    for digits in ("4" * 16, "4" * 17, "4" * 22, "4" * 26, "0" * 19, "0" * 18, "4" * 32):
        with pytest.raises(UnreadableScan):
            parse_barcode(digits)


def test_lines_end_at_ends_of_lines_alone(monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    for odd, end, piece in product("\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", ("\r\n", "\n", "\r"), (1, 7, 500)):
        with subtests.test(odd=odd, end=end, piece=piece):
            row = f"{CODE},2026-05-04T12:00:00Z,2a,North{odd}gate"
            monkeypatch.setattr(source, "CHUNK_BYTES", piece)
            first, second = scans(end.join(["imb,scanDatetime,mailPhase,city", row, row]).encode())
            assert json.loads(first.raw)["city"] == json.loads(second.raw)["city"] == f"North{odd}gate"


@given(st.binary(max_size=2_000))
@settings(max_examples=300, deadline=None)
def test_no_bytes_break_the_reader(data: bytes) -> None:
    for start in (b"", b"[", b'{"events": [', b"imb,scanDatetime\n", b"\x1f\x8b"):
        try:
            for row in read_scans_from_bytes(start + data):
                assert isinstance(row, Scan | BadScanRow)
        except InvalidScanFile:
            pass


@given(st.text(max_size=400), st.integers(0, 20), st.integers(1, 3_000))
@settings(max_examples=200, deadline=None)
def test_good_rows_are_found_among_any_others(noise: str, before: int, piece: int) -> None:
    lines = [as_json(EVENT | {"eventId": str(n)}) for n in range(before + 1)]
    data = b"[" + b",".join([*lines, as_json({"junk": noise}), as_json(EVENT)]) + b"]"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "CHUNK_BYTES", piece)
        found = list(read_scans_from_bytes(data))
    assert sum(isinstance(row, Scan) for row in found) == before + 2
    assert sum(isinstance(row, BadScanRow) for row in found) == 1


CELL = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30)


@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=30), st.sampled_from(",;\t|"), st.integers(1, 500))
@settings(max_examples=100, deadline=None)
def test_valid_lines_are_always_found(cells: list[tuple[str, str]], delimiter: str, piece: int) -> None:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter)
    writer.writerow(["imb", "scan_datetime", "city", "comment"])
    writer.writerows([CODE, "2026-05-04T12:00:00Z", city, comment] for city, comment in cells)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "CHUNK_BYTES", piece)
        found = list(read_scans_from_bytes(out.getvalue().encode()))
    assert [type(row) for row in found] == [Scan] * len(cells)


def test_a_long_file_is_read_piece_by_piece() -> None:
    data = as_json({"events": [EVENT | {"eventId": str(n)} for n in range(5_000)]})
    assert len(data) > 4 * source.CHUNK_BYTES
    taken: list[int] = []

    class Watched(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            taken.append(size or 0)
            return super().read(size)

    rows = read_scans(Watched(data))
    next(rows)
    assert sum(taken) <= 3 * source.CHUNK_BYTES
    assert 1 + sum(1 for _ in rows) == 5_000
