"""The second factor: a code that is good once, or a recovery code, and no way around either."""

from collections.abc import Callable
from datetime import timedelta

import pyotp
import pytest
import sqlalchemy as sa

from quillpost.accounts.users import passwords, second_factor
from quillpost.accounts.users.second_factor import Enrollment
from quillpost.accounts.users.sessions import find_person_awaiting_code, list_sessions
from quillpost.accounts.users.sign_in import SignInResult, submit_code
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import sessions
from quillpost.core.errors import Refused
from support import sign_in
from support.factories import Clock
from support.notifications import notification_rows
from support.rows import execute, run, scalars
from support.sign_in import make_user


class Phone:
    """Dana, who signs in, and the app that shows her codes once it is set up."""

    def __init__(self, container: Container, account: int, dana: int) -> None:
        self.container, self.account, self.dana = container, account, dana

    def enroll(self) -> list[str]:
        self.secret, codes = sign_in.enroll_second_factor(self.container, self.dana)
        return codes

    def code(self, *, steps: int = 0) -> str:
        return pyotp.TOTP(self.secret).at(self.container.clock() + timedelta(seconds=30 * steps))

    def wrong_code(self) -> str:
        return f"{(int(self.code()) + 1) % 1_000_000:06}"

    def give(self, cookie: str | None, code: str | None = None) -> SignInResult:
        """To complete a session that awaits it."""
        assert cookie is not None
        context, now = self.container.sign_in_context, self.container.clock()
        return submit_code(context, cookie, code or self.code(), sign_in.HOME, now=now)

    def awaited_of(self, cookie: str | None) -> int | None:
        return find_person_awaiting_code(self.container.db, cookie or "", now=self.container.clock())

    def use(self, code: str, person_id: int | None = None) -> str | None:
        encryptor, now = self.container.encryptor, self.container.clock()
        return run(self.container, second_factor.use_code, encryptor, person_id or self.dana, code, now=now)

    def begin(self) -> Enrollment:
        """One that is being set up."""
        encryptor, now = self.container.encryptor, self.container.clock()
        return run(self.container, second_factor.begin_enrollment, encryptor, self.dana, issuer="Quillpost", now=now)

    def enable(self, code: str) -> list[str] | None:
        how = (self.container.encryptor, self.dana, code, sign_in.actor_of(self.dana))
        return run(self.container, second_factor.enable_second_factor, *how, now=self.container.clock())

    def disable(self) -> None:
        with self.container.db.system_transaction() as tx:
            second_factor.disable_second_factor(tx, self.dana, sign_in.actor_of(self.dana), now=self.container.clock())

    def make_recovery_codes(self) -> list[str]:
        with self.container.db.system_transaction() as tx:
            now = self.container.clock()
            return second_factor.create_recovery_codes(tx, self.dana, sign_in.actor_of(self.dana), now=now)

    def count_recovery_codes(self) -> int:
        return run(self.container, second_factor.count_recovery_codes, self.dana)

    def change_password(self, password: str) -> None:
        context, now = self.container.sign_in_context, self.container.clock()
        passwords.change_password(context, self.dana, password, sign_in.actor_of(self.dana), session_id=0, now=now)

    def reset_password(self, password: str) -> None:
        context, now = self.container.sign_in_context, self.container.clock()
        link = run(self.container, passwords.create_reset_link, self.dana, base_url="", now=now)
        assert passwords.reset_password(context, link.removeprefix("/reset/"), password, address="::1", now=now)


@pytest.fixture
def phone(container: Container, account: int, dana: int) -> Phone:
    return Phone(container, account, dana)


