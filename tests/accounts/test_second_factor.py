"""The second factor: a code that is good once, or a recovery code, and no way around either."""

from datetime import timedelta

import pyotp
import pytest
import sqlalchemy as sa

from quillpost.accounts.users import passwords, second_factor
from quillpost.accounts.users.sessions import find_person_awaiting_code, list_sessions
from quillpost.accounts.users.sign_in import SignInResult, submit_code
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import people, recovery_codes, sessions
from quillpost.core.errors import Refused
from support.browser_sessions import make_user
from support.factories import Clock
from support.notifications import notification_rows
from support.sign_in import (
    DANA,
    HOME,
    actor_of,
    audit_log,
    audited_acts,
    enroll_second_factor,
    find_user,
    run_twice_at_once,
    shift_rate_windows,
    sign_in_as,
)


def code_of(container: Container, secret: str, *, steps: int = 0) -> str:
    return pyotp.TOTP(secret).at(container.clock() + timedelta(seconds=30 * steps))


def give(container: Container, cookie: str | None, code: str) -> SignInResult:
    assert cookie is not None
    return submit_code(container.sign_in_context, cookie, code, HOME, now=container.clock())


def use(container: Container, person_id: int, code: str) -> str | None:
    with container.db.system_transaction() as tx:
        return second_factor.use_code(tx, container.encryptor, person_id, code, now=container.clock())


def begun(container: Container, person_id: int) -> str:
    """The secret of one that is being set up."""
    with container.db.system_transaction() as tx:
        return second_factor.begin_enrollment(
            tx, container.encryptor, person_id, issuer="Q", now=container.clock()
        ).secret


def wrong(code: str) -> str:
    return f"{(int(code) + 1) % 1_000_000:06}"


def test_with_the_password_alone_nobody_is_let_in(container: Container, dana: int) -> None:
    enroll_second_factor(container, dana)
    came = sign_in_as(container)
    assert (came.outcome, came.browser_token) == ("code", None)
    assert find_user(container, came.cookie) is None
    assert find_person_awaiting_code(container.db, came.cookie or "", now=container.clock()) == dana


def test_the_code_lets_in_and_begins_another_session(
    container: Container, clock: Clock, account: int, dana: int
) -> None:
    secret, _ = enroll_second_factor(container, dana)
    clock.advance(seconds=30)
    half = sign_in_as(container).cookie
    came = give(container, half, code_of(container, secret))
    assert came.outcome == "in"
    assert came.browser_token is not None
    assert came.cookie != half
    assert find_user(container, came.cookie) is not None
    assert find_person_awaiting_code(container.db, half or "", now=container.clock()) is None
    assert give(container, half, code_of(container, secret, steps=1)) == SignInResult("wrong")
    assert audited_acts(container, account) == ["second_factor.on", "sign_in"]


@pytest.mark.parametrize(("steps", "is_good"), [(-2, False), (-1, True), (0, True), (1, True), (2, False)])
def test_a_telephone_may_be_half_a_minute_off(
    container: Container, clock: Clock, dana: int, steps: int, is_good: bool
) -> None:
    secret, _ = enroll_second_factor(container, dana)
    clock.advance(minutes=5)
    assert (use(container, dana, code_of(container, secret, steps=steps)) == "code") is is_good


def test_a_code_is_good_once(container: Container, clock: Clock, dana: int) -> None:
    secret, _ = enroll_second_factor(container, dana)
    assert use(container, dana, code_of(container, secret)) is None, "it has turned the second factor on"
    clock.advance(minutes=5)
    code = code_of(container, secret)
    assert use(container, dana, code) == "code"
    assert use(container, dana, code) is None
    assert use(container, dana, code_of(container, secret, steps=-1)) is None, "nor one from before it"
    assert use(container, dana, code_of(container, secret, steps=1)) == "code"


def test_of_two_with_the_same_code_one_is_let_in(container: Container, clock: Clock, dana: int) -> None:
    secret, codes = enroll_second_factor(container, dana)
    clock.advance(minutes=5)
    code = code_of(container, secret)
    assert sorted(run_twice_at_once(lambda: use(container, dana, code) or "")) == ["", "code"]
    assert sorted(run_twice_at_once(lambda: use(container, dana, codes[0]) or "")) == ["", "recovery"]


def test_of_two_with_the_same_half_open_session_one_is_let_in(container: Container, clock: Clock, dana: int) -> None:
    _, codes = enroll_second_factor(container, dana)
    half = sign_in_as(container).cookie
    left = list(codes)
    outcomes = run_twice_at_once(lambda: give(container, half, left.pop()).outcome)
    assert sorted(outcomes) == ["in", "wrong"]


