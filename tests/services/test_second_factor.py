"""The second factor: a code that is good once, or a recovery code, and no way around either."""

from datetime import timedelta

import pyotp
import pytest
import sqlalchemy as sa
from front_door import (
    DANA,
    HOME,
    actor_of,
    acts_of,
    both_at_once,
    come,
    enrolled,
    let_pass,
    log_of,
    reader,
)
from newsroom import told
from signed_in import make_person

from makers import Clock
from quillpost.accounts.users import password_resets, second_factor
from quillpost.accounts.users.sessions import awaiting_code, list_sessions
from quillpost.accounts.users.sign_in import Attempt, give_code
from quillpost.app.container import Parts
from quillpost.core.database.tables.users import people, recovery_codes, sessions
from quillpost.core.errors import Refused


def code_of(parts: Parts, secret: str, *, steps: int = 0) -> str:
    return pyotp.TOTP(secret).at(parts.clock() + timedelta(seconds=30 * steps))


def give(parts: Parts, cookie: str | None, code: str) -> Attempt:
    assert cookie is not None
    return give_code(parts.people, cookie, code, HOME, now=parts.clock())


def use(parts: Parts, person_id: int, code: str) -> str | None:
    with parts.db.work() as tx:
        return second_factor.use(tx, parts.sealer, person_id, code, now=parts.clock())


def begun(parts: Parts, person_id: int) -> str:
    """The secret of one that is being set up."""
    with parts.db.work() as tx:
        return second_factor.begin(tx, parts.sealer, person_id, issuer="Q", now=parts.clock()).secret


def wrong(code: str) -> str:
    return f"{(int(code) + 1) % 1_000_000:06}"


def test_with_the_password_alone_nobody_is_let_in(parts: Parts, dana: int) -> None:
    enrolled(parts, dana)
    came = come(parts)
    assert (came.outcome, came.known) == ("code", None)
    assert reader(parts, came.cookie) is None
    assert awaiting_code(parts.db, came.cookie or "", now=parts.clock()) == dana


def test_the_code_lets_in_and_begins_another_session(
    parts: Parts, clock: Clock, account: int, dana: int
) -> None:
    secret, _ = enrolled(parts, dana)
    clock.advance(seconds=30)
    half = come(parts).cookie
    came = give(parts, half, code_of(parts, secret))
    assert came.outcome == "in"
    assert came.known is not None
    assert came.cookie != half
    assert reader(parts, came.cookie) is not None
    assert awaiting_code(parts.db, half or "", now=parts.clock()) is None
    assert give(parts, half, code_of(parts, secret, steps=1)) == Attempt("wrong")
    assert acts_of(parts, account) == ["second_factor.on", "sign_in"]


@pytest.mark.parametrize(("steps", "is_good"), [(-2, False), (-1, True), (0, True), (1, True), (2, False)])
def test_a_telephone_may_be_half_a_minute_off(
    parts: Parts, clock: Clock, dana: int, steps: int, is_good: bool
) -> None:
    secret, _ = enrolled(parts, dana)
    clock.advance(minutes=5)
    assert (use(parts, dana, code_of(parts, secret, steps=steps)) == "code") is is_good


def test_a_code_is_good_once(parts: Parts, clock: Clock, dana: int) -> None:
    secret, _ = enrolled(parts, dana)
    assert use(parts, dana, code_of(parts, secret)) is None, "it has turned the second factor on"
    clock.advance(minutes=5)
    code = code_of(parts, secret)
    assert use(parts, dana, code) == "code"
    assert use(parts, dana, code) is None
    assert use(parts, dana, code_of(parts, secret, steps=-1)) is None, "nor one from before it"
    assert use(parts, dana, code_of(parts, secret, steps=1)) == "code"


def test_of_two_with_the_same_code_one_is_let_in(parts: Parts, clock: Clock, dana: int) -> None:
    secret, codes = enrolled(parts, dana)
    clock.advance(minutes=5)
    code = code_of(parts, secret)
    assert sorted(both_at_once(lambda: use(parts, dana, code) or "")) == ["", "code"]
    assert sorted(both_at_once(lambda: use(parts, dana, codes[0]) or "")) == ["", "recovery"]


def test_of_two_with_the_same_half_open_session_one_is_let_in(parts: Parts, clock: Clock, dana: int) -> None:
    _, codes = enrolled(parts, dana)
    half = come(parts).cookie
    left = list(codes)
    outcomes = both_at_once(lambda: give(parts, half, left.pop()).outcome)
    assert sorted(outcomes) == ["in", "wrong"]


