"""Sending mail through a mail server that may refuse, hang, die or lie."""

import asyncio
from datetime import UTC, datetime
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from quillpost.integrations.email.smtp import MailServer, SmtpNotifier, normalize_address
from quillpost.notifications.ports import MessageDeferred, MessageRejected, NotifierDown, OutgoingMessage
from support.certificates import self_signed
from support.scripted_server import ScriptedServer, stay_silent
from support.smtp_server import ReceivedMail, SmtpServer

SENDER = "mail@quillpost.example"
LINK = "https://mail.example.com/unsubscribe/" + "x" * 160


def message(**changes: Any) -> OutgoingMessage:
    given: dict[str, Any] = {
        "key": "scans:7:1:dana@example.com",
        "to": "dana@example.com",
        "subject": "Jane Doe scanned your postcard",
        "text": "Jane Doe scanned.\n",
        "html": "<p>Jane Doe scanned.</p>\n",
        "at": datetime(2026, 5, 4, 12, tzinfo=UTC),
        "unsubscribe_url": LINK,
    }
    return OutgoingMessage(**given | changes)


def notifier(house: SmtpServer, security: Any = "plain", *, seconds: float = 15, **how: Any) -> SmtpNotifier:
    server = MailServer("127.0.0.1", house.port, security, **how)
    return SmtpNotifier(server, sender_name="Quillpost", sender=SENDER, seconds=seconds)


def send(mailer: SmtpNotifier, *messages: OutgoingMessage) -> None:
    async def go() -> None:
        try:
            for each in messages or (message(),):
                await mailer.send(each)
        finally:
            await mailer.close()

    asyncio.run(go())


def sent(**changes: Any) -> ReceivedMail:
    with SmtpServer(utf8=True) as house:
        send(notifier(house), message(**changes))
        return house.next_mail()


def headers(mail: ReceivedMail) -> EmailMessage:
    return mail.message


def test_a_mail_arrives_with_text_and_html() -> None:
    mail = sent()
    assert (mail.sender, mail.to) == (SENDER, ["dana@example.com"])
    assert mail.part("plain").strip() == "Jane Doe scanned."
    assert mail.part("html").strip() == "<p>Jane Doe scanned.</p>"
    found = headers(mail)
    assert found.get_content_type() == "multipart/alternative"
    assert found["From"] == "Quillpost <mail@quillpost.example>"
    assert found["To"] == "dana@example.com"
    assert found["Subject"] == "Jane Doe scanned your postcard"
    assert found["Date"] == "Mon, 04 May 2026 12:00:00 +0000"
    assert found["Auto-Submitted"] == "auto-generated"


