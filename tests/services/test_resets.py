"""Another password: by a link that comes by e-mail and is good once, or by whoever is signed in."""

from datetime import timedelta

import pytest
import sqlalchemy as sa
from front_door import (
    DANA,
    HOME,
    acts_of,
    both_at_once,
    come,
    enrolled,
    hashes_counted,
    let_pass,
    reader,
    reading,
    statements_counted,
)
from newsroom import told
from placing import open_account
from signed_in import PASSWORD, make_person

from makers import Clock
from quillpost.accounts.users import emails
from quillpost.accounts.users import password_resets as resets
from quillpost.accounts.users import queries as user_queries
from quillpost.app.container import Parts
from quillpost.core.database.tables.users import memberships, password_resets
from quillpost.core.errors import Invalid, Refused
from quillpost.core.outbox import context_of
from quillpost.core.tokens import mint

NEW = "seven plums in autumn rain"
BASE = "https://mail.example.com"


def ask(parts: Parts, email: str = DANA, address: str = "192.0.2.7") -> None:
    resets.ask(parts.people, email, base_url=BASE, address=address, now=parts.clock())


def asked(parts: Parts, email: str = DANA) -> str:
    """The token of the link that was sent last."""
    ask(parts, email)
    notice = told(parts)[-1]
    link = parts.sealer.open(notice.secret_sealed, context=context_of(notice.key)).decode()
    return link.removeprefix(f"{BASE}/reset/")


def reset(parts: Parts, token: str, password: str = NEW) -> bool:
    return resets.reset(parts.people, token, password, address="192.0.2.7", now=parts.clock())


def whose(parts: Parts, token: str) -> str | None:
    with parts.db.work() as tx:
        return resets.whose(tx, token, now=parts.clock())


def test_a_link_sets_another_password_once(parts: Parts, account: int, dana: int) -> None:
    token = asked(parts)
    assert whose(parts, token) == DANA
    assert reset(parts, token)
    assert come(parts, DANA, NEW).outcome == "in"
    assert come(parts, DANA, PASSWORD).outcome == "wrong"
    assert whose(parts, token) is None
    assert not reset(parts, token, "yet another good password")
    assert acts_of(parts, account)[:2] == ["password.reset_asked", "password.reset"]
    assert [mail.subject for mail in told(parts)] == ["Set another password", "Your password was changed"]


def test_all_sessions_end_with_it(parts: Parts, dana: int) -> None:
    cookies = [come(parts).cookie, come(parts).cookie]
    assert reset(parts, asked(parts))
    assert [reader(parts, cookie) for cookie in cookies] == [None, None]


def test_the_second_factor_stays(parts: Parts, dana: int) -> None:
    enrolled(parts, dana)
    assert reset(parts, asked(parts))
    assert come(parts, DANA, NEW).outcome == "code"


def test_whoever_was_shut_out_by_guessers_is_let_in_after_it(parts: Parts, dana: int) -> None:
    for _ in range(12):
        come(parts, DANA, "a guess")
    assert come(parts).outcome == "throttled"
    assert reset(parts, asked(parts))
    assert come(parts, DANA, NEW).outcome == "in"


def test_a_link_is_good_for_an_hour(parts: Parts, clock: Clock, dana: int) -> None:
    token = asked(parts)
    clock.advance(minutes=59)
    assert whose(parts, token) == DANA
    clock.advance(minutes=1)
    assert whose(parts, token) is None
    assert not reset(parts, token)
    assert come(parts).outcome == "in"


def test_of_two_who_use_one_link_one_wins(parts: Parts, dana: int) -> None:
    token = asked(parts)
    words = ["first of the two words", "second of the two words"]
    left = list(words)
    assert sorted(both_at_once(lambda: reset(parts, token, left.pop()))) == [False, True]
    assert sorted(come(parts, DANA, each).outcome for each in words) == ["in", "wrong"]


def test_with_one_link_all_others_end(parts: Parts, dana: int) -> None:
    first, second = asked(parts), asked(parts)
    assert whose(parts, first) == DANA, "asking again does not end what is on its way"
    assert reset(parts, second)
    assert whose(parts, first) is None


@pytest.mark.parametrize(
    "token", ["", "x", mint("reset", b"\x01" * 32), mint("invitation", b"\x01" * 32), "\x00"]
)
def test_no_other_link_is_good(parts: Parts, dana: int, token: str) -> None:
    ask(parts)
    assert whose(parts, token) is None
    with hashes_counted() as hashes:
        assert not reset(parts, token)
    assert hashes == [], "whoever makes up links costs us nothing"


def test_a_weak_password_leaves_the_link_good(parts: Parts, dana: int) -> None:
    token = asked(parts)
    for weak in ("short", "password1234", DANA):
        with pytest.raises(Invalid) as fault:
            reset(parts, token, weak)
        assert list(fault.value.fields) == ["password"]
    assert reset(parts, token)


