"""Files of people as they come: encodings, delimiters, quotes, and what is no table at all."""

import io
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.core.errors import Invalid
from quillpost.recipients.imports import files
from quillpost.recipients.imports.files import UNCLOSED_QUOTE, read_records, sniff
from quillpost.recipients.imports.models import MAX_CELL_LENGTH, MAX_COLUMNS, FileRecord, SniffedFile
from quillpost.recipients.imports.rules import choose_columns, require_address_or_email

HEAD = "Name,Street,City,State,Zip\n"
JANE = "Jane Doe,12 Main St,Austin,TX,78701\n"


def sniffed(data: str | bytes, **how: Any) -> SniffedFile:
    return sniff(io.BytesIO(data.encode() if isinstance(data, str) else data), **how)


def rows(data: str | bytes) -> list[FileRecord]:
    raw = data.encode() if isinstance(data, str) else data
    return list(read_records(io.BytesIO(raw), sniffed(raw).layout))


def cells(data: str | bytes) -> list[list[str]]:
    return [row.cells for row in rows(data)]


def refusal(data: str | bytes, **how: Any) -> str:
    with pytest.raises(Invalid) as refused:
        sniffed(data, **how)
    assert list(refused.value.fields) == ["file"]
    return refused.value.message


def guessed(data: str, mapping: Mapping[str, Any] | None = None, **how: Any) -> list[str]:
    found = sniffed(data, **how)
    return [column.field for column in choose_columns(found.layout, found.rows, mapping)]


@pytest.mark.parametrize(
    ("encoding", "found"),
    [
        ("utf-8", "utf-8"),
        ("utf-8-sig", "utf-8-sig"),
        ("utf-16", "utf-16"),
        ("utf-16-le", "utf-16-le"),
        ("utf-16-be", "utf-16-be"),
        ("latin-1", "cp1252"),
        ("cp1252", "cp1252"),
    ],
)
def test_letters_come_through_every_encoding(encoding: str, found: str) -> None:
    text = HEAD + "José Müller,12 Straße,Köln,TX,78701\n" * 3
    data = text.encode(encoding)
    assert sniffed(data).layout.encoding == found
    assert cells(data)[2] == ["José Müller", "12 Straße", "Köln", "TX", "78701"]


def test_the_signs_of_windows_are_not_those_of_latin_1() -> None:
    assert cells((HEAD + "O’Brien – Söhne,1 Main St,A,TX,78701\n").encode("cp1252"))[0][0] == "O’Brien – Söhne"


def test_a_letter_across_two_pieces_is_one_letter() -> None:
    data = (HEAD + JANE.replace("Jane", "Jané") * 60_000).encode()
    assert sniffed(data).layout.encoding == "utf-8"
    assert all(row.cells[0] == "Jané Doe" for row in rows(data))


def test_a_file_that_breaks_off_within_a_letter_was_utf_8() -> None:
    data = (HEAD + JANE + "José").encode()[:-1]
    assert sniffed(data).layout.encoding == "utf-8"
    assert cells(data)[1] == ["Jos\ufffd"]


def test_one_broken_letter_among_good_ones_is_no_other_encoding() -> None:
    data = (HEAD + "José Müller,1 Main St,A,TX,78701\n" * 3).encode() + b"Jos\xe9,2 Main St,A,TX,78701\n"
    assert sniffed(data).layout.encoding == "utf-8"
    assert [row[0] for row in cells(data)] == ["José Müller"] * 3 + ["Jos\ufffd"]


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
def test_what_divides_the_cells_is_seen(delimiter: str) -> None:
    data = (HEAD + JANE * 2).replace(",", delimiter)
    assert sniffed(data).layout.delimiter == delimiter
    assert cells(data) == [["Jane Doe", "12 Main St", "Austin", "TX", "78701"]] * 2


def test_commas_within_the_cells_of_a_file_with_semicolons_divide_nothing() -> None:
    assert cells('Name;Address\nJane;"12 Main St, Austin, TX 78701"\nJo;1 Elm St, Austin, TX 78701\n')[1] == [
        "Jo",
        "1 Elm St, Austin, TX 78701",
    ]


def test_a_single_column_is_not_divided() -> None:
    data = "Address\n12 Main St, Austin, TX 78701\n14 Main St, Austin, TX 78701\n"
    assert cells(data) == [["12 Main St, Austin, TX 78701"], ["14 Main St, Austin, TX 78701"]]
    assert guessed(data) == ["address"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_they_do_anywhere(end: str) -> None:
    found = rows((HEAD + JANE + "\n" + '"Jane\nDoe",1 A St,B,TX,78701\n' + JANE).replace("\n", end))
    assert [(row.line, row.cells[0]) for row in found] == [(2, "Jane Doe"), (4, f"Jane{end}Doe"), (6, "Jane Doe")]


def test_blank_lines_and_rows_of_blank_cells_are_passed_over() -> None:
    assert [row.line for row in rows(HEAD + "\n" + JANE + ",,,,\n \t\n" + JANE)] == [3, 6]


def test_an_unclosed_quote_is_reported_where_it_opens() -> None:
    found = rows(HEAD + JANE + '"Jane Doe,12 Main St,Austin,TX,78701\n' + JANE)
    assert [(row.line, row.error) for row in found] == [(2, None), (3, UNCLOSED_QUOTE)]


def test_a_quote_in_the_middle_of_a_cell_is_a_letter() -> None:
    assert cells(HEAD + 'Jane "JD" Doe,5" Pipe St,A,TX,78701\n')[0][:2] == ['Jane "JD" Doe', '5" Pipe St']


def test_a_cell_beyond_all_measure_costs_its_row_alone() -> None:
    found = rows(HEAD + JANE + f"{'x' * (MAX_CELL_LENGTH + 1)},1 A St,B,TX,78701\n" + JANE)
    assert [row.error is None for row in found] == [True, False, True]
    assert found[1].line == 3


def test_a_row_without_end_is_no_trap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_ROW_LENGTH", 10_000)
    found = rows(HEAD + JANE * 300 + 'a,"\n' + '",b,"\n' * 5_000)
    assert any(row.error for row in found[300:])
    assert max(sum(map(len, row.cells)) for row in found) <= 10_000


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"%PDF-1.7\n1 0 obj\n", "a PDF"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "a PNG picture"),
        (b"PK\x05\x06" + bytes(18), "a zip archive"),
        (b"\x1f\x8b\x08" + bytes(30), "gzip"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "save it as .xlsx"),
        (b"<!DOCTYPE html><html></html>", "a web page"),
        (bytes(range(256)) * 20, "no text"),
        (b"", "empty"),
        (b" \n\n", "empty"),
        (HEAD.encode(), "nobody below it"),
        (b"x" * 2_100_000, "line of the file is longer"),
    ],
)
def test_a_file_that_is_no_table_of_people_is_refused(data: bytes, what: str) -> None:
    assert what in refusal(data)