@pytest.mark.parametrize(
    "dress", [str, str.upper, lambda c: c.replace("-", ""), lambda c: f" {c.replace('-', ' ')} ",
              lambda c: c.replace("0", "o").replace("1", "l")]
)  # fmt: skip
def test_a_recovery_code_may_be_typed_as_one_likes(container: Container, dana: int, dress: object) -> None:
    _, codes = enroll_second_factor(container, dana)
    assert callable(dress)
    assert [use(container, dana, dress(code)) for code in codes] == ["recovery"] * 10
    assert [use(container, dana, code) for code in codes] == [None] * 10


def test_recovery_codes_are_long_and_differ(container: Container, dana: int) -> None:
    _, codes = enroll_second_factor(container, dana)
    assert len(set(codes)) == 10
    for code in codes:
        assert [len(group) for group in code.split("-")] == [4, 4, 4, 4]
        assert set(code) <= {*second_factor.RECOVERY_ALPHABET, "-"}
    assert len(second_factor.RECOVERY_ALPHABET) == 32, "five bits a letter: eighty in all"


def test_using_a_recovery_code_sends_an_email(container: Container, account: int, dana: int) -> None:
    _, codes = enroll_second_factor(container, dana)
    assert give(container, sign_in_as(container).cookie, codes[3]).outcome == "in"
    assert audited_acts(container, account) == ["second_factor.on", "second_factor.recovered", "sign_in"]
    mail = notification_rows(container)[-1]
    assert (mail.subject, mail.address) == ("A recovery code was used", DANA)
    assert "9 are left." in mail.words
    assert codes[3] not in mail.words
    with container.db.system_transaction() as tx:
        assert second_factor.count_recovery_codes(tx, dana) == 9


def test_nothing_that_is_kept_tells_the_codes(container: Container, dana: int) -> None:
    secret, codes = enroll_second_factor(container, dana)
    with container.db.system_transaction() as tx:
        kept = str(tx.execute(sa.select(people)).all()) + str(tx.execute(sa.select(recovery_codes)).all())
    assert secret not in kept
    assert not any(code in kept or code.replace("-", "") in kept for code in codes)


def test_anothers_code_is_not_ones_own(container: Container, clock: Clock, account: int, dana: int) -> None:
    lee = make_user(container, account, "lee@example.com")
    secret, codes = enroll_second_factor(container, dana)
    enroll_second_factor(container, lee, "lee@example.com")
    clock.advance(minutes=5)
    assert use(container, lee, codes[0]) is None
    assert use(container, lee, code_of(container, secret)) is None


@pytest.mark.parametrize("code", ["", "12345", "1234567", "١٢٣٤٥٦", "abcdef", "x" * 16, "x" * 10_000, "\x00" * 6])
def test_an_odd_code_is_just_wrong(container: Container, dana: int, code: str) -> None:
    enroll_second_factor(container, dana)
    assert use(container, dana, code) is None


def test_after_five_wrong_codes_the_password_is_required_again(
    container: Container, clock: Clock, account: int, dana: int
) -> None:
    secret, _ = enroll_second_factor(container, dana)
    clock.advance(minutes=1)
    half, bad = sign_in_as(container).cookie, wrong(code_of(container, secret))
    tries = [give(container, half, bad) for _ in range(5)]
    assert tries == [SignInResult("wrong", cookie=half)] * 4 + [SignInResult("wrong")]
    assert give(container, half, code_of(container, secret)) == SignInResult("wrong")
    assert audit_log(container, account)[-1].about == {"why": "wrong code"}


def test_ten_wrong_codes_are_all_whatever_the_session(container: Container, clock: Clock, dana: int) -> None:
    secret, _ = enroll_second_factor(container, dana)
    clock.advance(minutes=1)
    bad = wrong(code_of(container, secret))
    for _ in range(2):
        half = sign_in_as(container).cookie
        for _ in range(5):
            assert give(container, half, bad).outcome == "wrong"
    half = sign_in_as(container).cookie
    refused = give(container, half, code_of(container, secret))
    assert (refused.outcome, refused.cookie) == ("throttled", half)
    assert refused.retry_after > 800
    shift_rate_windows(container, minutes=15)
    assert give(container, half, code_of(container, secret)).outcome == "in"


def test_a_session_waits_ten_minutes_for_its_code(container: Container, clock: Clock, dana: int) -> None:
    secret, _ = enroll_second_factor(container, dana)
    half = sign_in_as(container).cookie
    clock.advance(minutes=10)
    assert find_person_awaiting_code(container.db, half or "", now=container.clock()) is None
    assert give(container, half, code_of(container, secret)) == SignInResult("wrong")


def test_a_whole_session_is_none_that_awaits_a_code(container: Container, dana: int) -> None:
    whole = sign_in_as(container).cookie
    assert find_person_awaiting_code(container.db, whole or "", now=container.clock()) is None
    assert give(container, whole, "123456") == SignInResult("wrong")
    assert find_user(container, whole) is not None


