"""Files of people as they come: encodings, delimiters, quotes, columns, and their rows as people."""

import io
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.core.errors import Invalid
from quillpost.recipients.imports import files, rules
from quillpost.recipients.imports.files import UNCLOSED_QUOTE, read_records, sniff
from quillpost.recipients.imports.models import MAX_CELL_LENGTH, MAX_COLUMNS, FileRecord, RowPlan, SniffedFile
from quillpost.recipients.imports.rules import RowReader, choose_columns, examine_rows, require_address_or_email
from quillpost.recipients.lists.queries import escape_formula
from quillpost.recipients.models import BY_ADDRESS, Person
from quillpost.recipients.rules import INEFFECTIVE_ENTRY, check_recipient

HEAD = "Name,Street,City,State,Zip\n"
JANE = "Jane Doe,12 Main St,Austin,TX,78701\n"


def sniffed(data: str | bytes, **how: Any) -> SniffedFile:
    return sniff(io.BytesIO(data.encode() if isinstance(data, str) else data), **how)


def rows(data: str | bytes) -> list[FileRecord]:
    raw = data.encode() if isinstance(data, str) else data
    return list(read_records(io.BytesIO(raw), sniffed(raw).layout))


def cells(data: str | bytes) -> list[list[str]]:
    return [row.cells for row in rows(data)]


def guessed(data: str, mapping: Mapping[str, Any] | None = None, **how: Any) -> list[str]:
    found = sniffed(data, **how)
    return [column.field for column in choose_columns(found.layout, found.rows, mapping)]


def test_letters_come_through_every_encoding() -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "cp1252"):
        data = (HEAD + "José Müller,12 Straße,Köln,TX,78701\n" * 3).encode(encoding)
        assert sniffed(data).layout.encoding == ("cp1252" if encoding == "latin-1" else encoding)
        assert cells(data)[2] == ["José Müller", "12 Straße", "Köln", "TX", "78701"], encoding
    assert cells((HEAD + "O’Brien – Söhne,1 Main St,A,TX,78701\n").encode("cp1252"))[0][0] == "O’Brien – Söhne"
    across_pieces = (HEAD + JANE.replace("Jane", "Jané") * 60_000).encode()
    assert sniffed(across_pieces).layout.encoding == "utf-8"
    assert all(row.cells[0] == "Jané Doe" for row in rows(across_pieces))
    breaks_off = (HEAD + JANE + "José").encode()[:-1]
    assert (sniffed(breaks_off).layout.encoding, cells(breaks_off)[1]) == ("utf-8", ["Jos\ufffd"])
    one_broken = (HEAD + "José Müller,1 Main St,A,TX,78701\n" * 3).encode() + b"Jos\xe9,2 Main St,A,TX,78701\n"
    assert sniffed(one_broken).layout.encoding == "utf-8"
    assert [row[0] for row in cells(one_broken)] == ["José Müller"] * 3 + ["Jos\ufffd"]


def test_what_divides_the_cells_is_seen_and_each_row_has_its_line() -> None:
    for delimiter in (",", "\t", ";", "|"):
        data = (HEAD + JANE * 2).replace(",", delimiter)
        assert sniffed(data).layout.delimiter == delimiter
        assert cells(data) == [["Jane Doe", "12 Main St", "Austin", "TX", "78701"]] * 2
    semicolons = 'Name;Address\nJane;"12 Main St, Austin, TX 78701"\nJo;1 Elm St, Austin, TX 78701\n'
    assert cells(semicolons)[1] == ["Jo", "1 Elm St, Austin, TX 78701"]
    single_column = "Address\n12 Main St, Austin, TX 78701\n14 Main St, Austin, TX 78701\n"
    assert cells(single_column) == [["12 Main St, Austin, TX 78701"], ["14 Main St, Austin, TX 78701"]]
    assert guessed(single_column) == ["address"]
    assert cells(HEAD + 'Jane "JD" Doe,5" Pipe St,A,TX,78701\n')[0][:2] == ['Jane "JD" Doe', '5" Pipe St']
    for end in ("\n", "\r\n", "\r"):
        found = rows((HEAD + JANE + "\n" + '"Jane\nDoe",1 A St,B,TX,78701\n' + JANE).replace("\n", end))
        assert [(row.line, row.cells[0]) for row in found] == [(2, "Jane Doe"), (4, f"Jane{end}Doe"), (6, "Jane Doe")]
    assert [row.line for row in rows(HEAD + "\n" + JANE + ",,,,\n \t\n" + JANE)] == [3, 6], "blank rows are passed over"
    unclosed = rows(HEAD + JANE + '"Jane Doe,12 Main St,Austin,TX,78701\n' + JANE)
    assert [(row.line, row.error) for row in unclosed] == [(2, None), (3, UNCLOSED_QUOTE)]
    too_large = rows(HEAD + JANE + f"{'x' * (MAX_CELL_LENGTH + 1)},1 A St,B,TX,78701\n" + JANE)
    assert [(row.line, row.error is None) for row in too_large] == [(2, True), (3, False), (4, True)]


