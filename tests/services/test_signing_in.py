"""Signing in: a password, perhaps a code, and what can go wrong."""

from dataclasses import replace

import pytest
import sqlalchemy as sa
from front_door import (
    DANA,
    ELSEWHERE,
    HOME,
    acts_of,
    come,
    hashes_counted,
    let_pass,
    log_of,
    reader,
    statements_counted,
)
from placing import open_account
from signed_in import PASSWORD, make_person

from makers import Clock
from quillpost.accounts import service
from quillpost.accounts.users import password_resets, passwords
from quillpost.accounts.users.passwords import Hasher
from quillpost.accounts.users.sign_in import Attempt, confirm_password, sign_in
from quillpost.app.container import Parts
from quillpost.core.database.tables.users import memberships, people
from quillpost.core.errors import Throttled
from quillpost.core.tokens import mint

WRONG = "not the password at all"


@pytest.mark.parametrize("email", [DANA, "  Dana@Example.COM\n"])
def test_whoever_has_the_password_is_let_in(parts: Parts, account: int, dana: int, email: str) -> None:
    came = come(parts, email)
    assert came.outcome == "in"
    who = reader(parts, came.cookie)
    assert who is not None
    assert (who.person_id, who.email, who.here.account_id, who.mode) == (dana, DANA, account, "test")


def test_every_sign_in_begins_another_session(parts: Parts, dana: int) -> None:
    first, second = come(parts), come(parts)
    assert first.cookie != second.cookie
    assert reader(parts, first.cookie) is not None
    assert reader(parts, second.cookie) is not None


def test_a_cookie_that_somebody_planted_is_nobodys(parts: Parts, dana: int) -> None:
    planted = mint("session", b"\x07" * 32)
    come(parts)
    assert reader(parts, planted) is None


@pytest.fixture
def others(parts: Parts, account: int, dana: int) -> dict[str, str]:
    """Who cannot sign in, and why."""
    make_person(parts, account, "invited@example.com", password=None)
    gone = make_person(parts, account, "gone@example.com")
    with parts.db.work() as tx:
        tx.execute(sa.delete(memberships).where(memberships.c.person_id == gone))
    return {
        "nobody": "nobody@example.com",
        "without a password": "invited@example.com",
        "in no account": "gone@example.com",
        "another password": DANA,
    }


def test_nobody_can_tell_an_unknown_e_mail_from_a_wrong_password(
    parts: Parts, others: dict[str, str]
) -> None:
    seen: dict[str, tuple[Attempt, tuple[str, ...], tuple[str, ...]]] = {}
    for why, email in others.items():
        password = PASSWORD if why in ("without a password", "in no account") else WRONG
        with hashes_counted() as hashes, statements_counted(parts) as statements:
            came = come(parts, email, password)
        seen[why] = (came, tuple(hashes), tuple(statements))
    assert seen["nobody"][:2] == (Attempt("wrong"), ("verified",))
    assert len(seen["nobody"][2]) == 3
    assert set(seen.values()) == {seen["nobody"]}


def test_nor_when_both_are_tried_too_often(parts: Parts, others: dict[str, str]) -> None:
    seen: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {}
    for why, email in others.items():
        for _ in range(11):
            come(parts, email, WRONG, replace(HOME, address=f"203.0.113.{len(seen)}"))
        with hashes_counted() as hashes, statements_counted(parts) as statements:
            came = come(parts, email, WRONG, replace(HOME, address=f"203.0.113.{len(seen)}"))
        assert 890 <= came.retry_after <= 900
        seen[why] = (came.outcome, tuple(hashes), tuple(statements))
    assert seen["nobody"][:2] == ("throttled", ())
    assert set(seen.values()) == {seen["nobody"]}


@pytest.mark.parametrize(
    "email", ["", "\x00", "dana\x00@example.com", "\ud800@example.com", "d" * 40_000, "ß@ÉX"]
)
def test_an_odd_e_mail_is_just_wrong(parts: Parts, dana: int, email: str) -> None:
    assert come(parts, email).outcome == "wrong"


@pytest.mark.parametrize("password", ["", "\x00", "\ud800" * 20, "x" * 20_000])
def test_so_is_an_odd_password(parts: Parts, dana: int, password: str) -> None:
    assert come(parts, DANA, password).outcome == "wrong"


