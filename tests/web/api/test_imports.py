"""Filling a list from a file, over the API."""

import json
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import mailing_lists
from quillpost.recipients.imports import service as import_service
from quillpost.recipients.lists.queries import OPT_OUT_LIST_REFUSED
from quillpost.web.application import create_app
from support.factories import Account, Build, make_sub_account, make_teammate
from support.mailing_lists import HEAD, JANE, JOHN, Importer, ListOwner, counts, field_errors, message
from support.rows import execute
from support.test_client import TestClient
from support.traces import assert_refused, unchanged
from support.uploads import packed, workbook

PREVIEW = "/imports/preview"


@pytest.fixture
def importer(owner: Account, container: Container) -> Importer:
    return Importer(ListOwner(owner), container)


def test_everyone_of_a_file_is_on_the_list_in_its_order(importer: Importer) -> None:
    lists = importer.lists
    list_id, grown = lists.make(), lists.make()
    begun = importer.upload(list_id)
    assert begun.status_code == 202
    body = begun.json()
    assert (body["status"], body["progress"], body["rows_total"]) == ("waiting", 0, None)
    assert body["columns"][1] == {"column": "Street", "sample": "12 Main St", "field": "address"}
    assert (lists.read(list_id)["processed"], importer.names(list_id)) == (False, [])
    done = importer.fill(body["id"])
    assert (done["status"], done["progress"], done["rows_total"], done["error"]) == ("done", 1, 2, None)
    assert counts(done) == (2, 2, 0, 0)
    assert (done["rejected_url"], done["finished_at"] is None) == (None, False)
    assert importer.names(list_id) == ["Jane Doe", "John Roe"]
    known = lists.read(list_id)
    assert (known["processed"], known["total_recipients"], known["type"]) == (True, 2, "csv")
    lists.fill(grown, "1 Main St")
    importer.run(grown, HEAD + JANE)
    assert lists.read(grown)["type"] == "manual", "a list that has people keeps its type"
    later = importer.run(list_id, HEAD + JOHN)
    found = lists.account.get(f"/mailing-lists/{list_id}/imports").json()["data"]
    assert [each["id"] for each in found] == [later["id"], done["id"]]


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
    twice = "address: Line 3 of the file has the same address."
    assert rows[1][1:] == [twice, "Jim Poe", "14  MAIN ST.", "Austin", "TX", "78701", "'-1"]
    assert (rows[2][1], rows[3][-1]) == ("postal_code: A ZIP code has 5 digits, or 5-4.", "y")
    emails = importer.lists.make()
    importer.lists.add_email(emails, "Old@example.com")
    done = importer.run(emails, "Email,Name\na@example.com,A\nA@Example.com,B\nold@example.com,C\nb@example.com,D\n")
    assert (counts(done), importer.names(emails)) == ((4, 2, 2, 2), [None, "A", "D"])
    assert [row[1] for row in importer.rejected(done["id"])[1:]] == [
        "email: Line 2 of the file has the same e-mail.",
        "email: This e-mail is already on this mailing list.",
    ]
    done = importer.run(importer.lists.make(is_suppression_list=True), HEAD + JANE + "John,14 Main St,,,\n")
    assert counts(done) == (2, 1, 1, 0)
    assert "On a suppression list an address needs its ZIP code" in importer.rejected(done["id"])[1][1]


def test_an_export_is_imported_without_loss(importer: Importer) -> None:
    lists = importer.lists
    here, there = lists.make(), lists.make()
    lists.add(here, name='Jane "JD" Doe, Dr.', custom1="=1+1", custom2="'=1+1", custom3="one\ntwo", phone="+1 512")
    lists.add(here, address="14 Rue X", city="Paris", province=None, postal_code="75001", country="FR")
    lists.add_email(here, "jane@example.com", name="-x", dob="02/29/1980")
    assert counts(importer.run(there, lists.account.get(f"/mailing-lists/{here}/export").content)) == (3, 3, 0, 0)
    list_specific = {"id", "mailing_list_id", "mailing_list", "mailing-list", "created_at", "updated_at"}
    before, after = (
        [{name: value for name, value in row.items() if name not in list_specific} for row in lists.on(list_id)]
        for list_id in (here, there)
    )
    assert before == after


