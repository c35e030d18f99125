"""`quillpost lists`: files into lists, with a report, and back."""

import csv
from pathlib import Path

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import audit_log
from support.cli_results import CommandResult, Quillpost
from support.orders import open_account

ROWS = "Wer,Wo,Zip\nJane,12 Main St,78701\nJohn,14 Main St,78701\nJim,12 main st.,78701\nJoe,=1,1\n"


@pytest.fixture
def sender(container: Container) -> Caller:
    return open_account(container, "sender@example.com")


@pytest.fixture
def run(quillpost: Quillpost, tmp_path: Path, conninfo: str) -> Quillpost:
    (tmp_path / "people.csv").write_text(ROWS)
    (tmp_path / "poem.pdf").write_bytes(b"%PDF-1.4")

    def lists(*words: object) -> CommandResult:
        return quillpost("lists", *words, home=tmp_path / "home", database_url=conninfo)

    return lists


def test_a_file_fills_a_new_list_and_the_rest_is_reported(
    run: Quillpost, tmp_path: Path, container: Container, sender: Caller
) -> None:
    file = tmp_path / "people.csv"
    maps = ("--map", "Wo=address", "--map", "Wer=name")
    outcome = run("import", file, "--account", "sender@example.com", "--name", "Visitors", *maps)
    assert outcome.code == 0, outcome.err
    assert "Columns: Wer as name, Wo as address, Zip as postal_code" in outcome.out
    assert "List 1: 4 rows read, 2 imported, 2 rejected (1 of them duplicates)" in outcome.out
    report = tmp_path / "people-rejected.csv"
    assert f"with the reasons: {report}" in outcome.err
    rows = list(csv.reader(report.read_text().splitlines()))
    assert rows[0] == ["line", "reason", "Wer", "Wo", "Zip"]
    assert [row[0] for row in rows[1:]] == ["4", "5"]
    assert rows[2][3] == "'=1"

    whole = tmp_path / "whole.csv"
    whole.write_text("Name,Street,Zip,Likes\nJane,12 Main St,78701,tea\n")
    to_one = ("--account", "sender@example.com", "--name", "Whole")
    result = run("import", whole, *to_one)
    assert "1 column is left out: Likes. Map it if you need it." in result.err
    assert "2 rows read" in run("import", whole, *to_one, "--no-header", "--map", "1=address").out

    exported = run("export", 1, tmp_path / "out.csv")
    assert (exported.code, exported.out) == (0, f"2 recipients: {tmp_path / 'out.csv'}\n")
    with container.db.system_transaction() as tx:
        account_id, act = tx.execute(sa.select(audit_log.c.account_id, audit_log.c.act)).one()
    assert (account_id, act) == (sender.account_id, "list.exported")
    again = run("import", tmp_path / "out.csv", "--account", "sender@example.com", "--list", 1)
    assert "2 rows read, 0 imported, 2 rejected (2 of them duplicates)" in again.out


@pytest.mark.usefixtures("sender")
@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("people.csv", "--name", "x"), "map one to address or email. The columns are Wer, Wo, Zip."),
        (("people.csv", "--name", "x", "--map", "Rue=address"), "mapping.Rue: There is no such column."),
        (("people.csv", "--name", "x", "--map", "Rue"), "--map needs COLUMN=FIELD"),
        (("people.csv", "--list", "7", "--map", "Wo=address"), "sender@example.com has no list 7."),
        (("people.csv",), "Say which list"),
        (("poem.pdf", "--name", "x"), "This file is a PDF."),
        (("none.csv", "--name", "x"), "cannot be read: No such file or directory."),
    ],
)
def test_what_is_wrong_is_one_sentence(
    run: Quillpost, tmp_path: Path, container: Container, words: tuple[str, ...], error: str
) -> None:
    outcome = run("import", tmp_path / words[0], "--account", "sender@example.com", *words[1:])
    assert outcome.code == 1
    assert error in outcome.err
    assert list(container.storage.store.keys("imports/")) == []


def test_a_list_that_is_not_there_is_not_exported(run: Quillpost, tmp_path: Path) -> None:
    outcome = run("export", 9, tmp_path / "out.csv")
    assert outcome.is_one_sentence()
    assert "There is no list 9." in outcome.err
    assert not (tmp_path / "out.csv").exists()