def test_ten_thousand_columns_are_too_many() -> None:
    line = ",".join(f"c{n}" for n in range(10_000))
    message = refusal(f"{line}\n{line}\n")
    assert "10,000 columns" in message
    assert f"{MAX_COLUMNS:,}" in message


def test_the_first_row_is_a_header_where_it_names_things() -> None:
    assert sniffed(HEAD + JANE).layout.has_header
    assert not sniffed(JANE + JANE).layout.has_header
    assert not sniffed(HEAD + JANE, has_header=False).layout.has_header
    assert sniffed("Nom,Rue\nJane,12 Main St\n").layout.has_header
    assert sniffed(JANE * 2).layout.names == ("Column 1", "Column 2", "Column 3", "Column 4", "Column 5")


@pytest.mark.parametrize(
    ("header", "fields"),
    [
        ("First Name,Last Name,E-Mail,Mobile", "first_name last_name email phone"),
        ("Name,Address Line 1,Address Line 2,City,State,ZIP Code,Country",
         "name address address2 city province postal_code country"),
        ("name,full_address", "name full_address"),
        ("Street Number,Route,Locality,Zip", "street_number street_name city postal_code"),
        ("Billing Street,Billing City,Shipping Street,Shipping City", "  address city"),
        ("Email,email,E-mail", "email  "),
        ("custom_1,Custom Field 2,dob,Anniversary Date", "custom1 custom2 dob anniversary"),
        ("Shoe size,Address", " address"),
    ],
)  # fmt: skip
def test_columns_are_known_by_what_others_call_them(header: str, fields: str) -> None:
    row = ",".join("x" for _ in header.split(","))
    assert guessed(f"{header}\n{row}\n") == fields.split(" ")


def test_without_names_the_cells_show_what_they_are() -> None:
    data = "".join(f"Jane Doe,{n} Main St,San Antonio,TX,78701,jane{n}@example.com\n" for n in range(9))
    assert guessed(data) == ["name", "address", "city", "province", "postal_code", "email"]


def test_a_column_of_whole_addresses_is_seen_whatever_it_is_called() -> None:
    data = "Wer,Wo\n" + '"Jane","12 Main St, Austin, TX 78701"\n' * 5
    assert guessed(data) == ["", "address"]


def test_a_mapping_wins_and_leaves_the_rest_to_the_guess() -> None:
    data = "Name,Nickname,Street,Notes\nJane Doe,JD,12 Main St,x\n"
    assert guessed(data) == ["name", "", "address", ""]
    assert guessed(data, {"Nickname": "name", "3": "custom1"}) == ["", "name", "address", "custom1"]
    assert guessed(data, {"Street": "", "0": None}) == ["", "", "", ""]


@pytest.mark.parametrize(
    ("mapping", "path", "error"),
    [
        ({"Rue": "address"}, "mapping.Rue", "There is no such column. The columns are Name, Street, Name."),
        ({"Street": "strasse"}, "mapping.Street", "A column can hold name, company, address"),
        ({"Street": 7}, "mapping.Street", "A column can hold"),
        ({"0": "email", "1": "email"}, "mapping.1", "Another column is mapped to email already."),
        ({"Name": "name"}, "mapping.Name", "Several columns have this name: say which by its number, here 0"),
        ({"9": "name"}, "mapping.9", "There is no such column."),
    ],
)  # fmt: skip
def test_a_wrong_mapping_is_named(mapping: dict[str, Any], path: str, error: str) -> None:
    with pytest.raises(Invalid) as refused:
        guessed("Name,Street,Name\nJane,12 Main St,Doe\n", mapping)
    assert list(refused.value.fields) == [path]
    assert error in refused.value.fields[path][0]


def test_an_address_or_email_column_is_required() -> None:
    found = sniffed("Shoe size,Colour\n9,red\n")
    with pytest.raises(Invalid, match=r"map one to address or email\. The columns are Shoe size, Colour\."):
        require_address_or_email(choose_columns(found.layout, found.rows, None))


@given(st.binary(max_size=400))
def test_whatever_comes_is_read_or_refused(data: bytes) -> None:
    try:
        found = sniffed(data)
    except Invalid:
        return
    for row in read_records(io.BytesIO(data), found.layout):
        assert row.error or any(cell.strip() for cell in row.cells)
    choose_columns(found.layout, found.rows, None)