@pytest.mark.parametrize(
    "dress", [str, str.upper, lambda c: c.replace("-", ""), lambda c: f" {c.replace('-', ' ')} ",
              lambda c: c.replace("0", "o").replace("1", "l")]
)  # fmt: skip
def test_a_recovery_code_may_be_typed_as_one_likes(parts: Parts, dana: int, dress: object) -> None:
    _, codes = enrolled(parts, dana)
    assert callable(dress)
    assert [use(parts, dana, dress(code)) for code in codes] == ["recovery"] * 10
    assert [use(parts, dana, code) for code in codes] == [None] * 10


def test_recovery_codes_are_long_and_differ(parts: Parts, dana: int) -> None:
    _, codes = enrolled(parts, dana)
    assert len(set(codes)) == 10
    for code in codes:
        assert [len(group) for group in code.split("-")] == [4, 4, 4, 4]
        assert set(code) <= {*second_factor.LETTERS, "-"}
    assert len(second_factor.LETTERS) == 32, "five bits a letter: eighty in all"


def test_whoever_used_a_recovery_code_is_told(parts: Parts, account: int, dana: int) -> None:
    _, codes = enrolled(parts, dana)
    assert give(parts, come(parts).cookie, codes[3]).outcome == "in"
    assert acts_of(parts, account) == ["second_factor.on", "second_factor.recovered", "sign_in"]
    mail = told(parts)[-1]
    assert (mail.subject, mail.address) == ("A recovery code was used", DANA)
    assert "9 are left." in mail.words
    assert codes[3] not in mail.words
    with parts.db.work() as tx:
        assert second_factor.left(tx, dana) == 9


def test_nothing_that_is_kept_tells_the_codes(parts: Parts, dana: int) -> None:
    secret, codes = enrolled(parts, dana)
    with parts.db.work() as tx:
        kept = str(tx.execute(sa.select(people)).all()) + str(tx.execute(sa.select(recovery_codes)).all())
    assert secret not in kept
    assert not any(code in kept or code.replace("-", "") in kept for code in codes)


def test_anothers_code_is_not_ones_own(parts: Parts, clock: Clock, account: int, dana: int) -> None:
    lee = make_person(parts, account, "lee@example.com")
    secret, codes = enrolled(parts, dana)
    enrolled(parts, lee, "lee@example.com")
    clock.advance(minutes=5)
    assert use(parts, lee, codes[0]) is None
    assert use(parts, lee, code_of(parts, secret)) is None


@pytest.mark.parametrize(
    "code", ["", "12345", "1234567", "١٢٣٤٥٦", "abcdef", "x" * 16, "x" * 10_000, "\x00" * 6]
)
def test_an_odd_code_is_just_wrong(parts: Parts, dana: int, code: str) -> None:
    enrolled(parts, dana)
    assert use(parts, dana, code) is None


def test_after_five_wrong_codes_the_password_is_asked_for_again(
    parts: Parts, clock: Clock, account: int, dana: int
) -> None:
    secret, _ = enrolled(parts, dana)
    clock.advance(minutes=1)
    half, bad = come(parts).cookie, wrong(code_of(parts, secret))
    tries = [give(parts, half, bad) for _ in range(5)]
    assert tries == [Attempt("wrong", cookie=half)] * 4 + [Attempt("wrong")]
    assert give(parts, half, code_of(parts, secret)) == Attempt("wrong")
    assert log_of(parts, account)[-1].about == {"why": "wrong code"}


def test_ten_wrong_codes_are_all_whatever_the_session(parts: Parts, clock: Clock, dana: int) -> None:
    secret, _ = enrolled(parts, dana)
    clock.advance(minutes=1)
    bad = wrong(code_of(parts, secret))
    for _ in range(2):
        half = come(parts).cookie
        for _ in range(5):
            assert give(parts, half, bad).outcome == "wrong"
    half = come(parts).cookie
    refused = give(parts, half, code_of(parts, secret))
    assert (refused.outcome, refused.cookie) == ("throttled", half)
    assert refused.retry_after > 800
    let_pass(parts, minutes=15)
    assert give(parts, half, code_of(parts, secret)).outcome == "in"


def test_a_session_waits_ten_minutes_for_its_code(parts: Parts, clock: Clock, dana: int) -> None:
    secret, _ = enrolled(parts, dana)
    half = come(parts).cookie
    clock.advance(minutes=10)
    assert awaiting_code(parts.db, half or "", now=parts.clock()) is None
    assert give(parts, half, code_of(parts, secret)) == Attempt("wrong")


def test_a_whole_session_is_none_that_awaits_a_code(parts: Parts, dana: int) -> None:
    whole = come(parts).cookie
    assert awaiting_code(parts.db, whole or "", now=parts.clock()) is None
    assert give(parts, whole, "123456") == Attempt("wrong")
    assert reader(parts, whole) is not None


