"""Settings of mail and text messages: those that work, and what is said of those that do not."""

from pathlib import Path

import pytest

from quillpost.app import bootstrap
from quillpost.app.bootstrap import build_notifiers
from quillpost.core.errors import NotReady
from quillpost.core.settings import Settings
from quillpost.integrations.email import smtp
from quillpost.integrations.email.smtp import ConsoleNotifier, MailServer, SmtpNotifier
from quillpost.integrations.sms import twilio
from quillpost.integrations.sms.twilio import SmsService, TwilioNotifier

FROM = "Quillpost <mail@example.com>"


def settings(**given: object) -> Settings:
    return Settings.model_validate(given)


def test_without_settings_messages_are_shown_on_the_console() -> None:
    assert [type(each) for each in build_notifiers(settings()).values()] == [ConsoleNotifier, ConsoleNotifier]


def test_with_settings_they_are_sent() -> None:
    found = build_notifiers(
        settings(
            smtp="smtp://dana@mail.example.com",
            smtp_password="hush",
            mail_from=FROM,
            sms="https://AC1@api.twilio.com",
            sms_token="hush",
            sms_from="+15125550199",
        )
    )
    assert [type(each) for each in found.values()] == [SmtpNotifier, TwilioNotifier]


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("smtp://mail.example.com", MailServer("mail.example.com", 587, "starttls")),
        ("smtps://mail.example.com", MailServer("mail.example.com", 465, "tls")),
        ("smtp+plain://localhost:2525", MailServer("localhost", 2525, "plain")),
        ("smtp://[::1]:26", MailServer("::1", 26, "starttls")),
    ],
)
def test_the_scheme_says_how_a_server_is_spoken_to(url: str, server: MailServer) -> None:
    assert smtp.parse_mail_server(url, password=None, ca_file=None) == server


def test_a_user_may_be_an_address() -> None:
    found = smtp.parse_mail_server("smtps://dana%40example.com@mail.example.com", password="x", ca_file=None)
    assert found.user == "dana@example.com"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"smtp": "mail.example.com"}, "QUILLPOST_SMTP must be smtp://user@host:587"),
        ({"smtp": "http://mail.example.com"}, "QUILLPOST_SMTP must be smtp://user@host:587"),
        ({"smtp": "smtp://mail.example.com:99999"}, "QUILLPOST_SMTP is not an address"),
        ({"smtp": "smtp://a:b@mail.example.com"}, "must not hold a password: set QUILLPOST_SMTP_PASSWORD"),
        ({"smtp": "smtp://a@mail.example.com"}, "must name a user where QUILLPOST_SMTP_PASSWORD is set"),
        ({"smtp": "smtp://mail.example.com", "smtp_password": "x"}, "must name a user where"),
        ({"smtp": "smtp+plain://a@mail.example.com", "smtp_password": "x"}, "would send the password unsealed"),
        ({"smtp": "smtp://mail.example.com", "smtp_ca": "nowhere.pem"}, "QUILLPOST_SMTP_CA names nowhere.pem"),
        ({"smtp": "smtp://mail.example.com", "mail_from": None}, "QUILLPOST_MAIL_FROM must be an address"),
        ({"smtp": "smtp://mail.example.com", "mail_from": "Quillpost"}, "QUILLPOST_MAIL_FROM must be"),
        ({"sms": "twilio"}, "QUILLPOST_SMS must be the service's address with the account's id"),
        ({"sms": "https://api.twilio.com"}, "QUILLPOST_SMS must be the service's address"),
        ({"sms": "https://AC1:hush@api.twilio.com"}, "must not hold a password: set QUILLPOST_SMS_TOKEN"),
        ({"sms": "http://AC1@api.twilio.com"}, "would send the token unsealed"),
        ({"sms": "https://AC1@api.twilio.com"}, "needs QUILLPOST_SMS_TOKEN and QUILLPOST_SMS_FROM"),
    ],
)
def test_conflicting_settings_are_refused_before_anything_starts(
    given: dict[str, object], error: str, conninfo: str, tmp_path: Path
) -> None:
    wrong = settings(**{"mail_from": FROM, "home": tmp_path / "home", **given})
    with pytest.raises(NotReady) as refused:
        bootstrap.build_container(wrong, conninfo)
    assert error in refused.value.message
    assert "hush" not in refused.value.message


def test_a_text_service_is_found_under_its_own_path() -> None:
    found = twilio.parse_sms_service("https://AC1@texts.example.com:8443/api/", token="t", sender="MG1")
    assert found == SmsService("https://texts.example.com:8443/api", "AC1", "t", "MG1")
