"""Passwords: which will do, and mails, over a real server, with a link to set another or to join, once."""

import re
import unicodedata
from importlib.resources import files

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from quillpost.accounts.users import emails, invitations, passwords
from quillpost.accounts.users import queries as user_queries
from quillpost.accounts.users.rules import check_password, find_email_error, normalize_email, normalize_password
from quillpost.app.container import Container
from quillpost.core import outbox
from quillpost.core.database.tables.accounts import memberships
from quillpost.core.database.tables.notifications import notices
from quillpost.core.errors import Invalid, Refused
from quillpost.core.outbox import encryption_context
from quillpost.core.tokens import mint_secret
from quillpost.notifications import service as notification_service
from quillpost.notifications.messages import NotificationReader
from support import sign_in
from support.factories import Clock
from support.notifications import message_sender, notification_rows, send_all_due, smtp_notifier
from support.orders import open_account
from support.rows import execute, run
from support.sign_in import DANA, PASSWORD, make_user
from support.smtp_server import ReceivedMail, SmtpServer

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
    cookies = [sign_in.sign_in_as(container).cookie for _ in range(2)]
    other, token = request_token(container), request_token(container)
    assert (whose(container, other), whose(container, token)) == (DANA, DANA), "the first is on its way as well"
    for _ in range(12):
        sign_in.sign_in_as(container, DANA, "a guess")
    assert sign_in.sign_in_as(container).outcome == "throttled"
    with pytest.raises(Invalid):
        reset(container, token, DANA)
    assert reset(container, token)
    assert sign_in.sign_in_as(container, DANA, NEW).outcome == "in", "nor do guessers shut out whoever has the link"
    assert sign_in.sign_in_as(container, DANA, PASSWORD).outcome == "wrong"
    assert [sign_in.find_user(container, cookie) for cookie in cookies] == [None, None]
    assert (whose(container, token), whose(container, other)) == (None, None)
    assert not reset(container, token, "yet another good password")
    acts = sign_in.audited_acts(container, account)
    assert [act for act in acts if act.startswith("password")] == ["password.reset_asked"] * 2 + ["password.reset"]
    subjects = [mail.subject for mail in notification_rows(container)]
    assert subjects == ["Set another password"] * 2 + ["Your password was changed"]


def test_a_link_is_good_for_an_hour(container: Container, clock: Clock, dana: int, subtests: pytest.Subtests) -> None:
    token = request_token(container)
    for other in ("", "x", mint_secret("reset", b"\x01" * 32), mint_secret("invitation", b"\x01" * 32), "\x00"):
        with subtests.test(other), sign_in.count_hashes() as hashes:
            assert (whose(container, other), reset(container, other)) == (None, False)
            assert hashes == [], "whoever makes up links costs us nothing"
    clock.advance(minutes=59)
    assert whose(container, token) == DANA
    clock.advance(minutes=1)
    assert (whose(container, token), reset(container, token)) == (None, False)
    assert sign_in.sign_in_as(container).outcome == "in"


def test_only_one_of_two_simultaneous_resets_by_one_link_succeeds(container: Container, dana: int) -> None:
    token = request_token(container)
    words = ["first of the two words", "second of the two words"]
    left = list(words)
    assert sorted(sign_in.run_twice_at_once(lambda: reset(container, token, left.pop()))) == [False, True]
    assert sorted(sign_in.sign_in_as(container, DANA, each).outcome for each in words) == ["in", "wrong"]


def test_asking_for_nobody_looks_and_costs_the_same(container: Container, account: int, dana: int) -> None:
    gone = make_user(container, account, "gone@example.com")
    execute(container, sa.delete(memberships).where(memberships.c.person_id == gone))
    seen = []
    for email in (DANA, "nobody@example.com", "gone@example.com", "\x00", "x" * 9_000):
        with sign_in.count_statements(container) as statements:
            ask(container, email)
        seen.append(statements)
    assert all(each == seen[0] for each in seen)
    assert [mail.address for mail in notification_rows(container)] == [DANA]
    assert sign_in.audited_acts(container, account) == ["password.reset_asked"]


