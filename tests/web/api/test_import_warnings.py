"""What an import tells of a file beside its people: columns that are left out, fields that mean nothing, and
lists that take no file."""

import json

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import mailing_lists
from quillpost.recipients.lists.queries import OPT_OUT_LIST_REFUSED
from support.factories import Account, snapshot_rows
from support.imports import HEAD, JANE, Importer
from support.mailing_lists import ListOwner
from support.workbooks import workbook

PREVIEW = "/imports/preview"
WIDE = "Name,Address,Address,City,State,Zip,Likes,Empty\nJane Doe,12 Main St,Apt 4,Austin,TX,78701,tea,\n"


@pytest.fixture
def importer(owner: Account, container: Container) -> Importer:
    return Importer(ListOwner(owner), container)


def test_columns_that_are_left_out_are_named(importer: Importer) -> None:
    warnings = [
        "Two columns are called Address: the second is left out; map it by its number, 2.",
        "1 column is left out: Likes. Map it if you need it.",
    ]
    assert importer.upload(0, WIDE, to=PREVIEW).json()["warnings"] == warnings
    begun = importer.upload(importer.lists.make(), WIDE).json()
    assert begun["warnings"] == warnings
    assert importer.fill(begun["id"])["warnings"] == warnings
    mapping = json.dumps({"2": "address2", "Likes": ""})
    assert importer.upload(0, WIDE, to=PREVIEW, mapping=mapping).json()["warnings"] == []


@pytest.mark.parametrize(
    ("mapping", "field"),
    [('{"Street": "address", "1": "address2"}', "mapping.1"), ('{"Zip": "", "Zip": "city"}', "mapping.Zip")],
)
def test_a_column_is_mapped_once(importer: Importer, mapping: str, field: str) -> None:
    refused = importer.upload(0, to=PREVIEW, mapping=mapping)
    assert (refused.status_code, list(refused.json()["errors"])) == (422, [field])


def test_fields_of_the_form_that_mean_nothing_are_named(importer: Importer) -> None:
    for answer in (
        importer.upload(0, to=PREVIEW, maping="{}", header="true"),
        importer.upload(importer.lists.make(), maping="{}", header="true"),
    ):
        assert answer.headers["X-Ignored-Fields"] == "maping"


def test_a_workbook_has_no_encoding(importer: Importer) -> None:
    sheet = workbook([["Name", "Street"], ["Jane Doe", "12 Main St, Austin, TX 78701"]])
    preview = importer.upload(0, sheet, to=PREVIEW, name="people.xlsx").json()
    assert (preview["encoding"], preview["delimiter"]) == (None, None)


def test_lists_that_the_service_keeps_take_no_file(importer: Importer, container: Container) -> None:
    for bars, advice in ((True, "suppression list of your own"), (False, "a list of your own")):
        kept = importer.lists.make()
        with container.db.system_transaction() as tx:
            change = {"kept_for": "test", "is_suppression_list": bars}
            tx.execute(sa.update(mailing_lists).where(mailing_lists.c.id == kept).values(change))
        before = snapshot_rows(container)
        refused = importer.upload(kept, HEAD + JANE)
        assert (refused.status_code, advice in refused.json()["message"]) == (400, True)
        assert snapshot_rows(container) == before
        if bars:
            added = importer.lists.add(kept)
            assert added.json()["errors"] == {"mailing_list_id": [OPT_OUT_LIST_REFUSED]}
            assert snapshot_rows(container) == before
