"""`quillpost account credit`."""

from pathlib import Path

import pytest

from quillpost.app.container import Container
from support.cli_results import CommandResult, Quillpost
from support.orders import open_account

EMAIL = "owner@example.com"


@pytest.fixture
def pay(container: Container, quillpost: Quillpost, conninfo: str, tmp_path: Path) -> Quillpost:
    open_account(container)

    def run(*words: object, **settings: object) -> CommandResult:
        whole = ("account", "credit", "--email", EMAIL, "--amount", *words)
        return quillpost(*whole, home=tmp_path / "home", database_url=conninfo, **settings)

    return run


def test_it_pays_in_and_out_and_prints_what_there_is(pay: Quillpost) -> None:
    results = [pay("100.00"), pay("0.50", "--note", "a coin"), pay("1234"), pay("34.50", "--withdraw")]
    assert [one.out for one in results] == ["$100.00\n", "$100.50\n", "$1,334.50\n", "$1,300.00\n"]
    assert {one.code for one in results} == {0}


def test_a_payment_with_a_key_happens_once(pay: Quillpost) -> None:
    assert [pay("5.00", "--key", "invoice 7").out for _ in range(2)] == ["$5.00\n", "$5.00\n"]
    other = pay("6.00", "--key", "invoice 7")
    assert other.is_one_sentence()
    assert "invoice 7 was used for a deposit of $5.00" in other.err


@pytest.mark.parametrize("amount", ["0", "0.00", "1.5", "1,000", "1e3", "ten", "1.234", "9" * 10, "٣"])
def test_an_amount_that_is_none_is_one_sentence(pay: Quillpost, amount: str) -> None:
    outcome = pay(amount)
    assert outcome.is_one_sentence()
    assert "dollars and cents" in outcome.err


def test_more_than_there_is_is_one_sentence(pay: Quillpost) -> None:
    assert pay("1.00", "--withdraw").is_one_sentence()


def test_an_account_that_is_not_there_is_one_sentence(quillpost: Quillpost, conninfo: str, tmp_path: Path) -> None:
    outcome = quillpost(
        "account", "credit", "--email", "who@example.com", "--amount", "1.00",
        home=tmp_path / "home", database_url=conninfo,
    )  # fmt: skip
    assert outcome.is_one_sentence()