def test_a_preview_tells_what_would_be_read_and_keeps_nothing(importer: Importer) -> None:
    shoes = "Shoe;Size\nred;9\n"
    sheet = workbook([["Name", "Street"], ["Jane Doe", "12 Main St, Austin, TX 78701"]])
    with unchanged(importer.container):
        shown = importer.upload(0, shoes, to=PREVIEW)
        body = shown.json()
        assert (shown.status_code, body["header"], body["delimiter"], body["rows"]) == (200, True, ";", [["red", "9"]])
        assert body["columns"][0] == {"column": "Shoe", "sample": "red", "field": ""}
        assert "map one" in body["error"]
        assert {"address", "first_name", "full_address"} <= set(body["fields"])
        mapped = importer.upload(0, shoes, to=PREVIEW, mapping='{"Shoe": "address"}').json()
        assert (mapped["error"], mapped["columns"][0]["field"]) == (None, "address")
        preview = importer.upload(0, sheet, to=PREVIEW, name="people.xlsx").json()
        assert (preview["encoding"], preview["delimiter"]) == (None, None)  # which a workbook has not


def test_a_file_may_be_a_workbook_have_no_header_or_be_the_body_itself(importer: Importer) -> None:
    list_id = importer.lists.make()
    rows: list[list[str | float]] = [
        ["Name", "Street", "City", "State", "Zip"], ["Jane", "12 Main St", "Boston", "MA", 2108], [],
        ["Joe", "14 Main St", "Austin", "TX", 7.5],
    ]  # fmt: skip
    done = importer.run(list_id, workbook(rows), name="people.xlsx")
    assert counts(done) == (2, 1, 1, 0)
    assert importer.lists.on(list_id)[0]["postal_code"] == "02108"
    assert importer.rejected(done["id"])[1][0] == "4"
    list_id = importer.lists.make()
    importer.run(list_id, JANE + JOHN)
    assert importer.names(list_id) == ["Jane Doe", "John Roe"]
    mapped = {"header": "false", "mapping": '{"0": "name", "1": "address"}'}
    assert counts(importer.run(importer.lists.make(), HEAD + JANE, **mapped))[0] == 2
    path = f"/mailing-lists/{importer.lists.make()}/import?file_name=crm.csv"
    whole: dict[str, Any] = {"content": (HEAD + JANE).encode("utf-16"), "headers": {"Content-Type": "text/csv"}}
    begun = importer.lists.account.call("POST", path, **whole)
    assert (begun.status_code, begun.json()["file_name"]) == (202, "crm.csv"), begun.text
    assert counts(importer.fill(begun.json()["id"])) == (1, 1, 0, 0)


