"""Filling a list from a file, over the API."""

import json
from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.recipients.imports import service as import_service
from quillpost.web.application import create_app
from support.factories import Account, Build, make_account, make_sub_account, make_teammate
from support.imports import HEAD, JANE, JOHN, Importer, counts
from support.mailing_lists import ListOwner, field_errors, message
from support.test_client import TestClient
from support.workbooks import packed, workbook


@pytest.fixture
def importer(owner: Account, container: Container) -> Importer:
    return Importer(ListOwner(owner), container)


def test_everyone_of_a_file_is_on_the_list_in_its_order(importer: Importer) -> None:
    list_id = importer.lists.make()
    begun = importer.upload(list_id)
    assert begun.status_code == 202
    body = begun.json()
    assert (body["status"], body["progress"], body["rows_total"]) == ("waiting", 0, None)
    assert body["columns"][1] == {"column": "Street", "sample": "12 Main St", "field": "address"}
    assert not importer.lists.read(list_id)["processed"]
    assert importer.names(list_id) == []
    done = importer.fill(body["id"])
    assert (done["status"], done["progress"], done["rows_total"], done["error"]) == ("done", 1, 2, None)
    assert counts(done) == (2, 2, 0, 0)
    assert (done["rejected_url"], done["finished_at"] is None) == (None, False)
    assert importer.names(list_id) == ["Jane Doe", "John Roe"]
    known = importer.lists.read(list_id)
    assert (known["processed"], known["total_recipients"], known["type"]) == (True, 2, "csv")


def test_a_list_that_has_people_keeps_its_type(importer: Importer) -> None:
    list_id = importer.lists.make()
    importer.lists.fill(list_id, "1 Main St")
    importer.run(list_id, HEAD + JANE)
    assert importer.lists.read(list_id)["type"] == "manual"


def test_rejected_rows_come_with_their_line_their_reason_and_all_their_cells(importer: Importer) -> None:
    list_id = importer.lists.make()
    importer.lists.fill(list_id, "12 Main St")
    data = (
        "Name,Street,City,State,Zip,Note\n"
        "Jane Doe,12 Main St,Austin,TX,78701,\n"
        '"John\nRoe",14 Main St,Austin,TX,78701,=cmd()\n'
        "Jim Poe,14  MAIN ST.,Austin,TX,78701,-1\n"
        "Joe Bad,16 Main St,Austin,TX,1,x\n"
        "\n"
        "Too,Many,Cells,TX,78701,x,y\n"
    )
    done = importer.run(list_id, data)
    assert counts(done) == (5, 1, 4, 2)
    assert done["rejected_url"].endswith(f"/api/v2/imports/{done['id']}/rejected.csv")
    header, *rows = importer.rejected(done["id"])
    assert header == ["line", "reason", "Name", "Street", "City", "State", "Zip", "Note"]
    assert [row[0] for row in rows] == ["2", "5", "6", "8"]
    assert rows[0][1] == "address: This address is already on this mailing list."
    assert rows[1][1:] == [
        "address: Line 3 of the file has the same address.",
        *("Jim Poe", "14  MAIN ST.", "Austin", "TX", "78701", "'-1"),
    ]
    assert rows[2][1] == "postal_code: A ZIP code has 5 digits, or 5-4."
    assert rows[3][-1] == "y"


def test_people_without_an_address_are_distinguished_by_email(importer: Importer) -> None:
    list_id = importer.lists.make()
    importer.lists.add_email(list_id, "Old@example.com")
    done = importer.run(list_id, "Email,Name\na@example.com,A\nA@Example.com,B\nold@example.com,C\nb@example.com,D\n")
    assert counts(done) == (4, 2, 2, 2)
    assert [row[1] for row in importer.rejected(done["id"])[1:]] == [
        "email: Line 2 of the file has the same e-mail.",
        "email: This e-mail is already on this mailing list.",
    ]
    assert importer.names(list_id) == [None, "A", "D"]


def test_the_same_rules_hold_on_a_suppression_list(importer: Importer) -> None:
    list_id = importer.lists.make(is_suppression_list=True)
    done = importer.run(list_id, HEAD + JANE + "John,14 Main St,,,\n")
    assert counts(done) == (2, 1, 1, 0)
    assert "On a suppression list an address needs its ZIP code" in importer.rejected(done["id"])[1][1]