def test_a_password_alone_opens_nothing_but_a_code_a_session(container: Container, clock: Clock, phone: Phone) -> None:
    phone.enroll()
    clock.advance(seconds=30)
    half = sign_in.sign_in_as(container)
    assert (half.outcome, half.browser_token) == ("code", None)
    assert (sign_in.find_user(container, half.cookie), phone.awaited_of(half.cookie)) == (None, phone.dana)
    assert run(container, list_sessions, phone.dana, now=clock.now()) == [], "half open sessions are on no list"
    assert len(scalars(container, sa.select(sessions.c.id).where(sessions.c.person_id == phone.dana))) == 1
    came = phone.give(half.cookie)
    assert came.outcome == "in"
    assert None not in (came.browser_token, sign_in.find_user(container, came.cookie))
    assert came.cookie != half.cookie
    assert phone.awaited_of(half.cookie) is None
    assert phone.give(half.cookie, phone.code(steps=1)) == SignInResult("wrong")
    assert sign_in.audited_acts(container, phone.account) == ["second_factor.on", "sign_in"]
    assert phone.awaited_of(came.cookie) is None, "a whole session awaits none"
    assert phone.give(came.cookie, "123456") == SignInResult("wrong")
    assert sign_in.find_user(container, came.cookie) is not None


def test_a_code_is_good_once_and_a_telephone_may_be_half_a_minute_off(clock: Clock, phone: Phone) -> None:
    phone.enroll()
    assert phone.use(phone.code()) is None, "it has turned the second factor on"
    for steps, outcome in ((-2, None), (-1, "code"), (0, "code"), (1, "code"), (2, None)):
        clock.advance(minutes=5)
        assert phone.use(phone.code(steps=steps)) == outcome, steps
    clock.advance(minutes=5)
    code = phone.code()
    assert [phone.use(code), phone.use(code)] == ["code", None]
    assert phone.use(phone.code(steps=-1)) is None, "nor one from before it"
    assert phone.use(phone.code(steps=1)) == "code"


def test_of_two_with_the_same_code_or_session_one_is_let_in(container: Container, clock: Clock, phone: Phone) -> None:
    codes = phone.enroll()
    clock.advance(minutes=5)
    code = phone.code()
    assert sorted(sign_in.run_twice_at_once(lambda: phone.use(code) or "")) == ["", "code"]
    assert sorted(sign_in.run_twice_at_once(lambda: phone.use(codes[0]) or "")) == ["", "recovery"]
    half, left = sign_in.sign_in_as(container).cookie, codes[1:]
    assert sorted(sign_in.run_twice_at_once(lambda: phone.give(half, left.pop()).outcome)) == ["in", "wrong"]


def test_a_recovery_code_is_long_and_may_be_typed_as_one_likes(phone: Phone) -> None:
    codes = phone.enroll()
    assert len(set(codes)) == 10
    for code in codes:
        assert [len(group) for group in code.split("-")] == [4, 4, 4, 4]
        assert set(code) <= {*second_factor.RECOVERY_ALPHABET, "-"}
    assert len(second_factor.RECOVERY_ALPHABET) == 32, "five bits a letter: eighty in all"
    secrets = str([execute(phone.container, f"select * from {table}") for table in ("people", "recovery_codes")])
    assert not any(each in secrets for code in (phone.secret, *codes) for each in (code, code.replace("-", "")))

    def typed(code: str) -> list[str]:
        plain = code.replace("-", "")
        return [code, code.upper(), plain, f" {code.replace('-', ' ')} ", code.replace("0", "o").replace("1", "l")]

    for way in range(5):
        assert [phone.use(typed(code)[way]) for code in codes] == ["recovery"] * 10, way
        assert [phone.use(code) for code in codes] == [None] * 10
        codes = phone.make_recovery_codes()


def test_using_a_recovery_code_sends_an_email(container: Container, phone: Phone) -> None:
    codes = phone.enroll()
    assert phone.give(sign_in.sign_in_as(container).cookie, codes[3]).outcome == "in"
    assert sign_in.audited_acts(container, phone.account) == ["second_factor.on", "second_factor.recovered", "sign_in"]
    mail = notification_rows(container)[-1]
    assert (mail.subject, mail.address) == ("A recovery code was used", sign_in.DANA)
    assert "9 are left." in mail.words
    assert codes[3] not in mail.words
    assert phone.count_recovery_codes() == 9


def test_an_odd_code_or_anothers_is_just_wrong(clock: Clock, phone: Phone, subtests: pytest.Subtests) -> None:
    codes = phone.enroll()
    for code in ("", "12345", "1234567", "١٢٣٤٥٦", "abcdef", "x" * 16, "x" * 10_000, "\x00" * 6):
        with subtests.test(code[:20]):
            assert phone.use(code) is None
    lee = make_user(phone.container, phone.account, "lee@example.com")
    sign_in.enroll_second_factor(phone.container, lee, "lee@example.com")
    clock.advance(minutes=5)
    assert [phone.use(code, lee) for code in (codes[0], phone.code())] == [None, None]