def test_an_e_mail_gets_three_links_an_hour_and_a_network_twenty(container: Container, account: int, dana: int) -> None:
    for number in range(5):
        ask(container, DANA.upper() if number % 2 else DANA, f"203.0.113.{number}")
    assert len(notification_rows(container)) == 3
    sign_in.shift_rate_windows(container, hours=1)
    ask(container)
    assert len(notification_rows(container)) == 4
    sign_in.shift_rate_windows(container, hours=1)
    for number in range(22):
        make_user(container, account, f"{number}@example.com")
        ask(container, f"{number}@example.com")
    assert len(notification_rows(container)) == 24


def test_a_link_is_kept_as_a_digest_and_ends_with_another_password(container: Container, dana: int) -> None:
    token = request_token(container)
    kept = [execute(container, f"select * from {table}") for table in ("notices", "password_resets", "audit_log")]
    assert token.split("_")[2] not in str(kept)
    mailed, user = request_token(container), sign_in.sign_in_user(container)
    how = {"session_id": user.session_id, "now": container.clock()}
    passwords.change_password(container.sign_in_context, dana, NEW, user.actor, **how)  # type: ignore[arg-type]
    assert whose(container, mailed) is None
    assert notification_rows(container)[-1].subject == "Your password was changed"


def test_an_old_password_opens_none_meanwhile(container: Container, dana: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's sign-in with the old password, which is looked at while it is changed."""
    user, context = sign_in.sign_in_user(container), container.sign_in_context
    matches = type(context.hasher).matches

    def changed_meanwhile(self: object, kept: str | None, password: str) -> bool:
        monkeypatch.undo()
        is_right = matches(context.hasher, kept, password)
        now = container.clock()
        passwords.change_password(context, dana, NEW, user.actor, session_id=user.session_id, now=now)
        return is_right

    monkeypatch.setattr(type(context.hasher), "matches", changed_meanwhile)
    assert sign_in.sign_in_as(container, visitor=sign_in.HOME).outcome == "wrong"


def test_the_notice_is_of_an_account_that_they_are_in(container: Container, account: int, dana: int) -> None:
    make_user(container, open_account(container, "second@example.com").account_id, DANA, role="member")
    with container.db.system_transaction() as tx:
        for _ in range(2):
            emails.notify_person(tx, dana, key="news", subject="News", text="Read this", now=container.clock())
    [notice] = notification_rows(container)  # told once under a key
    assert (notice.account_id, notice.address, notice.kind, notice.mode) == (account, DANA, "people", "live")
    assert notice.created_at == container.clock()


def test_people_are_found_as_they_sign_in_and_nobody_gets_mail(container: Container, dana: int, account: int) -> None:
    with container.db.system_transaction() as tx:
        assert user_queries.find_person(tx, f"  {DANA.upper()} ") == dana
        for odd in ("dana\x00@example.com", "lee@example.com", ""):
            with pytest.raises(Refused, match="Nobody signs in with"):
                user_queries.find_person(tx, odd)
    with container.db.system_transaction() as tx:
        for key, nobody in (("a", None), ("b", 10_000)):
            emails.queue_email(tx, nobody, key=key, subject="x", text="x", now=container.clock())
    assert notification_rows(container) == []


TEMPLATES = files("quillpost.web") / "templates"
LEE = "lee@example.com"
RESET = re.compile(rf"{re.escape(BASE)}/reset/qp_reset_[0-9A-Za-z]+")


def invite(tx: sa.Connection, container: Container, account: int, person_id: int, inviter: str = DANA) -> str:
    return invitations.invite(
        tx, container.encryptor, account, email=LEE, role="member", sub_account_id=None,
        actor=sign_in.actor_of(person_id, inviter), base_url=BASE, now=container.clock(),
    )  # fmt: skip


def send_to(container: Container, **server: object) -> list[ReceivedMail]:
    with SmtpServer(**server) as house:  # type: ignore[arg-type]
        send_all_due(message_sender(container, smtp_notifier(house)))
        return house.mails


def state(container: Container) -> tuple[str, bool]:
    """Of the first notice: its status, and whether its link is kept."""
    row = notification_rows(container)[0]
    return row.status, row.secret_sealed is not None


def test_the_link_is_in_the_mail_and_then_nowhere(container: Container, account: int, dana: int) -> None:
    run(container, notification_service.unsubscribe, NotificationReader(account, DANA), now=container.clock())
    ask(container)
    assert state(container) == ("pending", True)
    [mail] = send_to(container)
    plain, html = mail.part("plain"), mail.part("html")
    assert (mail.to, mail.message["Subject"]) == ([DANA], "Set another password")
    assert mail.message["List-Unsubscribe"] is None, "nobody can refuse to hear of their own password"
    found = RESET.search(plain)
    assert found is not None
    assert f'<a href="{found[0]}">' in html
    assert "{link}" not in plain + html
    assert "You get this because you sign in to Quillpost with this address" in plain
    assert "nothing was printed" not in plain
    assert run(container, passwords.find_reset_email, found[0].rpartition("/")[2], now=container.clock()) == DANA
    assert state(container) == ("sent", False)
    assert "qp_reset_" not in notification_rows(container)[0].words


def test_a_name_cannot_bend_the_mail(container: Container, account: int, dana: int) -> None:
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("update accounts set name = :name"), {"name": "A\r\nBcc: x@example.com\n\n" + "b" * 500})
        invite(tx, container, account, dana, "d" * 400)
    [mail] = send_to(container)
    assert mail.message["Bcc"] is None
    assert mail.message["Subject"].startswith("You are invited to A Bcc: x@example.com bbb")
    assert "\n" not in mail.message["Subject"]
    assert "b" * 90 not in mail.part("plain").partition("-- ")[0]