def test_a_row_without_end_is_no_trap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_ROW_LENGTH", 10_000)
    found = rows(HEAD + JANE * 300 + 'a,"\n' + '",b,"\n' * 5_000)
    assert any(row.error for row in found[300:])
    assert max(sum(map(len, row.cells)) for row in found) <= 10_000


MANY_COLUMNS = ",".join(f"c{n}" for n in range(10_000))
NO_TABLES = (
    (b"%PDF-1.7\n1 0 obj\n", "a PDF"), (b"\x89PNG\r\n\x1a\n" + bytes(100), "a PNG picture"),
    (b"PK\x05\x06" + bytes(18), "a zip archive"), (b"\x1f\x8b\x08" + bytes(30), "gzip"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "save it as .xlsx"),
    (b"<!DOCTYPE html><html></html>", "a web page"), (bytes(range(256)) * 20, "no text"), (b"", "empty"),
    (b" \n\n", "empty"), (HEAD.encode(), "nobody below it"), (b"x" * 2_100_000, "line of the file is longer"),
    (f"{MANY_COLUMNS}\n{MANY_COLUMNS}\n".encode(), "10,000 columns"),
    (f"{MANY_COLUMNS}\n{MANY_COLUMNS}\n".encode(), f"{MAX_COLUMNS:,}"),
)  # fmt: skip


def test_a_file_that_is_no_table_of_people_is_refused(subtests: pytest.Subtests) -> None:
    for data, what in NO_TABLES:
        with subtests.test(what):
            with pytest.raises(Invalid) as refused:
                sniffed(data)
            assert list(refused.value.fields) == ["file"]
            assert what in refused.value.message


@given(st.binary(max_size=400))
def test_whatever_comes_is_read_or_refused(data: bytes) -> None:
    try:
        found = sniffed(data)
    except Invalid:
        return
    for row in read_records(io.BytesIO(data), found.layout):
        assert row.error or any(cell.strip() for cell in row.cells)
    choose_columns(found.layout, found.rows, None)


HEADERS = {
    "First Name,Last Name,E-Mail,Mobile": "first_name last_name email phone",
    "Name,Address Line 1,Address Line 2,City,State,ZIP Code,Country":
        "name address address2 city province postal_code country",
    "name,full_address": "name full_address",
    "Street Number,Route,Locality,Zip": "street_number street_name city postal_code",
    "Billing Street,Billing City,Shipping Street,Shipping City": "  address city",
    "Email,email,E-mail": "email  ",
    "custom_1,Custom Field 2,dob,Anniversary Date": "custom1 custom2 dob anniversary",
    "Shoe size,Address": " address",
}  # fmt: skip