def test_after_five_wrong_codes_the_password_is_required_anew(container: Container, clock: Clock, phone: Phone) -> None:
    phone.enroll()
    clock.advance(minutes=1)
    for _ in range(2):
        half = sign_in.sign_in_as(container).cookie
        tries = [phone.give(half, phone.wrong_code()) for _ in range(5)]
        assert tries == [SignInResult("wrong", cookie=half)] * 4 + [SignInResult("wrong")]
        assert phone.give(half) == SignInResult("wrong")
    assert sign_in.audit_log(container, phone.account)[-1].about == {"why": "wrong code"}
    half = sign_in.sign_in_as(container).cookie
    refused = phone.give(half)
    assert (refused.outcome, refused.cookie) == ("throttled", half)
    assert refused.retry_after > 800
    sign_in.shift_rate_windows(container, minutes=15)
    assert phone.give(half).outcome == "in"


def test_a_session_waits_ten_minutes_for_its_code(container: Container, clock: Clock, phone: Phone) -> None:
    phone.enroll()
    half = sign_in.sign_in_as(container).cookie
    clock.advance(minutes=10)
    assert phone.awaited_of(half) is None
    assert phone.give(half) == SignInResult("wrong")


def test_one_being_set_up_has_no_effect_and_waits_an_hour(container: Container, clock: Clock, phone: Phone) -> None:
    """Whoever saw it on a screen that was left open does not hold a key that another turns on some day."""
    first = phone.begin()
    phone.secret = first.secret
    assert first.uri == f"otpauth://totp/Quillpost:dana%40example.com?secret={first.secret}&issuer=Quillpost"
    assert phone.enable("000000") is None
    assert sign_in.sign_in_as(container).outcome == "in"
    assert phone.use(phone.code()) is None
    clock.advance(minutes=59)
    assert phone.begin() == first
    clock.advance(minutes=1)
    assert phone.enable(phone.code()) is None
    second = phone.begin()
    assert second.secret != first.secret
    clock.advance(minutes=59)
    assert phone.begin() == second, "the hour is its own"


@pytest.mark.parametrize("set_password", [Phone.change_password, Phone.reset_password])
def test_another_password_starts_the_setup_over_and_leaves_one_that_is_on(
    clock: Clock, phone: Phone, set_password: Callable[[Phone, str], None]
) -> None:
    first = phone.begin()
    set_password(phone, "seven plums in rain")
    assert phone.begin().secret != first.secret
    phone.enroll()
    set_password(phone, "eight plums in rain")
    assert sign_in.sign_in_as(phone.container, sign_in.DANA, "eight plums in rain").outcome == "code"
    clock.advance(minutes=5)
    assert phone.use(phone.code()) == "code"


@pytest.mark.usefixtures("clean_database")
def test_it_is_turned_off_with_all_that_it_has(container: Container, phone: Phone) -> None:
    phone.disable()
    assert (notification_rows(container), sign_in.audited_acts(container, phone.account)) == ([], []), "already off"
    codes = phone.enroll()
    with pytest.raises(Refused):
        phone.begin()
    phone.disable()
    assert (phone.count_recovery_codes(), sign_in.sign_in_as(container).outcome) == (0, "in")
    assert phone.use(codes[0]) is None
    assert sign_in.audited_acts(container, phone.account) == ["second_factor.on", "second_factor.off", "sign_in"]
    assert notification_rows(container)[-1].subject == "Your second factor was turned off"


def test_new_recovery_codes_replace_the_old(container: Container, phone: Phone) -> None:
    with pytest.raises(Refused):
        phone.make_recovery_codes()
    old, new = phone.enroll(), phone.make_recovery_codes()
    assert [phone.use(old[0]), phone.use(new[0])] == [None, "recovery"]
    assert sign_in.audited_acts(container, phone.account)[-1] == "second_factor.codes"