def test_a_link_is_kept_while_it_can_still_be_sent(container: Container, clock: Clock, dana: int) -> None:
    ask(container)
    send_to(container, data_answer="451 Later")
    assert state(container) == ("pending", True)
    clock.advance(minutes=2)
    [mail] = send_to(container)
    assert RESET.search(mail.part("plain"))


def test_what_is_refused_for_good_or_given_up_forgets_its_link(container: Container, clock: Clock, dana: int) -> None:
    ask(container)
    send_to(container, answers={DANA: "550 Nobody here"})
    assert state(container) == ("failed", False)
    execute(container, sa.delete(notices))
    ask(container)
    clock.advance(days=4)
    notification_service.delete_expired_notifications(container.db, now=container.clock())
    assert state(container) == ("failed", False)


def test_a_link_that_is_over_is_not_sent_any_more(container: Container, clock: Clock, dana: int) -> None:
    ask(container)
    send_to(container, data_answer="451 Later")
    clock.advance(minutes=59)
    assert state(container) == ("pending", True)
    clock.advance(minutes=1)
    assert send_to(container) == []
    assert state(container) == ("failed", False)
    row = notification_rows(container)[0]
    assert (row.attempts, row.error) == (1, "It could not be sent before the link in it was over.")


def test_a_secret_opens_in_no_other_notice(container: Container, dana: int) -> None:
    ask(container)
    with container.db.system_transaction() as tx:
        emails.queue_email(tx, dana, key="other", subject="Other", text="{link}", now=container.clock())
        sealed = tx.execute(sa.select(notices.c.secret_sealed).order_by(notices.c.id)).scalars().first()
        tx.execute(sa.update(notices).where(notices.c.key == "other").values(secret_sealed=sealed))
        tx.execute(sa.delete(notices).where(notices.c.key != "other"))
    assert send_to(container) == []
    assert state(container) == ("pending", True)
    assert "a reason that is in the log" in notification_rows(container)[0].error


def test_the_words_are_mails_words(container: Container, dana: int) -> None:
    with container.db.system_transaction() as tx:
        emails.notify_password_changed(tx, dana, by_link=False, now=container.clock())
        emails.notify_second_factor_off(tx, dana, now=container.clock())
        for left in (0, 1, 5):
            emails.notify_recovery_code_used(tx, dana, remaining=left, now=container.clock())
    words = [row.words for row in notification_rows(container)]
    assert len(words) == 5
    assert "2026-05-04 12:00:00 UTC, by somebody who was signed in as you." in words[0]
    assert ["No others are left" in words[2], "One is left." in words[3], "5 are left." in words[4]] == [True] * 3
    assert all("If that was not you" in each for each in words)
    assert all("access tokens and connected apps" in each for each in words), "which a password does not end"
    (quoted,) = {re.findall("“(.+)”", each)[0] for each in words}
    assert f">{quoted}</a>" in (TEMPLATES / "sign_in/sign_in.html").read_text()
    assert outbox.encryption_context("k") == "notices:k:secret"


