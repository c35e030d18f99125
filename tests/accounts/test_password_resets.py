"""Another password: by a link that comes by e-mail and is good once, or by whoever is signed in."""

import pytest
import sqlalchemy as sa

from quillpost.accounts.users import emails, passwords
from quillpost.accounts.users import queries as user_queries
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import memberships
from quillpost.core.errors import Invalid, Refused
from quillpost.core.outbox import encryption_context
from quillpost.core.tokens import mint_secret
from support.browser_sessions import PASSWORD, make_user
from support.factories import Clock
from support.notifications import notification_rows
from support.orders import open_account
from support.rows import execute
from support.sign_in import (
    DANA,
    HOME,
    audited_acts,
    count_hashes,
    count_statements,
    enroll_second_factor,
    find_user,
    run_twice_at_once,
    shift_rate_windows,
    sign_in_as,
    sign_in_user,
)
from support.transactions import run

pytestmark = pytest.mark.usefixtures("clean_database")

NEW = "seven plums in autumn rain"
BASE = "https://mail.example.com"


def ask(container: Container, email: str = DANA, address: str = "192.0.2.7") -> None:
    passwords.request_reset(container.sign_in_context, email, base_url=BASE, address=address, now=container.clock())


def request_token(container: Container, email: str = DANA) -> str:
    """The token of the link that was sent last."""
    ask(container, email)
    notice = notification_rows(container)[-1]
    link = container.encryptor.decrypt(notice.secret_sealed, context=encryption_context(notice.key)).decode()
    return link.removeprefix(f"{BASE}/reset/")


def reset(container: Container, token: str, password: str = NEW) -> bool:
    context, now = container.sign_in_context, container.clock()
    return passwords.reset_password(context, token, password, address="192.0.2.7", now=now)


def whose(container: Container, token: str) -> str | None:
    return run(container, passwords.find_reset_email, token, now=container.clock())


def test_a_link_sets_another_password_once(container: Container, account: int, dana: int) -> None:
    cookies = [sign_in_as(container).cookie for _ in range(2)]
    other, token = request_token(container), request_token(container)
    assert (whose(container, other), whose(container, token)) == (DANA, DANA), "the first is on its way as well"
    for _ in range(12):
        sign_in_as(container, DANA, "a guess")
    assert sign_in_as(container).outcome == "throttled"
    with pytest.raises(Invalid):
        reset(container, token, DANA)
    assert reset(container, token)
    assert sign_in_as(container, DANA, NEW).outcome == "in", "nor do guessers shut out whoever has the link"
    assert sign_in_as(container, DANA, PASSWORD).outcome == "wrong"
    assert [find_user(container, cookie) for cookie in cookies] == [None, None]
    assert (whose(container, token), whose(container, other)) == (None, None)
    assert not reset(container, token, "yet another good password")
    acts = audited_acts(container, account)
    assert [act for act in acts if act.startswith("password")] == ["password.reset_asked"] * 2 + ["password.reset"]
    subjects = [mail.subject for mail in notification_rows(container)]
    assert subjects == ["Set another password"] * 2 + ["Your password was changed"]


def test_the_second_factor_stays(container: Container, dana: int) -> None:
    enroll_second_factor(container, dana)
    assert reset(container, request_token(container))
    assert sign_in_as(container, DANA, NEW).outcome == "code"


def test_a_link_is_good_for_an_hour_and_no_other_is(
    container: Container, clock: Clock, dana: int, subtests: pytest.Subtests
) -> None:
    token = request_token(container)
    for other in ("", "x", mint_secret("reset", b"\x01" * 32), mint_secret("invitation", b"\x01" * 32), "\x00"):
        with subtests.test(other), count_hashes() as hashes:
            assert (whose(container, other), reset(container, other)) == (None, False)
            assert hashes == [], "whoever makes up links costs us nothing"
    clock.advance(minutes=59)
    assert whose(container, token) == DANA
    clock.advance(minutes=1)
    assert (whose(container, token), reset(container, token)) == (None, False)
    assert sign_in_as(container).outcome == "in"