def test_columns_are_known_by_their_names_or_by_their_cells(subtests: pytest.Subtests) -> None:
    for header, fields in HEADERS.items():
        with subtests.test(header):
            assert guessed(f"{header}\n{','.join('x' for _ in header.split(','))}\n") == fields.split(" ")
    nameless = "".join(f"Jane Doe,{n} Main St,San Antonio,TX,78701,jane{n}@example.com\n" for n in range(9))
    assert guessed(nameless) == ["name", "address", "city", "province", "postal_code", "email"]
    assert guessed("Wer,Wo\n" + '"Jane","12 Main St, Austin, TX 78701"\n' * 5) == ["", "address"]
    assert sniffed(HEAD + JANE).layout.has_header
    assert not sniffed(JANE + JANE).layout.has_header
    assert not sniffed(HEAD + JANE, has_header=False).layout.has_header
    assert sniffed("Nom,Rue\nJane,12 Main St\n").layout.has_header
    assert sniffed(JANE * 2).layout.names == ("Column 1", "Column 2", "Column 3", "Column 4", "Column 5")


WRONG_MAPPINGS: tuple[tuple[dict[str, Any], str, str], ...] = (
    ({"Rue": "address"}, "mapping.Rue", "There is no such column. The columns are Name, Street, Name."),
    ({"Street": "strasse"}, "mapping.Street", "A column can hold name, company, address"),
    ({"Street": 7}, "mapping.Street", "A column can hold"),
    ({"0": "email", "1": "email"}, "mapping.1", "Another column is mapped to email already."),
    ({"Name": "name"}, "mapping.Name", "Several columns have this name: say which by its number, here 0"),
    ({"9": "name"}, "mapping.9", "There is no such column."),
)


def test_a_mapping_wins_and_a_wrong_one_is_named(subtests: pytest.Subtests) -> None:
    data = "Name,Nickname,Street,Notes\nJane Doe,JD,12 Main St,x\n"
    assert guessed(data) == ["name", "", "address", ""]
    assert guessed(data, {"Nickname": "name", "3": "custom1"}) == ["", "name", "address", "custom1"]
    assert guessed(data, {"Street": "", "0": None}) == ["", "", "", ""]
    for mapping, path, error in WRONG_MAPPINGS:
        with subtests.test(str(mapping)):
            with pytest.raises(Invalid) as refused:
                guessed("Name,Street,Name\nJane,12 Main St,Doe\n", mapping)
            assert list(refused.value.fields) == [path]
            assert error in refused.value.fields[path][0]
    found = sniffed("Shoe size,Colour\n9,red\n")
    with pytest.raises(Invalid, match=r"map one to address or email\. The columns are Shoe size, Colour\."):
        require_address_or_email(choose_columns(found.layout, found.rows, None))


def read_row(suppress_by: str | None = None, **row: str) -> Person | str:
    return RowReader(RowPlan(list(enumerate(row)), len(row), suppress_by)).read_person(list(row.values()))


def made(**row: str) -> Person:
    found = read_row(**row)
    assert isinstance(found, Person), found
    return found


ROW: dict[str, Any] = {
    "name": "Jane Doe", "address": "12 Main St", "city": "Austin", "province": "TX", "postal_code": "78701",
}  # fmt: skip


def test_a_row_is_put_together_and_checked_like_a_recipient_of_the_api() -> None:
    assert made(**ROW) == check_recipient(ROW, allow_incomplete=True)[0]
    found = made(first_name="Jane", last_name="Doe", address="1 King St", city="Toronto", country="Canada")
    assert (found.name, found.country) == ("Jane Doe", "CA")
    assert made(first_name="Jane", last_name="", email="j@example.com").name == "Jane"
    assert made(street_number="12", street_name="Main St", city="Austin").address == "12 Main St"
    whole = made(full_address="12 Main St, Austin, TX 78701")
    assert (whole.address, whole.city, whole.postal_code) == ("12 Main St", "Austin", "78701")
    two = made(**ROW | {"address": "12 Main St\nSuite 4"})
    assert (two.address, two.address2) == ("12 Main St", "Suite 4")
    assert made(**ROW | {"province": "MA", "city": "Cambridge", "postal_code": "2139"}).postal_code == "02139"
    assert made(address="1 Rue X", city="Y", postal_code="2139", country="CH").postal_code == "2139"
    assert str(made(email="j@example.com", dob="1980-02-29T00:00:00").dob) == "1980-02-29"
    for value in ("=1+1", "'=1+1", "-1", "@x", "''+1", "'tis", "plain", "＝1"):
        assert made(email="j@example.com", custom1=escape_formula(value)).custom[0] == value
        assert not escape_formula(value).startswith(("=", "+", "-", "@", "＝"))


