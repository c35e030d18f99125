"""The audit log as owners read it: newest first, a page at a time, and whole for a spreadsheet."""

import csv
import io
import re
from html import unescape
from typing import Any

import pytest

from quillpost.accounts.audit.service import ACTION_LABELS, Actor, record_audit_entry
from quillpost.app.container import Container
from quillpost.web.dashboard.settings import pages as setting_pages
from support.account_pages import OWNER, AccountPages
from support.factories import Account, Clock, make_sub_account

PAGE = "/settings/audit"
OLDER = re.compile(r'href="([^"]+)" rel="next"')
ROW = re.compile(r'<td class="told" data-label="What">([^<]*?)\n', re.DOTALL)


@pytest.fixture
def house(container: Container, http: Any) -> AccountPages:
    return AccountPages(container, http)


def write(house: AccountPages, account: Account, *names: str, act: str = "token.created", **how: Any) -> None:
    with house.parts.db.system_transaction() as tx:
        for name in names:
            record_audit_entry(
                tx, account.id, act, how.get("actor", Actor(OWNER, address="192.0.2.7")),
                about={"name": name, "mode": "live"}, sub_account_id=how.get("sub_account_id"),
                now=house.parts.clock(),
            )  # fmt: skip


def rows(house: AccountPages, path: str = PAGE) -> list[str]:
    return ROW.findall(house.owner.get(path).text)


def test_an_entry_shows_its_actor_action_time_and_network(house: AccountPages) -> None:
    write(house, house.account, "Zapier", sub_account_id=house.branch)
    page = house.owner.get(PAGE).text
    assert rows(house) == [f"{OWNER} made a token: Zapier (live)"]
    for words in ("4 May 2026, 12:00", "192.0.2.7", "for Dallas"):
        assert words in page


def test_the_newest_come_first_and_older_ones_on_pages_of_their_own(house: AccountPages) -> None:
    write(house, house.account, *(f"T{number}" for number in range(120)))
    seen: list[str] = []
    path: str | None = PAGE
    sizes = []
    while path:
        page = house.owner.get(path).text
        some = ROW.findall(page)
        sizes.append(len(some))
        seen += some
        older = re.search(r'href="([^"]*before=\d+)" rel="next"', page)
        path = older and older[1]
    assert sizes == [50, 50, 20]
    assert seen == [f"{OWNER} made a token: T{number} (live)" for number in reversed(range(120))]


def test_a_last_page_that_is_full_leads_nowhere(house: AccountPages) -> None:
    write(house, house.account, *(f"T{number}" for number in range(50)))
    assert len(rows(house)) == 50
    assert 'rel="next"' not in house.owner.get(PAGE).text


@pytest.mark.parametrize("before", ["", "x", "-1", "0", "9" * 40])
def test_a_place_that_is_none_is_the_beginning(house: AccountPages, before: str) -> None:
    write(house, house.account, "Zapier")
    assert rows(house, f"{PAGE}?before={before}") == [f"{OWNER} made a token: Zapier (live)"]


def test_beyond_the_oldest_there_is_nothing(house: AccountPages) -> None:
    write(house, house.account, "Zapier")
    page = house.owner.get(f"{PAGE}?before=1").text
    assert "There is nothing older." in page
    assert f'href="{PAGE}"' in page


def test_every_act_can_be_shown(house: AccountPages) -> None:
    for act in ACTION_LABELS:
        write(house, house.account, "it", act=act)
    pages = house.owner.get(PAGE).text
    while older := OLDER.findall(pages)[-1:]:
        page = house.owner.get(unescape(older[0])).text
        pages += page
        if not OLDER.search(page):
            break
    for words in ACTION_LABELS.values():
        assert words.replace("'", "&#39;") in pages


def test_another_accounts_lines_are_on_no_page_of_ours(house: AccountPages) -> None:
    write(house, house.others, "Theirs")
    write(house, house.account, "Ours")
    assert rows(house) == [f"{OWNER} made a token: Ours (live)"]
    assert "Theirs" not in house.owner.get(f"{PAGE}.csv").text
    assert "Ours" not in house.stranger.get(PAGE).text
    assert "Ours" not in house.stranger.get(f"{PAGE}.csv").text


def test_the_file_holds_the_whole_log_however_long(
    house: AccountPages, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setting_pages, "CSV_CHUNK_LINES", 10)
    write(house, house.account, *(f"T{number}" for number in range(30)))
    clock.advance(hours=1)
    write(house, house.account, "Ümlaut, Inc.", sub_account_id=make_sub_account(house.parts, house.account))
    answer = house.owner.get(f"{PAGE}.csv")
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="audit.csv"'
    assert answer.headers["Cache-Control"] == "no-store"
    header, *lines = csv.reader(io.StringIO(answer.content.decode()))
    assert header[:5] == ["id", "at", "actor", "act", "about"]
    assert [line[4] for line in lines] == ["Ümlaut, Inc. (live)"] + [
        f"T{number} (live)" for number in reversed(range(30))
    ]
    assert lines[0][1:4] == ["2026-05-04T13:00:00Z", OWNER, "token.created"]


def test_no_cell_of_the_file_is_a_formula(house: AccountPages) -> None:
    write(house, house.account, "it", actor=Actor('=HYPERLINK("https://evil.example.com")'))
    (_, line) = csv.reader(io.StringIO(house.owner.get(f"{PAGE}.csv").text))
    assert line[2].startswith("'=")


def test_what_somebody_wrote_is_text_and_nothing_else(house: AccountPages) -> None:
    write(house, house.account, "<script>alert(1)</script>")
    page = house.owner.get(PAGE).text
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page


def test_a_log_of_nothing_says_so(house: AccountPages) -> None:
    assert "Nothing was noted yet." in house.owner.get(PAGE).text


def test_a_stranger_and_a_teammate_read_nothing(house: AccountPages) -> None:
    write(house, house.account, "Zapier")
    house.refuses_others(f"GET {PAGE}", f"GET {PAGE}.csv")