def test_one_click_unsubscribes_and_the_link_is_whole() -> None:
    mail = sent()
    assert headers(mail)["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    # To the letter: a mail program does not look for a link that is encoded or broken over lines.
    assert f"\r\nList-Unsubscribe: <{LINK}>\r\n".encode() in mail.raw


def test_without_a_link_there_is_no_unsubscribe_header() -> None:
    assert headers(sent(unsubscribe_url=None))["List-Unsubscribe"] is None


def test_a_repeat_has_the_same_message_id_and_another_mail_another() -> None:
    first, again, other = sent(), sent(), sent(key="scans:7:2:dana@example.com")
    assert headers(first)["Message-ID"] == headers(again)["Message-ID"]
    assert headers(first)["Message-ID"] != headers(other)["Message-ID"]
    assert b"dana" not in headers(first)["Message-ID"].encode(), "an address can be read from it"
    assert str(headers(first)["Message-ID"]).endswith("@quillpost.example>")


def test_text_in_any_script_arrives() -> None:
    mail = sent(subject="Zoë 张伟 📮 scanned", text="Zoë 张伟 📮\n", html="<p>Zoë 张伟 📮</p>\n")
    assert headers(mail)["Subject"] == "Zoë 张伟 📮 scanned"
    assert mail.part("plain").strip() == "Zoë 张伟 📮"
    assert mail.part("html").strip() == "<p>Zoë 张伟 📮</p>"
    assert mail.raw.isascii(), "a server that knows no more than ASCII takes it too"


def test_a_long_subject_is_encoded_in_words_that_every_program_reads() -> None:
    subject = "張偉" * 40
    mail = sent(subject=subject)
    assert headers(mail)["Subject"] == subject
    head = mail.raw.partition(b"\r\n\r\n")[0]
    words = [word for word in head.split() if word.startswith(b"=?")]
    assert len(words) > 1
    assert max(map(len, words)) <= 75


def test_no_line_of_a_mail_is_too_long() -> None:
    mail = sent(text="x" * 5_000, html=f"<p>{'y' * 5_000}</p>")
    assert max(map(len, mail.raw.split(b"\r\n"))) <= 998
    assert mail.part("plain").strip() == "x" * 5_000


@pytest.mark.parametrize("field", ["subject", "to", "unsubscribe_url"])
def test_nobody_smuggles_a_header_in(field: str) -> None:
    smuggled = f"{getattr(message(), field)}\r\nBcc: everyone@example.com"
    with SmtpServer() as house:
        with pytest.raises(MessageRejected):
            send(notifier(house), message(**{field: smuggled}))
        assert house.mails == []


def test_a_domain_of_other_letters_is_written_in_ascii() -> None:
    mail = sent(to="dana@straße.example")
    assert mail.to == ["dana@xn--strae-oqa.example"], "not strasse.example, which is somebody else's"


def test_a_name_of_other_letters_goes_to_a_server_that_takes_them() -> None:
    mail = sent(to="zoë@example.com")
    assert mail.to == ["zoë@example.com"]
    with SmtpServer() as old, pytest.raises(MessageRejected, match="SMTPUTF8"):
        send(notifier(old), message(to="zoë@example.com"))


@pytest.mark.parametrize(
    "wrong",
    ["dana", "@example.com", "dana@", "a b@example.com", "<dana@example.com>", "a@b@example.com",
     "dana@exa mple.com", "x" * 65 + "@example.com", "dana@" + "x" * 70 + ".com", "dana@-.com",
     "a,b@example.com"],
)  # fmt: skip
def test_what_is_no_address_is_refused_before_anyone_is_called(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        normalize_address(wrong)
    with SmtpServer() as house:
        with pytest.raises(MessageRejected):
            send(notifier(house), message(to=wrong))
        assert house.greetings == 0


@pytest.mark.parametrize(
    ("answer", "expected"), [("550 5.1.1 No such user", MessageRejected), ("450 4.2.1 Mailbox busy", MessageDeferred)]
)
def test_a_refused_address_fails_for_good_or_for_now(answer: str, expected: type[Exception]) -> None:
    with SmtpServer(answers={"dana@example.com": answer}) as house:
        with pytest.raises(expected, match=answer[4:]):
            send(notifier(house))
        assert house.mails == []


@pytest.mark.parametrize(
    ("answer", "expected"), [("554 5.7.1 Spam", MessageRejected), ("452 4.3.1 Disk full", MessageDeferred)]
)
def test_a_refused_mail_fails_for_good_or_for_now(answer: str, expected: type[Exception]) -> None:
    with SmtpServer(data_answer=answer) as house, pytest.raises(expected, match=answer[4:]):
        send(notifier(house))


def test_a_sender_that_may_not_send_stops_everything_and_loses_nothing() -> None:
    with (
        SmtpServer(sender_answer="550 5.7.1 Not yours") as house,
        pytest.raises(NotifierDown, match="from this sender: 550"),
    ):
        send(notifier(house))


def test_a_server_that_dies_in_the_middle_of_a_mail_is_tried_again() -> None:
    with SmtpServer() as house:
        house.dies = True
        with pytest.raises(MessageDeferred, match="broke off"):
            send(notifier(house))
        house.dies = False
        send(notifier(house))
        assert house.next_mail().to == ["dana@example.com"]


def test_a_server_that_does_not_answer_to_a_mail_is_tried_again() -> None:
    with SmtpServer() as house:
        house.hangs = True
        with pytest.raises(MessageDeferred, match=r"did not answer within 0\.5 seconds"):
            send(notifier(house, seconds=0.5))


def test_a_server_that_is_not_there_is_down() -> None:
    with SmtpServer() as house:
        mailer = notifier(house)
        house.shut()
        with pytest.raises(NotifierDown, match=r"^127\.0\.0\.1 could not be reached"):
            send(mailer)


def test_a_server_that_takes_the_call_and_says_nothing_is_down() -> None:
    with ScriptedServer(stay_silent) as silent:
        mailer = SmtpNotifier(MailServer("127.0.0.1", silent.port, "plain"), sender_name="", sender=SENDER, seconds=0.3)
        with pytest.raises(NotifierDown, match=r"did not answer within 0\.3 seconds"):
            asyncio.run(mailer.check_connection())


def sealed_house(folder: Path, security: str) -> SmtpServer:
    seal = self_signed(folder)
    return SmtpServer(tls=seal) if security == "tls" else SmtpServer(starttls=seal)


@pytest.mark.parametrize("security", ["tls", "starttls"])
def test_mail_goes_sealed_to_a_server_that_we_trust(tmp_path: Path, security: str) -> None:
    with sealed_house(tmp_path, security) as house:
        send(notifier(house, security, ca_file=tmp_path / "server.pem"))
        assert house.next_mail().to == ["dana@example.com"]


@pytest.mark.parametrize("security", ["tls", "starttls"])
def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path, security: str) -> None:
    with sealed_house(tmp_path, security) as house:
        with pytest.raises(NotifierDown, match=r"certificate of 127\.0\.0\.1 could not be verified"):
            send(notifier(house, security))
        assert house.mails == []


def test_mail_does_not_go_unsealed_because_a_server_offers_no_seal() -> None:
    with SmtpServer() as house:
        with pytest.raises(NotifierDown, match="127"):
            send(notifier(house, "starttls"))
        assert house.mails == []


def test_a_user_with_the_right_password_is_let_in(tmp_path: Path) -> None:
    with SmtpServer(starttls=self_signed(tmp_path), user=("dana", "hush")) as house:
        trusting: dict[str, Any] = {"ca_file": tmp_path / "server.pem", "user": "dana"}
        send(notifier(house, "starttls", password="hush", **trusting))
        assert house.next_mail().to == ["dana@example.com"]
        with pytest.raises(NotifierDown, match="does not know this user and password") as down:
            send(notifier(house, "starttls", password="wrong", **trusting))
    assert "wrong" not in str(down.value)