def test_the_right_password_is_refused_after_ten_wrong_ones(parts: Parts, dana: int) -> None:
    assert [come(parts, DANA, WRONG).outcome for _ in range(10)] == ["wrong"] * 10
    came = come(parts)
    assert (came.outcome, came.cookie, came.known) == ("throttled", None, None)
    let_pass(parts, minutes=15)
    assert come(parts).outcome == "in"


def test_a_good_sign_in_clears_what_was_counted(parts: Parts, dana: int) -> None:
    for _ in range(3):
        assert {come(parts, DANA, WRONG).outcome for _ in range(9)} == {"wrong"}
        assert come(parts).outcome == "in"


def test_fifty_a_day_are_all(parts: Parts, dana: int) -> None:
    tried = 0
    for hour in range(5):
        for _ in range(10):
            assert come(parts, DANA, WRONG, replace(HOME, address=f"203.0.113.{hour}")).outcome == "wrong"
            tried += 1
        let_pass(parts, minutes=15)
    assert tried == 50
    came = come(parts)
    assert came.outcome == "throttled"
    assert came.retry_after > 22 * 3_600


def test_the_counts_of_a_day_outlive_the_hourly_clearing(parts: Parts, dana: int) -> None:
    for _ in range(5):
        for _ in range(10):
            come(parts, DANA, WRONG)
        let_pass(parts, minutes=15)
    let_pass(parts, hours=2)
    service.forget_windows(parts.db)
    assert come(parts).outcome == "throttled"
    let_pass(parts, hours=22)
    service.forget_windows(parts.db)
    assert come(parts).outcome == "in"


def test_a_network_may_fail_sixty_times_an_hour(parts: Parts, dana: int) -> None:
    for number in range(60):
        assert come(parts, f"{number}@example.com", WRONG).outcome == "wrong"
    assert come(parts).outcome == "throttled"
    assert come(parts, visitor=ELSEWHERE).outcome == "in"
    let_pass(parts, hours=1)
    assert come(parts).outcome == "in"


def test_only_failures_count_against_a_network(parts: Parts, dana: int) -> None:
    assert {come(parts).outcome for _ in range(65)} == {"in"}


def test_a_known_browser_is_let_in_while_strangers_guess(parts: Parts, dana: int) -> None:
    known = replace(HOME, known=come(parts).known)
    for _ in range(12):
        come(parts, DANA, WRONG, ELSEWHERE)
    assert come(parts, visitor=ELSEWHERE).outcome == "throttled"
    assert come(parts, visitor=known).outcome == "in"


def test_it_does_not_open_the_door_for_strangers(parts: Parts, dana: int) -> None:
    known = replace(HOME, known=come(parts).known)
    for _ in range(12):
        come(parts, DANA, WRONG, ELSEWHERE)
    come(parts, visitor=known)
    assert come(parts, visitor=ELSEWHERE).outcome == "throttled"


def test_nor_does_a_network_full_of_guessers_shut_it_out(parts: Parts, dana: int) -> None:
    known = replace(HOME, known=come(parts).known)
    for number in range(61):
        come(parts, f"{number}@example.com", WRONG)
    assert come(parts).outcome == "throttled"
    assert come(parts, visitor=known).outcome == "in"


def test_a_known_browser_guesses_only_so_often_itself(parts: Parts, dana: int) -> None:
    known = replace(HOME, known=come(parts).known)
    assert [come(parts, DANA, WRONG, known).outcome for _ in range(11)] == ["wrong"] * 10 + ["throttled"]
    assert come(parts, visitor=ELSEWHERE).outcome == "in", "others are counted by themselves"


def shut_out_strangers(parts: Parts) -> None:
    for _ in range(12):
        come(parts, DANA, WRONG, ELSEWHERE)


def test_a_browser_is_known_for_one_person_alone(parts: Parts, account: int, dana: int) -> None:
    make_person(parts, account, "lee@example.com")
    lees = come(parts, "lee@example.com").known
    shut_out_strangers(parts)
    assert come(parts, visitor=replace(HOME, known=lees)).outcome == "throttled"


