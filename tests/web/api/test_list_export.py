"""A list as a CSV file."""

import csv
import io

import pytest

from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.recipients.lists import queries as list_queries
from support.factories import Account, make_sub_account, make_teammate
from support.mailing_lists import ListOwner


@pytest.fixture
def lists(owner: Account) -> ListOwner:
    return ListOwner(owner)


def rows(lists: ListOwner, list_id: int) -> list[dict[str, str]]:
    answer = lists.account.get(f"/mailing-lists/{list_id}/export")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.headers["Content-Disposition"] == f'attachment; filename="mailing-list-{list_id}.csv"'
    return list(csv.DictReader(io.StringIO(answer.text, newline="")))


def test_a_line_of_names_and_a_line_for_each(lists: ListOwner) -> None:
    list_id = lists.make()
    first = lists.add(list_id, name='Jane "JD" Doe, Dr.', custom3="one\ntwo", dob="02/29/1980", company="Größe").json()
    lists.add_email(list_id, "jane@example.com")
    found = rows(lists, list_id)
    assert list(found[0]) == list(list_queries.EXPORT_COLUMNS)
    names = [name for name in list_queries.EXPORT_COLUMNS if name in first]
    assert names == list(list_queries.EXPORT_COLUMNS)
    assert found[0] == {name: "" if first[name] is None else str(first[name]) for name in names}
    assert (found[1]["address"], found[1]["email"]) == ("", "jane@example.com")


def test_an_empty_list_is_a_line_of_names(lists: ListOwner) -> None:
    answer = lists.account.get(f"/mailing-lists/{lists.make()}/export")
    assert answer.text == ",".join(list_queries.EXPORT_COLUMNS) + "\n"


@pytest.mark.parametrize("formula", ["=1+1", "+1 512 555 0100", "-1", "@SUM(A1)"])
def test_a_spreadsheet_takes_no_value_for_a_formula(lists: ListOwner, formula: str) -> None:
    list_id = lists.make()
    lists.add(list_id, custom1=formula, phone=f"a{formula}")
    [row] = rows(lists, list_id)
    assert (row["custom1"], row["phone"]) == (f"'{formula}", f"a{formula}")


def test_a_teammate_exports_the_lists_of_one_sub_account(lists: ListOwner, container: Container) -> None:
    branch = make_sub_account(container, lists.account)
    mate = ListOwner(make_teammate(container, lists.account, branch))
    mine, everyones = mate.make(), lists.make()
    mate.fill(mine, "1 Main St")
    assert len(rows(mate, mine)) == 1
    assert mate.account.get(f"/mailing-lists/{everyones}/export").status_code == 404


def test_a_long_list_comes_in_pieces_and_whole(lists: ListOwner, container: Container) -> None:
    list_id = lists.make()
    lists.fill(list_id, *(f"{n} Main St" for n in range(1_500)))
    with container.db.transaction(Tenant(lists.account.id)) as tx:
        file = list_queries.write_csv_file(tx, list_id)
    pieces = list(list_queries.read_chunks(file))
    assert len(pieces) > 1
    assert max(map(len, pieces)) <= list_queries.CHUNK_BYTES
    assert b"".join(pieces).count(b"\n") == 1_501


def test_the_file_of_whoever_stops_reading_is_gone(lists: ListOwner, container: Container) -> None:
    list_id = lists.make()
    lists.fill(list_id, *(f"{n} Main St" for n in range(1_500)))
    with container.db.transaction(Tenant(lists.account.id)) as tx:
        file = list_queries.write_csv_file(tx, list_id)
    reading = list_queries.read_chunks(file)
    next(reading)
    reading.close()
    assert file.closed