def test_a_preview_tells_what_would_be_read_and_keeps_nothing(importer: Importer) -> None:
    list_id = importer.lists.make()
    shown = importer.upload(list_id, "Shoe;Size\nred;9\n", to="/imports/preview")
    assert shown.status_code == 200
    body = shown.json()
    assert (body["header"], body["delimiter"], body["rows"]) == (True, ";", [["red", "9"]])
    assert body["columns"][0] == {"column": "Shoe", "sample": "red", "field": ""}
    assert "map one" in body["error"]
    assert {"address", "first_name", "full_address"} <= set(body["fields"])
    mapped = importer.upload(list_id, "Shoe;Size\nred;9\n", to="/imports/preview", mapping='{"Shoe": "address"}')
    assert (mapped.json()["error"], mapped.json()["columns"][0]["field"]) == (None, "address")
    assert importer.files == []
    assert importer.lists.read(list_id)["processed"]


def test_a_workbook_is_read_as_its_reader_sees_it(importer: Importer) -> None:
    list_id = importer.lists.make()
    rows: list[list[str | float]] = [
        ["Name", "Street", "City", "State", "Zip"],
        ["Jane", "12 Main St", "Boston", "MA", 2108],
        [],
        ["Joe", "14 Main St", "Austin", "TX", 7.5],
    ]
    done = importer.run(list_id, workbook(rows), name="people.xlsx")
    assert counts(done) == (2, 1, 1, 0)
    assert importer.lists.on(list_id)[0]["postal_code"] == "02108"
    assert importer.rejected(done["id"])[1][0] == "4"


@pytest.mark.parametrize(
    ("data", "refusal"),
    [
        (b"%PDF-1.4\n%...", "This file is a PDF. Send a CSV, TSV or .xlsx file."),
        (packed({"a.txt": "hello"}), "This file is a zip archive and no workbook."),
        (workbook([]), "No sheet of the workbook holds anything."),
        (workbook([["a"]])[:-30], "The workbook is damaged, or too large to be read"),
        (b"", "The file is empty."),
        (",".join(map(str, range(10_000))).encode() + b"\n1,2\n", "The file has 10,000 columns"),
    ],
)
def test_what_cannot_be_imported_is_refused_and_leaves_nothing(importer: Importer, data: bytes, refusal: str) -> None:
    list_id = importer.lists.make()
    refused = field_errors(importer.upload(list_id, data))
    assert list(refused) == ["file"]
    assert refusal in refused["file"][0]
    assert importer.files == []
    assert importer.lists.read(list_id)["processed"]
    assert importer.lists.account.get(f"/mailing-lists/{list_id}/imports").json() == {"data": []}


def test_a_workbook_that_swells_is_refused(importer: Importer) -> None:
    swelling = packed({"xl/workbook.xml": "x", "xl/worksheets/sheet1.xml": " " * 1_100_000})
    bomb = swelling.replace((1_100_000).to_bytes(4, "little"), (2_000_000_000).to_bytes(4, "little"))
    blank = workbook([["Name", "Address"], ["Jane", "12 Main St, Austin, TX 78701"], [" " * 25_000_000]])
    for data in (bomb, blank):
        assert "too large" in field_errors(importer.upload(importer.lists.make(), data))["file"][0]


def test_without_an_address_and_an_email_a_column_must_be_mapped(importer: Importer) -> None:
    refused = field_errors(importer.upload(importer.lists.make(), "Shoe,Size\nred,9\n"))
    assert "map one to address or email. The columns are Shoe, Size." in refused["mapping"][0]
    assert importer.files == []


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"mapping": "{"}, "mapping"),
        ({"mapping": "[1]"}, "mapping"),
        ({"mapping": '{"Rue": "address"}'}, "mapping.Rue"),
        ({"mapping": '{"R\\ud800ue\\u0000": "address"}'}, "mapping.R\ufffdue\ufffd"),
        ({"header": "perhaps"}, "header"),
    ],
)
def test_wrong_fields_are_named(importer: Importer, fields: dict[str, Any], path: str) -> None:
    assert list(field_errors(importer.upload(importer.lists.make(), **fields))) == [path]


def test_a_column_whose_name_cannot_be_kept_is_known_by_what_is_left_of_it(importer: Importer) -> None:
    head = HEAD.replace("Name", "Na\x00me").replace("Street", "St\x07reet" + "!" * 200)
    mapping = json.dumps({"Na\x00me": "name", "St\x07reet" + "!" * 200: "address"})
    begun = importer.upload(importer.lists.make(), head + JANE * 5, mapping=mapping)
    assert begun.status_code == 202, begun.text
    names = [column["column"] for column in begun.json()["columns"]]
    assert names == ["Na\ufffdme", "St\ufffdreet" + "!" * 93, "City", "State", "Zip"]
    assert counts(importer.fill(begun.json()["id"])) == (5, 1, 4, 4)