def test_one_that_is_being_set_up_has_no_effect(container: Container, dana: int) -> None:
    with container.db.system_transaction() as tx:
        first = second_factor.begin_enrollment(tx, container.encryptor, dana, issuer="Quillpost", now=container.clock())
        again = second_factor.begin_enrollment(tx, container.encryptor, dana, issuer="Quillpost", now=container.clock())
        bad = second_factor.enable_second_factor(
            tx, container.encryptor, dana, "000000", actor_of(dana), now=container.clock()
        )
    assert first == again
    assert bad is None
    assert first.uri == f"otpauth://totp/Quillpost:dana%40example.com?secret={first.secret}&issuer=Quillpost"
    assert sign_in_as(container).outcome == "in"
    assert use(container, dana, code_of(container, first.secret)) is None


def test_a_secret_waits_an_hour_for_its_first_code(container: Container, clock: Clock, dana: int) -> None:
    """Whoever saw it on a screen that was left open does not hold a key that another turns on some day."""
    first = begun(container, dana)
    clock.advance(minutes=59)
    assert begun(container, dana) == first
    clock.advance(minutes=1)
    with container.db.system_transaction() as tx:
        late = code_of(container, first)
        assert (
            second_factor.enable_second_factor(
                tx, container.encryptor, dana, late, actor_of(dana), now=container.clock()
            )
            is None
        )
    second = begun(container, dana)
    assert second != first
    clock.advance(minutes=59)
    assert begun(container, dana) == second, "the hour is its own"


@pytest.mark.parametrize("how", ["changed", "reset"])
def test_after_a_password_change_the_setup_starts_over(container: Container, dana: int, how: str) -> None:
    first = begun(container, dana)
    if how == "changed":
        actor = actor_of(dana)
        passwords.change_password(
            container.sign_in_context, dana, "seven plums in rain", actor, session_id=0, now=container.clock()
        )
    else:
        with container.db.system_transaction() as tx:
            link = passwords.create_reset_link(tx, dana, base_url="", now=container.clock()).removeprefix("/reset/")
        assert passwords.reset_password(
            container.sign_in_context, link, "seven plums in rain", address="::1", now=container.clock()
        )
    assert begun(container, dana) != first


def test_another_password_leaves_one_that_is_on(container: Container, clock: Clock, dana: int) -> None:
    secret, _ = enroll_second_factor(container, dana)
    passwords.change_password(
        container.sign_in_context, dana, "seven plums in rain", actor_of(dana), session_id=0, now=container.clock()
    )
    clock.advance(minutes=5)
    assert use(container, dana, code_of(container, secret)) == "code"


def test_it_is_turned_off_with_all_that_it_has(container: Container, account: int, dana: int) -> None:
    _, codes = enroll_second_factor(container, dana)
    with container.db.system_transaction() as tx, pytest.raises(Refused):
        second_factor.begin_enrollment(tx, container.encryptor, dana, issuer="Quillpost", now=container.clock())
    with container.db.system_transaction() as tx:
        second_factor.disable_second_factor(tx, dana, actor_of(dana), now=container.clock())
        assert second_factor.count_recovery_codes(tx, dana) == 0
    assert sign_in_as(container).outcome == "in"
    assert use(container, dana, codes[0]) is None
    assert audited_acts(container, account) == ["second_factor.on", "second_factor.off", "sign_in"]
    assert notification_rows(container)[-1].subject == "Your second factor was turned off"


@pytest.mark.usefixtures("clean_database")
def test_disabling_it_when_it_is_off_sends_no_notification(container: Container, account: int, dana: int) -> None:
    with container.db.system_transaction() as tx:
        second_factor.disable_second_factor(tx, dana, actor_of(dana), now=container.clock())
    assert (notification_rows(container), audited_acts(container, account)) == ([], [])


def test_new_recovery_codes_replace_the_old(container: Container, account: int, dana: int) -> None:
    with container.db.system_transaction() as tx, pytest.raises(Refused):
        second_factor.create_recovery_codes(tx, dana, actor_of(dana), now=container.clock())
    _, old = enroll_second_factor(container, dana)
    with container.db.system_transaction() as tx:
        new = second_factor.create_recovery_codes(tx, dana, actor_of(dana), now=container.clock())
    assert use(container, dana, old[0]) is None
    assert use(container, dana, new[0]) == "recovery"
    assert audited_acts(container, account)[-1] == "second_factor.codes"


@pytest.mark.usefixtures("clean_database")
def test_half_open_sessions_are_on_no_list(container: Container, dana: int) -> None:
    enroll_second_factor(container, dana)
    sign_in_as(container)
    with container.db.system_transaction() as tx:
        assert list_sessions(tx, dana, now=container.clock()) == []
        assert tx.execute(sa.select(sa.func.count()).select_from(sessions)).scalar_one() == 1