def test_only_one_of_two_simultaneous_resets_by_one_link_succeeds(container: Container, dana: int) -> None:
    token = request_token(container)
    words = ["first of the two words", "second of the two words"]
    left = list(words)
    assert sorted(run_twice_at_once(lambda: reset(container, token, left.pop()))) == [False, True]
    assert sorted(sign_in_as(container, DANA, each).outcome for each in words) == ["in", "wrong"]


def test_asking_for_nobody_looks_and_costs_the_same(container: Container, account: int, dana: int) -> None:
    gone = make_user(container, account, "gone@example.com")
    execute(container, sa.delete(memberships).where(memberships.c.person_id == gone))
    seen = []
    for email in (DANA, "nobody@example.com", "gone@example.com", "\x00", "x" * 9_000):
        with count_statements(container) as statements:
            ask(container, email)
        seen.append(statements)
    assert all(each == seen[0] for each in seen)
    assert [mail.address for mail in notification_rows(container)] == [DANA]
    assert audited_acts(container, account) == ["password.reset_asked"]


def test_an_e_mail_gets_three_links_an_hour_and_a_network_twenty(container: Container, account: int, dana: int) -> None:
    for number in range(5):
        ask(container, DANA.upper() if number % 2 else DANA, f"203.0.113.{number}")
    assert len(notification_rows(container)) == 3
    shift_rate_windows(container, hours=1)
    ask(container)
    assert len(notification_rows(container)) == 4
    shift_rate_windows(container, hours=1)
    for number in range(22):
        make_user(container, account, f"{number}@example.com")
        ask(container, f"{number}@example.com")
    assert len(notification_rows(container)) == 24


def test_a_link_is_kept_sealed_and_as_a_digest_alone(container: Container, dana: int) -> None:
    token = request_token(container)
    kept = [execute(container, f"select * from {table}") for table in ("notices", "password_resets", "audit_log")]
    assert token.split("_")[2] not in str(kept)


def test_another_password_ends_the_links_to_set_one_and_is_told_of(container: Container, dana: int) -> None:
    mailed, user = request_token(container), sign_in_user(container)
    how = {"session_id": user.session_id, "now": container.clock()}
    passwords.change_password(container.sign_in_context, dana, NEW, user.actor, **how)  # type: ignore[arg-type]
    assert whose(container, mailed) is None
    assert notification_rows(container)[-1].subject == "Your password was changed"


def test_a_session_that_the_old_password_opens_meanwhile_is_none(
    container: Container, dana: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's sign-in with the old password, which is looked at while it is changed."""
    user, context = sign_in_user(container), container.sign_in_context
    matches = type(context.hasher).matches

    def changed_meanwhile(self: object, kept: str | None, password: str) -> bool:
        monkeypatch.undo()
        is_right = matches(context.hasher, kept, password)
        now = container.clock()
        passwords.change_password(context, dana, NEW, user.actor, session_id=user.session_id, now=now)
        return is_right

    monkeypatch.setattr(type(context.hasher), "matches", changed_meanwhile)
    assert sign_in_as(container, visitor=HOME).outcome == "wrong"


def test_the_notice_is_of_an_account_that_they_are_in(container: Container, account: int, dana: int) -> None:
    make_user(container, open_account(container, "second@example.com").account_id, DANA, role="member")
    with container.db.system_transaction() as tx:
        for _ in range(2):
            emails.notify_person(tx, dana, key="news", subject="News", text="Read this", now=container.clock())
    [notice] = notification_rows(container)  # told once under a key
    assert (notice.account_id, notice.address, notice.kind, notice.mode) == (account, DANA, "people", "live")
    assert notice.created_at == container.clock()


def test_whoever_runs_the_service_finds_people_as_they_sign_in(container: Container, dana: int) -> None:
    with container.db.system_transaction() as tx:
        assert user_queries.find_person(tx, f"  {DANA.upper()} ") == dana
        for odd in ("dana\x00@example.com", "lee@example.com", ""):
            with pytest.raises(Refused, match="Nobody signs in with"):
                user_queries.find_person(tx, odd)