def test_one_that_is_being_set_up_has_no_effect(parts: Parts, dana: int) -> None:
    with parts.db.work() as tx:
        first = second_factor.begin(tx, parts.sealer, dana, issuer="Quillpost", now=parts.clock())
        again = second_factor.begin(tx, parts.sealer, dana, issuer="Quillpost", now=parts.clock())
        bad = second_factor.turn_on(tx, parts.sealer, dana, "000000", actor_of(dana), now=parts.clock())
    assert first == again
    assert bad is None
    assert first.uri == f"otpauth://totp/Quillpost:dana%40example.com?secret={first.secret}&issuer=Quillpost"
    assert come(parts).outcome == "in"
    assert use(parts, dana, code_of(parts, first.secret)) is None


def test_a_secret_waits_an_hour_for_its_first_code(parts: Parts, clock: Clock, dana: int) -> None:
    """Whoever saw it on a screen that was left open does not hold a key that another turns on some day."""
    first = begun(parts, dana)
    clock.advance(minutes=59)
    assert begun(parts, dana) == first
    clock.advance(minutes=1)
    with parts.db.work() as tx:
        late = code_of(parts, first)
        assert second_factor.turn_on(tx, parts.sealer, dana, late, actor_of(dana), now=parts.clock()) is None
    second = begun(parts, dana)
    assert second != first
    clock.advance(minutes=59)
    assert begun(parts, dana) == second, "the hour is its own"


@pytest.mark.parametrize("how", ["changed", "reset"])
def test_with_another_password_it_is_set_up_anew(parts: Parts, dana: int, how: str) -> None:
    first = begun(parts, dana)
    if how == "changed":
        who = actor_of(dana)
        password_resets.change(
            parts.people, dana, "seven plums in rain", who, session_id=0, now=parts.clock()
        )
    else:
        with parts.db.work() as tx:
            link = password_resets.link_for(tx, dana, base_url="", now=parts.clock()).removeprefix("/reset/")
        assert password_resets.reset(
            parts.people, link, "seven plums in rain", address="::1", now=parts.clock()
        )
    assert begun(parts, dana) != first


def test_another_password_leaves_one_that_is_on(parts: Parts, clock: Clock, dana: int) -> None:
    secret, _ = enrolled(parts, dana)
    password_resets.change(
        parts.people, dana, "seven plums in rain", actor_of(dana), session_id=0, now=parts.clock()
    )
    clock.advance(minutes=5)
    assert use(parts, dana, code_of(parts, secret)) == "code"


def test_it_is_turned_off_with_all_that_it_has(parts: Parts, account: int, dana: int) -> None:
    _, codes = enrolled(parts, dana)
    with parts.db.work() as tx, pytest.raises(Refused):
        second_factor.begin(tx, parts.sealer, dana, issuer="Quillpost", now=parts.clock())
    with parts.db.work() as tx:
        second_factor.turn_off(tx, dana, actor_of(dana), now=parts.clock())
        assert second_factor.left(tx, dana) == 0
    assert come(parts).outcome == "in"
    assert use(parts, dana, codes[0]) is None
    assert acts_of(parts, account) == ["second_factor.on", "second_factor.off", "sign_in"]
    assert told(parts)[-1].subject == "Your second factor was turned off"


def test_turned_off_where_it_is_not_on_nobody_is_told(parts: Parts, account: int, dana: int) -> None:
    with parts.db.work() as tx:
        second_factor.turn_off(tx, dana, actor_of(dana), now=parts.clock())
    assert (told(parts), acts_of(parts, account)) == ([], [])


def test_new_recovery_codes_replace_the_old(parts: Parts, account: int, dana: int) -> None:
    with parts.db.work() as tx, pytest.raises(Refused):
        second_factor.new_recovery_codes(tx, dana, actor_of(dana), now=parts.clock())
    _, old = enrolled(parts, dana)
    with parts.db.work() as tx:
        new = second_factor.new_recovery_codes(tx, dana, actor_of(dana), now=parts.clock())
    assert use(parts, dana, old[0]) is None
    assert use(parts, dana, new[0]) == "recovery"
    assert acts_of(parts, account)[-1] == "second_factor.codes"


def test_half_open_sessions_are_on_no_list(parts: Parts, dana: int) -> None:
    enrolled(parts, dana)
    come(parts)
    with parts.db.work() as tx:
        assert list_sessions(tx, dana, now=parts.clock()) == []
        assert tx.execute(sa.select(sa.func.count()).select_from(sessions)).scalar_one() == 1