def test_columns_are_mapped_by_their_names_or_numbers_and_those_left_out_are_named(importer: Importer) -> None:
    list_id = importer.lists.make()
    mapping = json.dumps({"City": "name", "Name": "city"})
    done = importer.run(list_id, HEAD + "Austin,12 Main St,Jane Doe,TX,78701\n", mapping=mapping)
    assert (counts(done), importer.names(list_id)) == ((1, 1, 0, 0), ["Jane Doe"])
    wide = "Name,Address,Address,City,State,Zip,Likes,Empty\nJane Doe,12 Main St,Apt 4,Austin,TX,78701,tea,\n"
    warnings = [
        "Two columns are called Address: the second is left out; map it by its number, 2.",
        "1 column is left out: Likes. Map it if you need it.",
    ]
    begun = importer.upload(importer.lists.make(), wide).json()
    for shown in (importer.upload(0, wide, to=PREVIEW).json(), begun, importer.fill(begun["id"])):
        assert shown["warnings"] == warnings
    mapping = json.dumps({"2": "address2", "Likes": ""})
    assert importer.upload(0, wide, to=PREVIEW, mapping=mapping).json()["warnings"] == []
    # A column whose name cannot be kept is known by what is left of it.
    head = HEAD.replace("Name", "Na\x00me").replace("Street", "St\x07reet" + "!" * 200)
    mapping = json.dumps({"Na\x00me": "name", "St\x07reet" + "!" * 200: "address"})
    begun = importer.upload(importer.lists.make(), head + JANE * 5, mapping=mapping).json()
    names = [column["column"] for column in begun["columns"]]
    assert names == ["Na\ufffdme", "St\ufffdreet" + "!" * 93, "City", "State", "Zip"]
    assert counts(importer.fill(begun["id"])) == (5, 1, 4, 4)


SWELLING = packed({"xl/workbook.xml": "x", "xl/worksheets/sheet1.xml": " " * 1_100_000})
BAD_FILES: dict[str, bytes] = {
    "This file is a PDF. Send a CSV, TSV or .xlsx file.": b"%PDF-1.4\n%...",
    "This file is a zip archive and no workbook.": packed({"a.txt": "hello"}),
    "No sheet of the workbook holds anything.": workbook([]),
    "The workbook is damaged, or too large to be read": workbook([["a"]])[:-30],
    "The file is empty.": b"",
    "The file has 10,000 columns": ",".join(map(str, range(10_000))).encode() + b"\n1,2\n",
    "too large": SWELLING.replace((1_100_000).to_bytes(4, "little"), (2_000_000_000).to_bytes(4, "little")),
}
BAD_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"mapping": "{"}, "mapping"), ({"mapping": "[1]"}, "mapping"), ({"mapping": '{"Rue": "address"}'}, "mapping.Rue"),
    ({"mapping": '{"R\\ud800ue\\u0000": "address"}'}, "mapping.R\ufffdue\ufffd"), ({"header": "perhaps"}, "header"),
    ({"mapping": '{"Street": "address", "1": "address2"}'}, "mapping.1"),
    ({"mapping": '{"Zip": "", "Zip": "city"}'}, "mapping.Zip"),
]  # fmt: skip


def test_a_bad_import_leaves_nothing(subtests: pytest.Subtests, importer: Importer, container: Container) -> None:
    list_id = importer.lists.make()
    upload = partial(importer.upload, list_id)
    assert_refused(subtests, container, upload, [(data, "file", words) for words, data in BAD_FILES.items()])
    blank = workbook([["Name", "Address"], ["Jane", "12 Main St, Austin, TX 78701"], [" " * 25_000_000]])
    with unchanged(container):
        assert "too large" in field_errors(upload(blank))["file"][0]
    assert_refused(subtests, container, lambda fields: upload(**fields), BAD_FIELDS)
    unmapped = "map one to address or email. The columns are Shoe, Size."
    assert_refused(subtests, container, upload, [("Shoe,Size\nred,9\n", "mapping", unmapped)])
    assert importer.lists.read(list_id)["processed"]
    assert importer.lists.account.get(f"/mailing-lists/{list_id}/imports").json() == {"data": []}


def test_the_error_for_a_missing_file_says_how_to_send_one(importer: Importer) -> None:
    path, account = f"/mailing-lists/{importer.lists.make()}/import", importer.lists.account
    cut = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nName'
    with unchanged(importer.container):
        status, refusal = message(account.post(path, {"file": "x"}))
        assert (status, "multipart/form-data in the field `file`" in refusal) == (415, True)
        assert list(field_errors(account.call("POST", path, files={"data": ("a.csv", b"x")}))) == ["file"]
        for content, words in ((cut, ": it ends too early."), (b"--y" + cut, ".")):
            how: dict[str, Any] = {"headers": {"Content-Type": "multipart/form-data; boundary=x"}, "content": content}
            assert field_errors(account.call("POST", path, **how)) == {"body": [f"The form cannot be read{words}"]}
    for answer in (
        importer.upload(0, to=PREVIEW, maping="{}", header="true"),
        importer.upload(importer.lists.make(), maping="{}", header="true"),
    ):
        assert answer.headers["X-Ignored-Fields"] == "maping"


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


