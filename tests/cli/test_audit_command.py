"""`quillpost audit`: the log of an account, in words or for a spreadsheet."""

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.audit.labels import describe_entry
from quillpost.accounts.audit.service import Actor, AuditEntry
from quillpost.app.container import Container
from support.cli_results import CommandResult, Quillpost
from support.factories import Account

EMAIL = "owner@example.com"
DANA = Actor("dana@example.com", address="203.0.113.7")

Audit = Callable[..., CommandResult]


@pytest.fixture
def command(quillpost: Quillpost, conninfo: str, tmp_path: Path) -> Audit:
    def run(*words: object) -> CommandResult:
        return quillpost(*words, home=tmp_path / "home", database_url=conninfo)

    return run


def note(container: Container, account: Account, act: str, actor: Actor = DANA, **about: object) -> None:
    with container.db.system_transaction() as tx:
        audit_service.record_audit_entry(tx, account.id, act, actor, about=about, now=container.clock())


def test_a_line_names_actor_action_time_and_network(command: Audit, owner: Account, container: Container) -> None:
    note(container, owner, "sign_in")
    note(container, owner, "token.created", name="[bold]Zapier[/]", mode="live", id=7)
    [second, first] = command("audit", "--account", EMAIL).out.splitlines()
    assert first.endswith("2026-05-04T12:00:00Z  dana@example.com signed in, from 203.0.113.7")
    assert "dana@example.com made a token: [bold]Zapier[/] (live), from 203.0.113.7" in second


def test_older_lines_come_page_by_page(command: Audit, owner: Account, container: Container) -> None:
    for _ in range(5):
        note(container, owner, "sign_in")
    page = command("audit", "--account", EMAIL, "--most", 3)
    assert (page.code, len(page.out.splitlines())) == (0, 3)
    oldest = page.out.splitlines()[-1].split()[0]
    assert page.err == f"Older lines: --before {oldest}\n"
    rest = command("audit", "--account", EMAIL, "--before", oldest)
    assert (len(rest.out.splitlines()), rest.err) == (2, "")


def test_a_spreadsheet_sees_no_formula(command: Audit, owner: Account, container: Container) -> None:
    note(container, owner, "client.created", Actor("+1@example.com"), name='=cmd|" /C calc"!A1, "x"')
    shown = command("audit", "--account", EMAIL, "--csv")
    [header, row] = csv.reader(shown.out.splitlines())
    assert header == ["id", "at", "actor", "act", "about", "sub_account_id", "network"]
    assert row[1:] == ["2026-05-04T12:00:00Z", "'+1@example.com", "client.created", '\'=cmd|" /C calc"!A1, "x"', "", ""]


def test_another_accounts_lines_are_not_shown(
    command: Audit, owner: Account, stranger: Account, container: Container
) -> None:
    note(container, stranger, "sign_in")
    assert command("audit", "--account", EMAIL).out == "There is nothing in it.\n"


def test_an_account_that_is_not_there_is_one_sentence(command: Audit, owner: Account) -> None:
    assert command("audit", "--account", "who@example.com").is_one_sentence()


def test_opening_an_account_and_moving_its_credit_are_noted(command: Audit, container: Container) -> None:
    opened = command("account", "create", "--email", "new@example.com", "--name", "New", "--operator")
    assert (opened.code, opened.out.strip().isdigit()) == (0, True)
    pay = ("account", "credit", "--email", "new@example.com", "--amount")
    command(*pay, "100.00", "--note", "invoice 7", "--key", "7")
    command(*pay, "100.00", "--note", "invoice 7", "--key", "7")
    command(*pay, "30.00", "--withdraw")
    assert command(*pay, "99.00", "--withdraw").is_one_sentence()
    lines = command("audit", "--account", "new@example.com").out.splitlines()
    assert [line.partition("Z  ")[2] for line in lines] == [
        "the command line moved credit: -$30.00",
        "the command line moved credit: $100.00 (note: invoice 7)",
        "the command line opened the account: New, new@example.com (operator: yes)",
    ]


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({}, "dana@example.com made a token"),
        ({"id": 3}, "dana@example.com made a token"),
        ({"name": "Zapier", "mode": "live"}, "dana@example.com made a token: Zapier (live)"),
        ({"name": "Zapier", "sub_account": "North"}, "dana@example.com made a token: Zapier (North)"),
        ({"email": "dana@example.com", "role": "owner"}, "dana@example.com made a token (owner)"),
        ({"how_many": 3}, "dana@example.com made a token (how many: 3)"),
        ({"scopes": ["a", "b"], "note": None}, "dana@example.com made a token (scopes: a, b)"),
    ],
)
def test_the_target_is_described_in_plain_words(about: dict[str, object], words: str, container: Container) -> None:
    entry = AuditEntry(1, "token.created", "dana@example.com", about, None, None, container.clock())
    assert describe_entry(entry) == words