COMMON = "among the first that others would try"


OWN = "your name or e-mail"


def errors_of(password: str) -> str:
    return " ".join(check_password(password, email="dana.whitfield@oakandpine.example", name="Dana Whitfield"))


GOOD = [
    "plum orchard weather vane", "gravel-under-the-wheel", "Xk7#pQ9!mz", "дождь на крыше дома",
    "一二三四五六七八九十木水", "    spaces    count    ", "purple dolphins juggle teacups", "tr0ubadour&3 hats",
    "dog 4829 cat 3187", "summer 93 of 4871 to 2",
]  # fmt: skip


GUESSED_FIRST = [
    "correct horse battery staple", "password12", "Password1234", "P@ssw0rd2026", "pa55word!!!!",
    "passwordpassword", "p.a.s.s.w.o.r.d", "letmein1234", "LetMeIn!!!!", "welcome2026!", "Welcome2Quillpost",
    "qwertyuiop", "1234567890", "0987654321", "abcdefghij", "1q2w3e4r5t", "1qaz2wsx3edc", "asdfghjkl1234",
    "zyxwvutsrq", "aaaaaaaaaa", "ababababab", "abc123abc123", "1111122222", "iloveyou123", "Sunshine#2026",
    "summer2026!!", "monkeydragon", "administrator1", "quillpost2026", "qwerty12345678", "test1234test",
    "changeme!!!",
]  # fmt: skip


ONES_OWN_NAME = [
    "dana.whitfield@oakandpine.example", "DanaWhitfield", "whitfield2026", "dana whitfield 1", "oakandpine!!",
    "WhitfieldWhitfield", "wh1tf1eld99", "danawhitfielddana",
]  # fmt: skip


def test_a_password_has_a_length_and_is_none_that_others_guess_first(subtests: pytest.Subtests) -> None:
    for why, those in (("", GOOD), (COMMON, GUESSED_FIRST), (OWN, ONES_OWN_NAME)):
        for password in those:
            with subtests.test(password):
                found = errors_of(password)
                assert why in found if why else found == ""
    assert (errors_of("nine char"), errors_of("ten chars ")) == ("A password has at least 10 characters.", "")
    assert errors_of("x" * 500 + "plum orchard" * 100) == "A password has at most 1,000 characters."
    assert errors_of("plum trees " * 90 + "plum trees") == ""
    decomposed = unicodedata.normalize("NFD", "éàèùâêîô")
    assert len(decomposed) == 16
    assert "at least 10" in errors_of(decomposed), "letters are counted as they are read"
    assert normalize_password(decomposed) == normalize_password("éàèùâêîô")


@given(st.text(max_size=60), st.text(max_size=30), st.text(max_size=30))
def test_no_text_upsets_the_rules(password: str, email: str, name: str) -> None:
    assert all(error.endswith(".") for error in check_password(password, email=email, name=name))


NO_ADDRESSES = [
    "", "dana", "dana@", "@example.com", "dana@example", "+15125550100@sms", "a b@example.com", "a@b@example.com",
    "Dana <dana@example.com>", "dana@example..com", "dana@.example.com", "d" * 65 + "@example.com",
    "dana@" + "x" * 320 + ".com", "dana@exa\x00mple.com", "dana@example.com\r\nBcc: x@example.com", "a,b@example.com",
]  # fmt: skip


def test_what_is_no_e_mail_address_is_refused(subtests: pytest.Subtests) -> None:
    for email in ("dana@example.com", "d+x@mail.example.co.uk", "jürgen@münchen.example"):
        with subtests.test(email):
            assert find_email_error(email) is None
    for email in NO_ADDRESSES:
        with subtests.test(email[:30]):
            assert None not in (find_email_error(email), find_email_error(normalize_email(email)))


@given(st.text(max_size=60))
def test_an_address_as_it_is_kept_stays_as_it_is(email: str) -> None:
    assert normalize_email(normalize_email(email)) == normalize_email(email)
    assert normalize_email(email).isprintable()