def test_asking_for_nobody_looks_and_costs_the_same(parts: Parts, account: int, dana: int) -> None:
    gone = make_person(parts, account, "gone@example.com")
    with parts.db.work() as tx:
        tx.execute(sa.delete(memberships).where(memberships.c.person_id == gone))
    seen = []
    for email in (DANA, "nobody@example.com", "gone@example.com", "\x00", "x" * 9_000):
        with statements_counted(parts) as statements:
            ask(parts, email)
        seen.append(statements)
    assert all(each == seen[0] for each in seen)
    assert [mail.address for mail in told(parts)] == [DANA]
    assert acts_of(parts, account) == ["password.reset_asked"]


def test_three_links_an_hour_are_sent_to_an_e_mail(parts: Parts, dana: int) -> None:
    for number in range(5):
        ask(parts, DANA.upper() if number % 2 else DANA, f"203.0.113.{number}")
    assert len(told(parts)) == 3
    let_pass(parts, hours=1)
    ask(parts)
    assert len(told(parts)) == 4


def test_twenty_an_hour_are_asked_for_from_a_network(parts: Parts, account: int) -> None:
    for number in range(22):
        make_person(parts, account, f"{number}@example.com")
        ask(parts, f"{number}@example.com")
    assert len(told(parts)) == 20


def test_a_link_is_kept_sealed_and_as_a_digest_alone(parts: Parts, dana: int) -> None:
    token = asked(parts)
    with parts.db.work() as tx:
        kept = str(tx.execute(sa.text("select * from notices")).all())
        kept += str(tx.execute(sa.select(password_resets)).all())
        kept += str(tx.execute(sa.text("select * from audit_log")).all())
    assert token not in kept
    assert token.split("_")[2] not in kept


def test_the_command_lines_link_ends_earlier_ones(parts: Parts, clock: Clock, dana: int) -> None:
    mailed = asked(parts)
    with parts.db.work() as tx:
        link = resets.link_for(tx, dana, base_url=BASE, now=parts.clock())
    token = link.removeprefix(f"{BASE}/reset/")
    assert whose(parts, mailed) is None
    assert whose(parts, token) == DANA
    assert reset(parts, token)


def test_whoever_is_signed_in_changes_it_and_stays(parts: Parts, account: int, dana: int) -> None:
    here, elsewhere = come(parts).cookie, come(parts).cookie
    mailed = asked(parts)
    who = reader(parts, here)
    assert who is not None
    with pytest.raises(Invalid):
        resets.change(
            parts.people, dana, "password1234", who.actor, session_id=who.session_id, now=parts.clock()
        )
    renewed = resets.change(parts.people, dana, NEW, who.actor, session_id=who.session_id, now=parts.clock())
    assert reader(parts, here) is None, "who copied the cookie is out as well"
    stays = reader(parts, renewed)
    assert stays is not None
    assert stays.session_id == who.session_id
    assert reader(parts, elsewhere) is None
    assert whose(parts, mailed) is None
    assert come(parts, DANA, NEW).outcome == "in"
    assert acts_of(parts, account)[-2:] == ["password.changed", "sign_in"]
    assert told(parts)[-1].subject == "Your password was changed"


def test_a_session_that_the_old_password_opens_meanwhile_is_none(
    parts: Parts, dana: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's sign-in with the old password, which is looked at while it is changed."""
    who = reading(parts)
    matches = type(parts.people.hasher).matches

    def changed_meanwhile(self: object, kept: str | None, password: str) -> bool:
        monkeypatch.undo()
        is_right = matches(parts.people.hasher, kept, password)
        resets.change(parts.people, dana, NEW, who.actor, session_id=who.session_id, now=parts.clock())
        return is_right

    monkeypatch.setattr(type(parts.people.hasher), "matches", changed_meanwhile)
    assert come(parts, visitor=HOME).outcome == "wrong"


def test_the_notice_is_of_an_account_that_they_are_in(parts: Parts, account: int, dana: int) -> None:
    make_person(parts, open_account(parts, "second@example.com").account_id, DANA, role="member")
    with parts.db.work() as tx:
        for _ in range(2):
            emails.tell_person(
                tx,
                parts.sealer,
                dana,
                key="news",
                subject="News",
                words="Read {link}",
                secret="s",
                now=parts.clock(),
            )
    notice = told(parts)[0]
    assert len(told(parts)) == 1, "told once under a key"
    assert (notice.account_id, notice.address, notice.kind, notice.mode) == (account, DANA, "people", "live")
    assert notice.created_at - parts.clock() == timedelta()


def test_whoever_runs_the_service_finds_people_as_they_sign_in(parts: Parts, dana: int) -> None:
    with parts.db.work() as tx:
        assert user_queries.find_person(tx, f"  {DANA.upper()} ") == dana
        for odd in ("dana\x00@example.com", "lee@example.com", ""):
            with pytest.raises(Refused, match="Nobody signs in with"):
                user_queries.find_person(tx, odd)
