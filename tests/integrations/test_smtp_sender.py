"""Sending mail through a mail server that may refuse, hang, die or lie."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from quillpost.integrations.email.smtp import MailServer, SmtpNotifier, normalize_address
from quillpost.notifications.ports import MessageDeferred, MessageRejected, NotifierDown, OutgoingMessage
from support.fake_server import ScriptedServer, self_signed, stay_silent
from support.smtp_server import ReceivedMail, SmtpServer

SENDER = "mail@quillpost.example"
LINK = "https://mail.example.com/unsubscribe/" + "x" * 160
WRONG_ADDRESSES = [
    *("dana", "@example.com", "dana@", "a b@example.com", "<dana@example.com>", "a@b@example.com", "a,b@example.com"),
    *("dana@exa mple.com", "x" * 65 + "@example.com", "dana@" + "x" * 70 + ".com", "dana@-.com"),
]


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


def test_a_mail_arrives_with_text_and_html_and_a_whole_link_to_unsubscribe_by_one_click() -> None:
    mail = sent()
    found = mail.message
    assert (mail.sender, mail.to) == (SENDER, ["dana@example.com"])
    assert mail.part("plain").strip() == "Jane Doe scanned."
    assert mail.part("html").strip() == "<p>Jane Doe scanned.</p>"
    assert found.get_content_type() == "multipart/alternative"
    expected = {
        "From": "Quillpost <mail@quillpost.example>",
        "To": "dana@example.com",
        "Subject": "Jane Doe scanned your postcard",
        "Date": "Mon, 04 May 2026 12:00:00 +0000",
        "Auto-Submitted": "auto-generated",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    }
    assert {name: found[name] for name in expected} == expected
    # To the letter: a mail program does not look for a link that is encoded or broken over lines.
    assert f"\r\nList-Unsubscribe: <{LINK}>\r\n".encode() in mail.raw
    again, other, unlinked = sent(), sent(key="scans:7:2:dana@example.com"), sent(unsubscribe_url=None)
    assert found["Message-ID"] == again.message["Message-ID"] != other.message["Message-ID"]
    assert b"dana" not in found["Message-ID"].encode(), "an address can be read from it"
    assert str(found["Message-ID"]).endswith("@quillpost.example>")
    assert unlinked.message["List-Unsubscribe"] is None


def test_text_in_any_script_and_of_any_length_arrives() -> None:
    mail = sent(subject="Zoë 张伟 📮 scanned", text="Zoë 张伟 📮\n", html="<p>Zoë 张伟 📮</p>\n")
    assert mail.message["Subject"] == "Zoë 张伟 📮 scanned"
    assert (mail.part("plain").strip(), mail.part("html").strip()) == ("Zoë 张伟 📮", "<p>Zoë 张伟 📮</p>")
    assert mail.raw.isascii(), "a server that knows no more than ASCII takes it too"
    mail = sent(subject="張偉" * 40)
    assert mail.message["Subject"] == "張偉" * 40
    head = mail.raw.partition(b"\r\n\r\n")[0]
    words = [word for word in head.split() if word.startswith(b"=?")]
    assert len(words) > 1
    assert max(map(len, words)) <= 75
    mail = sent(text="x" * 5_000, html=f"<p>{'y' * 5_000}</p>")
    assert max(map(len, mail.raw.split(b"\r\n"))) <= 998
    assert mail.part("plain").strip() == "x" * 5_000


def test_what_is_no_address_and_a_smuggled_header_are_refused_before_anyone_is_called(
    subtests: pytest.Subtests,
) -> None:
    with SmtpServer() as house:
        for wrong in WRONG_ADDRESSES:
            with subtests.test(wrong[:40]):
                with pytest.raises(ValueError, match=r"."):
                    normalize_address(wrong)
                with pytest.raises(MessageRejected):
                    send(notifier(house), message(to=wrong))
                assert house.greetings == 0
        for field in ("subject", "to", "unsubscribe_url"):
            smuggled = f"{getattr(message(), field)}\r\nBcc: everyone@example.com"
            with subtests.test(field), pytest.raises(MessageRejected):
                send(notifier(house), message(**{field: smuggled}))
        assert house.mails == []


def test_a_domain_of_other_letters_is_written_in_ascii_and_a_name_goes_to_a_server_that_takes_it() -> None:
    mail = sent(to="dana@straße.example")
    assert mail.to == ["dana@xn--strae-oqa.example"], "not strasse.example, which is somebody else's"
    assert sent(to="zoë@example.com").to == ["zoë@example.com"]
    with SmtpServer() as old, pytest.raises(MessageRejected, match="SMTPUTF8"):
        send(notifier(old), message(to="zoë@example.com"))


def test_a_refused_address_mail_or_sender_fails_for_good_or_for_now(subtests: pytest.Subtests) -> None:
    def to_dana(answer: str) -> dict[str, Any]:
        return {"answers": {"dana@example.com": answer}}

    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        (to_dana("550 5.1.1 No such user"), MessageRejected, "5.1.1 No such user"),
        (to_dana("450 4.2.1 Mailbox busy"), MessageDeferred, "4.2.1 Mailbox busy"),
        ({"data_answer": "554 5.7.1 Spam"}, MessageRejected, "5.7.1 Spam"),
        ({"data_answer": "452 4.3.1 Disk full"}, MessageDeferred, "4.3.1 Disk full"),
        ({"sender_answer": "550 5.7.1 Not yours"}, NotifierDown, "from this sender: 550"),  # which loses nothing
    ]
    for answers, failure, words in cases:
        with subtests.test(words), SmtpServer(**answers) as house:
            with pytest.raises(failure, match=words):
                send(notifier(house))
            assert house.mails == []


def test_a_server_that_dies_or_does_not_answer_in_the_middle_of_a_mail_is_tried_again() -> None:
    with SmtpServer() as house:
        house.dies = True
        with pytest.raises(MessageDeferred, match="broke off"):
            send(notifier(house))
        house.dies = False
        send(notifier(house))
        assert house.next_mail().to == ["dana@example.com"]
        house.hangs = True
        with pytest.raises(MessageDeferred, match=r"did not answer within 0\.5 seconds"):
            send(notifier(house, seconds=0.5))


def test_a_server_that_is_not_there_or_says_nothing_is_down() -> None:
    with SmtpServer() as house:
        mailer = notifier(house)
        house.shut()
        with pytest.raises(NotifierDown, match=r"^127\.0\.0\.1 could not be reached"):
            send(mailer)
    with ScriptedServer(stay_silent) as silent:
        mailer = SmtpNotifier(MailServer("127.0.0.1", silent.port, "plain"), sender_name="", sender=SENDER, seconds=0.3)
        with pytest.raises(NotifierDown, match=r"did not answer within 0\.3 seconds"):
            asyncio.run(mailer.check_connection())


@pytest.mark.parametrize("security", ["tls", "starttls"])
def test_mail_goes_sealed_only_to_a_server_that_we_trust(tmp_path: Path, security: str) -> None:
    seal = self_signed(tmp_path)
    with SmtpServer(tls=seal) if security == "tls" else SmtpServer(starttls=seal) as house:
        with pytest.raises(NotifierDown, match=r"certificate of 127\.0\.0\.1 could not be verified"):
            send(notifier(house, security))
        assert house.mails == []
        send(notifier(house, security, ca_file=tmp_path / "server.pem"))
        assert house.next_mail().to == ["dana@example.com"]


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