WRONG_ROWS = (
    ({"name": "Jane"}, "address: Give an address, or at least an email."),
    (ROW | {"postal_code": "78"}, "postal_code: A ZIP code has 5 digits, or 5-4."),
    # 7870 of Austin lacks its last digit: 07870 is in New Jersey.
    (ROW | {"postal_code": "7870"}, "postal_code: A ZIP code has 5 digits, or 5-4."),
    (ROW | {"name": "Jos\ufffd"}, "name holds a broken character"),
    (ROW | {"name": "a\x00b"}, "name holds a NUL character"),
    (ROW | {"name": "x" * 301}, "name: At most 300 characters, please."),
    ({"email": "nobody"}, "email: This is not an e-mail address."),
)


def test_a_row_that_cannot_be_taken_says_why(subtests: pytest.Subtests) -> None:
    for row, error in WRONG_ROWS:
        with subtests.test(error):
            found = read_row(**row)
            assert isinstance(found, str)
            assert error in found
    assert read_row(BY_ADDRESS, address="12 Main St", name="Jane") == f"address: {INEFFECTIVE_ENTRY}"
    assert isinstance(read_row(None, address="12 Main St", name="Jane"), Person)
    assert isinstance(read_row(BY_ADDRESS, **ROW), Person)


def test_short_rows_lack_something_long_ones_say_too_much_and_those_that_could_not_be_read_are_rejected() -> None:
    reader = RowReader(RowPlan([(0, "email"), (1, "name")], 2))
    assert isinstance(reader.read_person(["j@example.com"]), Person)
    assert isinstance(reader.read_person(["j@example.com", "Jane", "", " "]), Person)
    assert "The row has 3 cells, and there are 2 columns" in str(reader.read_person(["j@example.com", "Jane", "TX"]))
    left_out = RowReader(RowPlan([(0, "email")], 2)).read_person(["j@example.com", "\ufffd"])
    assert isinstance(left_out, Person), "a broken letter in a column that is left out harms nobody"
    reader, found = RowReader(RowPlan([(0, "email")], 1)), [["a@example.com"], [], ["b"]]
    people, rejects = examine_rows(reader, 7, 40, [41, 42, 43], found, {1: "too\tlong"})
    assert [line.split("\t")[:2] for line in people] == [["40", "41"]]
    assert rejects == ["7\t41\t42\ttoo\\tlong\n", "7\t42\t43\temail: This is not an e-mail address.\n"]


ARRAYS: tuple[tuple[tuple[str | None, ...] | None, str | None], ...] = (
    (None, None), ((), "{}"), (("A", None, "B C"), '{"A",NULL,"B C"}'), ((None,), "{NULL}"),
    (('A "B"', "C\\D"), '{"A \\"B\\"","C\\\\D"}'), (("A\tB",), '{"A\tB"}'),
)  # fmt: skip


def test_what_copy_would_take_for_a_sign_of_its_own_comes_through(subtests: pytest.Subtests) -> None:
    for texts, written in ARRAYS:
        with subtests.test(str(texts)):
            assert rules.format_array(texts) == written
    reader = RowReader(RowPlan([(0, "email"), (1, "custom1"), (2, "custom3")], 3))
    signs = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\\\": "\\"}
    for odd in ("plain", "back\\slash", "tab\there", "line\nbreak", "return\rhere", "unit\x1fmark", "N\\N"):
        with subtests.test(odd):
            [line], _ = examine_rows(reader, 7, 0, [2], [["a@example.com", odd, "after"]], {})
            assert line.endswith("\n")
            found = line[:-1].split("\t")
            assert len(found) == 30
            read = [None if cell == "\\N" else re.sub(r"\\.", lambda sign: signs[sign[0]], cell) for cell in found]
            assert read[14:18] == [odd, None, "after", None]