def test_lists_that_the_service_keeps_take_no_file(importer: Importer, container: Container) -> None:
    for bars, advice in ((True, "suppression list of your own"), (False, "a list of your own")):
        kept = importer.lists.make()
        change = {"kept_for": "test", "is_suppression_list": bars}
        execute(container, sa.update(mailing_lists).where(mailing_lists.c.id == kept).values(change))
        with unchanged(container):
            refused = importer.upload(kept, HEAD + JANE)
            assert (refused.status_code, advice in refused.json()["message"]) == (400, True)
            if bars:
                assert field_errors(importer.lists.add(kept)) == {"mailing_list_id": [OPT_OUT_LIST_REFUSED]}


def test_one_file_at_a_time_fills_a_list_until_it_is_cancelled(importer: Importer) -> None:
    list_id, account = importer.lists.make(), importer.lists.account
    key, before = {"Idempotency-Key": "once"}, len(importer.files)
    first, again = (importer.upload(list_id, headers=key) for _ in range(2))
    assert (first.status_code, first.json()["id"]) == (again.status_code, again.json()["id"])
    assert importer.upload(list_id, HEAD + JANE, headers=key).status_code == 409
    assert message(importer.upload(list_id)) == (409, import_service.LIST_BUSY)
    assert len(importer.files) == before + 1
    path = f"/imports/{first.json()['id']}/cancel"
    cancelled = account.post(path)
    assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")
    assert importer.lists.read(list_id)["processed"]
    assert importer.fill(first.json()["id"])["status"] == "cancelled"
    assert importer.names(list_id) == []
    assert message(account.post(path)) == (409, "This import is cancelled already.")
    second = importer.upload(list_id)
    assert second.status_code == 202
    importer.fill(second.json()["id"])
    assert importer.upload(list_id).status_code == 202


def test_a_list_that_is_being_filled_stays_what_it_is_and_nothing_is_sent_to_it(importer: Importer) -> None:
    lists = importer.lists
    list_id, other = lists.make(), lists.make()
    begun = importer.upload(list_id).json()
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
    body = {"recipients": None, "mailing_list_ids": [list_id]}
    errors = field_errors(lists.account.send(**body)).values()
    refusal = f"List {list_id} is being filled: send when its processed is true, or cancel the import."
    assert refusal in [error for found in errors for error in found]
    importer.fill(begun["id"])
    assert lists.account.send(**body).status_code == 200


def test_imports_are_private_and_follow_their_list(importer: Importer, stranger: Account, container: Container) -> None:
    list_id, account = importer.lists.make(), importer.lists.account
    done = importer.run(list_id, HEAD + JANE + JANE)
    for path in (f"/imports/{done['id']}", f"/imports/{done['id']}/rejected.csv"):
        assert account.get(path).status_code == 200
        assert stranger.get(path).status_code == 404
    assert stranger.post(f"/imports/{done['id']}/cancel").status_code == 404
    assert Importer(ListOwner(stranger), container).upload(list_id).status_code == 404
    assert stranger.get(f"/mailing-lists/{list_id}/imports").status_code == 404
    branch = make_sub_account(container, account)
    mate = make_teammate(container, account, branch)
    assert mate.get(f"/imports/{done['id']}").status_code == 404
    assert importer.lists.put(f"/mailing-lists/{list_id}", {"sub_account_id": branch}).status_code == 200
    assert mate.get(f"/imports/{done['id']}").status_code == 200