def test_the_mapping_decides(importer: Importer) -> None:
    list_id = importer.lists.make()
    mapping = json.dumps({"City": "name", "Name": "city"})
    done = importer.run(list_id, HEAD + "Austin,12 Main St,Jane Doe,TX,78701\n", mapping=mapping)
    assert counts(done) == (1, 1, 0, 0)
    assert importer.names(list_id) == ["Jane Doe"]


def test_without_a_header_the_first_row_is_a_person(importer: Importer) -> None:
    list_id = importer.lists.make()
    importer.run(list_id, JANE + JOHN)
    assert importer.names(list_id) == ["Jane Doe", "John Roe"]
    mapped = {"header": "false", "mapping": '{"0": "name", "1": "address"}'}
    assert counts(importer.run(importer.lists.make(), HEAD + JANE, **mapped))[0] == 2


def test_the_body_may_be_the_file_itself(importer: Importer) -> None:
    list_id = importer.lists.make()
    begun = importer.lists.account.call(
        "POST",
        f"/mailing-lists/{list_id}/import?file_name=crm.csv",
        content=(HEAD + JANE).encode("utf-16"),
        headers={"Content-Type": "text/csv"},
    )
    assert begun.status_code == 202, begun.text
    assert begun.json()["file_name"] == "crm.csv"
    assert counts(importer.fill(begun.json()["id"])) == (1, 1, 0, 0)


def test_the_error_for_a_missing_file_says_how_to_send_one(importer: Importer) -> None:
    list_id = importer.lists.make()
    path = f"/mailing-lists/{list_id}/import"
    status, refusal = message(importer.lists.account.post(path, {"file": "x"}))
    assert (status, "multipart/form-data in the field `file`" in refusal) == (415, True)
    named = importer.lists.account.call("POST", path, files={"data": ("a.csv", b"x")})
    assert list(field_errors(named)) == ["file"]
    cut = importer.lists.account.call(
        "POST",
        path,
        content=b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nName',
        headers={"Content-Type": "multipart/form-data; boundary=x"},
    )
    assert field_errors(cut) == {"body": ["The form cannot be read: it ends too early."]}
    assert importer.files == []


def test_only_a_file_may_be_larger_than_other_bodies(build: Build, owner: Account, container: Container) -> None:
    assert container.limits.import_bytes > container.limits.body_bytes
    lists = ListOwner(owner)
    large = HEAD + JANE + "x," * 30_000 + "\n"
    small = build(body_bytes=20_000, import_bytes=50_000)
    with TestClient(create_app(small), base_url="http://quillpost.test") as http:
        uploader = Importer(ListOwner(Account(owner.id, owner.token, http)), small)
        list_id = lists.make()
        refusal = message(uploader.upload(list_id, large))
        assert refusal == (413, "The file is larger than this service accepts (50,000 bytes).")
        assert uploader.upload(list_id, HEAD + JANE + "x" * 30_000 + "\n").status_code == 202
        assert uploader.lists.account.post("/mailing-lists", {"description": "x" * 30_000}).status_code == 413


def test_the_same_key_is_the_same_import(importer: Importer) -> None:
    list_id = importer.lists.make()
    key = {"Idempotency-Key": "once"}
    first, again = (importer.upload(list_id, headers=key) for _ in range(2))
    assert (first.status_code, first.json()["id"]) == (again.status_code, again.json()["id"])
    assert len(importer.files) == 1
    assert importer.upload(list_id, HEAD + JANE, headers=key).status_code == 409


def test_one_file_at_a_time(importer: Importer) -> None:
    list_id = importer.lists.make()
    begun = importer.upload(list_id).json()
    assert message(importer.upload(list_id)) == (409, import_service.LIST_BUSY)
    assert len(importer.files) == 1
    importer.fill(begun["id"])
    assert importer.upload(list_id).status_code == 202