def test_what_it_keeps_cannot_be_made_up(parts: Parts, dana: int) -> None:
    known = come(parts).known
    assert known is not None
    shut_out_strangers(parts)
    for forged in (
        mint("known", b"\x00" * 56),
        mint("known", b"\xff" * 64),
        known[:-1],
        "",
        mint("session", b"x" * 32),
    ):
        assert come(parts, visitor=replace(HOME, known=forged)).outcome == "throttled"


def test_it_is_worth_nothing_after_a_year(parts: Parts, clock: Clock, dana: int) -> None:
    known = replace(HOME, known=come(parts).known)
    clock.advance(days=365)
    shut_out_strangers(parts)
    assert come(parts, visitor=known).outcome == "in"
    clock.advance(days=1)
    assert come(parts, visitor=known).outcome == "throttled"


def test_nor_with_another_password(parts: Parts, dana: int) -> None:
    came = come(parts)
    who = reader(parts, came.cookie)
    assert who is not None
    other = "seven plums in autumn rain"
    password_resets.change(parts.people, dana, other, who.actor, session_id=who.session_id, now=parts.clock())
    shut_out_strangers(parts)
    assert come(parts, DANA, other, replace(HOME, known=came.known)).outcome == "throttled"


def test_signing_in_is_noted_in_every_account(parts: Parts, account: int, dana: int) -> None:
    other = open_account(parts, "branch@example.com").account_id
    make_person(parts, other, DANA, role="member")
    come(parts)
    for each in (account, other):
        line = log_of(parts, each)[-1]
        assert (line.act, line.actor, line.network) == ("sign_in", DANA, "192.0.2.7")


def test_a_refusal_is_noted_once_a_minute(parts: Parts, account: int, dana: int) -> None:
    for _ in range(5):
        come(parts, DANA, WRONG)
    assert acts_of(parts, account) == ["sign_in.refused"]
    assert log_of(parts, account)[0].about == {"why": "wrong password"}
    let_pass(parts, minutes=1)
    come(parts, DANA, WRONG)
    assert acts_of(parts, account) == ["sign_in.refused"] * 2


def test_that_there_were_too_many_is_noted_too(parts: Parts, account: int, dana: int) -> None:
    for _ in range(10):
        come(parts, DANA, WRONG)
    let_pass(parts, minutes=1)
    for _ in range(10):
        come(parts, DANA, WRONG)
    assert [line.about["why"] for line in log_of(parts, account)] == ["wrong password", "too many attempts"]


def test_guesses_at_nobody_leave_nothing_in_the_log(parts: Parts, account: int, dana: int) -> None:
    for _ in range(12):
        come(parts, "nobody@example.com", WRONG)
    assert acts_of(parts, account) == []


def test_an_outdated_hash_is_made_anew(parts: Parts, dana: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stronger = replace(passwords.PARAMETERS, time_cost=2)
    monkeypatch.setattr(passwords, "PARAMETERS", stronger)
    means = replace(parts.people, hasher=Hasher())
    assert sign_in(means, DANA, PASSWORD, HOME, now=parts.clock()).outcome == "in"
    with parts.db.work() as tx:
        kept = tx.execute(sa.select(people.c.password_hash).where(people.c.id == dana)).scalar_one()
    assert "t=2" in kept
    with hashes_counted() as hashes:
        assert sign_in(means, DANA, PASSWORD, HOME, now=parts.clock()).outcome == "in"
    assert hashes == ["verified"]


class Crowded(Hasher):
    def matches(self, kept: str | None, password: str) -> bool:
        raise Throttled(retry_after=5)


def test_a_crowd_is_asked_to_come_again(parts: Parts, dana: int) -> None:
    means = replace(parts.people, hasher=Crowded())
    assert sign_in(means, DANA, PASSWORD, HOME, now=parts.clock()) == Attempt("throttled", retry_after=5)
    assert confirm_password(means, dana, PASSWORD, HOME) == "throttled"


def test_whoever_is_signed_in_gives_the_password_again(parts: Parts, dana: int) -> None:
    assert confirm_password(parts.people, dana, PASSWORD, HOME) == "in"
    assert confirm_password(parts.people, dana, WRONG, HOME) == "wrong"
    for _ in range(9):
        confirm_password(parts.people, dana, WRONG, HOME)
    assert confirm_password(parts.people, dana, PASSWORD, HOME) == "throttled"
    assert confirm_password(parts.people, 10_000, PASSWORD, ELSEWHERE) == "wrong"