def test_a_cancelled_import_puts_nobody_on_the_list(importer: Importer) -> None:
    list_id = importer.lists.make()
    begun = importer.upload(list_id).json()
    cancelled = importer.lists.account.post(f"/imports/{begun['id']}/cancel")
    assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")
    assert importer.lists.read(list_id)["processed"]
    assert importer.fill(begun["id"])["status"] == "cancelled"
    assert importer.names(list_id) == []
    assert message(importer.lists.account.post(f"/imports/{begun['id']}/cancel")) == (
        409,
        "This import is cancelled already.",
    )


def test_nothing_is_sent_to_a_list_that_is_being_filled(importer: Importer) -> None:
    list_id = importer.lists.make()
    begun = importer.upload(list_id).json()
    body = {"recipients": None, "mailing_list_ids": [list_id]}
    refused = field_errors(importer.lists.account.send(**body))
    refusal = f"List {list_id} is being filled: send when its processed is true, or cancel the import."
    assert refusal in [error for found in refused.values() for error in found]
    importer.fill(begun["id"])
    assert importer.lists.account.send(**body).status_code == 200


def test_a_list_that_is_being_filled_stays_what_it_is(importer: Importer) -> None:
    lists = importer.lists
    list_id, other = lists.make(), lists.make()
    importer.upload(list_id)
    refusal = f"List {list_id} is being filled: wait until its processed is true, or cancel the import."
    for refused in (
        lists.delete(f"/mailing-lists/{list_id}"),
        lists.account.post(f"/mailing-lists/{list_id}/merge", {"into": other}),
        lists.account.post(f"/mailing-lists/{other}/merge", {"into": list_id}),
        lists.put(f"/mailing-lists/{list_id}", {"is_suppression_list": True}),
    ):
        assert message(refused) == (400, refusal)
    assert lists.put(f"/mailing-lists/{list_id}", {"description": "Others"}).status_code == 200
    assert lists.add(list_id, address="99 Main St").status_code in (200, 201)


def test_imports_of_a_list_are_listed_newest_first(importer: Importer) -> None:
    list_id = importer.lists.make()
    ids = [importer.run(list_id, HEAD + row)["id"] for row in (JANE, JOHN)]
    found = importer.lists.account.get(f"/mailing-lists/{list_id}/imports").json()["data"]
    assert [each["id"] for each in found] == ids[::-1]


def test_an_import_is_its_owners_alone(importer: Importer, stranger: Account, container: Container) -> None:
    list_id = importer.lists.make()
    done = importer.run(list_id, HEAD + JANE + JANE)
    for path in (f"/imports/{done['id']}", f"/imports/{done['id']}/rejected.csv"):
        assert importer.lists.account.get(path).status_code == 200
        assert stranger.get(path).status_code == 404
    assert stranger.post(f"/imports/{done['id']}/cancel").status_code == 404
    assert Importer(ListOwner(stranger), container).upload(list_id).status_code == 404
    assert stranger.get(f"/mailing-lists/{list_id}/imports").status_code == 404
    reader = make_account(container, stranger.http, "reader@example.com", scopes=["lists:read"])
    assert Importer(ListOwner(reader), container).upload(list_id).status_code == 403


def test_a_list_takes_its_imports_into_another_sub_account(importer: Importer, container: Container) -> None:
    branch = make_sub_account(container, importer.lists.account)
    mate = make_teammate(container, importer.lists.account, branch)
    list_id = importer.lists.make()
    done = importer.run(list_id, HEAD + JANE)
    assert mate.get(f"/imports/{done['id']}").status_code == 404
    assert importer.lists.put(f"/mailing-lists/{list_id}", {"sub_account_id": branch}).status_code == 200
    assert mate.get(f"/imports/{done['id']}").status_code == 200


def test_an_export_is_imported_without_loss(importer: Importer) -> None:
    lists = importer.lists
    here, there = lists.make(), lists.make()
    lists.add(here, name='Jane "JD" Doe, Dr.', custom1="=1+1", custom2="'=1+1", custom3="one\ntwo", phone="+1 512")
    lists.add(here, address="14 Rue X", city="Paris", province=None, postal_code="75001", country="FR")
    lists.add_email(here, "jane@example.com", name="-x", dob="02/29/1980")
    exported = lists.account.get(f"/mailing-lists/{here}/export")
    done = importer.run(there, exported.content)
    assert counts(done) == (3, 3, 0, 0)
    list_specific = {"id", "mailing_list_id", "mailing_list", "mailing-list", "created_at", "updated_at"}
    before, after = (
        [{name: value for name, value in row.items() if name not in list_specific} for row in lists.on(list_id)]
        for list_id in (here, there)
    )
    assert before == after
