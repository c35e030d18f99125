"""Which settings choose which adapters and let live mail reach paper, and what becomes of orders while one does not."""

import base64
import io
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pikepdf
import pytest

from quillpost.app import bootstrap
from quillpost.app.bootstrap import build_notifiers
from quillpost.app.container import Container
from quillpost.app.environments import (
    TEST_INDICIA,
    Readiness,
    build_live_giftcard_issuer,
    build_live_printer,
    check_live_readiness,
    ping_print_partner,
    read_partner_name,
    read_print_webhook_secrets,
)
from quillpost.cli.doctor.installation import check_giftcard_issuer
from quillpost.core.errors import NotReady
from quillpost.core.settings import Settings
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.ports import PartnerDown, PrintPartner
from quillpost.integrations.email import smtp
from quillpost.integrations.email.smtp import ConsoleNotifier, MailServer, SmtpNotifier
from quillpost.integrations.printing.folder import FolderPartner, HotFolder
from quillpost.integrations.printing.http import HttpPartner
from quillpost.integrations.sms import twilio
from quillpost.integrations.sms.twilio import SmsService, TwilioNotifier
from quillpost.integrations.storage.objects import build_folder_store
from quillpost.rendering.models import INCH, Addressee, Copy, Design
from quillpost.rendering.pdf.color import SRGB
from support.factories import Build, Clock
from support.orders import create_order, item_rows, open_account, order_row
from support.print_partners import REFERENCE, SECRET, job, now
from support.production import LIVE_SETTINGS, batch_rows, sweep_due_orders

Given = dict[str, object]


def settings(**given: object) -> Settings:
    return Settings.model_validate(given)


def assert_refused(error: str, build: Callable[..., object], *args: object, **given: object) -> None:
    """In words that give no secret away."""
    with pytest.raises(NotReady) as refused:
        build(*args, **given)
    assert error in refused.value.message
    assert "hush" not in refused.value.message
    assert SECRET not in refused.value.message


# Mail and text messages


FROM = "Quillpost <mail@example.com>"
SMTP = "smtp://mail.example.com"
SMS = "https://AC1@api.twilio.com"
REFUSED_NOTIFIERS: list[tuple[Given, str]] = [
    ({"smtp": "mail.example.com"}, "QUILLPOST_SMTP must be smtp://user@host:587"),
    ({"smtp": "http://mail.example.com"}, "QUILLPOST_SMTP must be smtp://user@host:587"),
    ({"smtp": f"{SMTP}:99999"}, "QUILLPOST_SMTP is not an address"),
    ({"smtp": "smtp://a:hush@mail.example.com"}, "must not hold a password: set QUILLPOST_SMTP_PASSWORD"),
    ({"smtp": "smtp://a@mail.example.com"}, "must name a user where QUILLPOST_SMTP_PASSWORD is set"),
    ({"smtp": SMTP, "smtp_password": "x"}, "must name a user where"),
    ({"smtp": "smtp+plain://a@mail.example.com", "smtp_password": "x"}, "would send the password unsealed"),
    ({"smtp": SMTP, "smtp_ca": "nowhere.pem"}, "QUILLPOST_SMTP_CA names nowhere.pem"),
    ({"smtp": SMTP, "mail_from": None}, "QUILLPOST_MAIL_FROM must be an address"),
    ({"smtp": SMTP, "mail_from": "Quillpost"}, "QUILLPOST_MAIL_FROM must be"),
    ({"sms": "twilio"}, "QUILLPOST_SMS must be the service's address with the account's id"),
    ({"sms": "https://api.twilio.com"}, "QUILLPOST_SMS must be the service's address"),
    ({"sms": "https://AC1:hush@api.twilio.com"}, "must not hold a password: set QUILLPOST_SMS_TOKEN"),
    ({"sms": "http://AC1@api.twilio.com"}, "would send the token unsealed"),
    ({"sms": SMS}, "needs QUILLPOST_SMS_TOKEN and QUILLPOST_SMS_FROM"),
]


def test_messages_are_sent_with_settings_and_shown_on_the_console_without() -> None:
    assert [type(each) for each in build_notifiers(settings()).values()] == [ConsoleNotifier, ConsoleNotifier]
    mail = {"smtp": "smtp://dana@mail.example.com", "smtp_password": "hush", "mail_from": FROM}
    both = settings(**mail, sms=SMS, sms_token="hush", sms_from="+15125550199")
    assert [type(each) for each in build_notifiers(both).values()] == [SmtpNotifier, TwilioNotifier]
    servers = {
        "smtp://mail.example.com": MailServer("mail.example.com", 587, "starttls"),
        "smtps://mail.example.com": MailServer("mail.example.com", 465, "tls"),
        "smtp+plain://localhost:2525": MailServer("localhost", 2525, "plain"),
        "smtp://[::1]:26": MailServer("::1", 26, "starttls"),
    }
    assert {url: smtp.parse_mail_server(url, password=None, ca_file=None) for url in servers} == servers
    found = smtp.parse_mail_server("smtps://dana%40example.com@mail.example.com", password="x", ca_file=None)
    assert found.user == "dana@example.com", "a user may be an address"
    service = twilio.parse_sms_service("https://AC1@texts.example.com:8443/api/", token="t", sender="MG1")
    assert service == SmsService("https://texts.example.com:8443/api", "AC1", "t", "MG1"), "under its own path"


def test_notifiers_that_cannot_work_are_refused_first(conninfo: str, tmp_path: Path, subtests: pytest.Subtests) -> None:
    for given, error in REFUSED_NOTIFIERS:
        with subtests.test(error, **given):
            wrong = settings(**{"mail_from": FROM, "home": tmp_path / "home", **given})
            assert_refused(error, bootstrap.build_container, wrong, conninfo)


# Print partners


def partner(tmp_path: Path, **chosen: object) -> PrintPartner:
    return build_live_printer(settings(home=tmp_path / "home", **chosen), build_folder_store(tmp_path / "files"))


def test_the_address_chooses_the_print_partner(tmp_path: Path) -> None:
    assert isinstance(partner(tmp_path, print_partner=f"file://{tmp_path}"), HotFolder)
    web = {"print_partner": "https://print.example.com/press/", "print_secret": SECRET}
    assert isinstance(partner(tmp_path, **web), HttpPartner)
    (tmp_path / "known_hosts").touch()
    sftp = {"sftp_password": "hush", "sftp_known_hosts": tmp_path / "known_hosts"}
    assert isinstance(partner(tmp_path, print_partner="sftp://us@print.example.com/jobs", **sftp), HotFolder)
    embedded = partner(tmp_path, print_partner="folder")
    assert isinstance(embedded, FolderPartner)
    embedded.submit(job(), now=now())
    assert (tmp_path / "files" / "print-jobs" / "live" / REFERENCE / "ticket.json").exists()


HTTPS = "https://print.example.com"
NO_SECRET = "24 to 64 bytes"
REFUSED_PARTNERS: list[tuple[Given, str]] = [
    ({"print_partner": "printer"}, "must be folder, file:///path, sftp://user@host:port/path or https"),
    ({"print_partner": ""}, "must be folder, file:///path"),
    ({"print_partner": "ftp://host/"}, "must be folder, file:///path"),
    ({"print_partner": HTTPS}, "QUILLPOST_PRINT_SECRET must be set, to sign with."),
    ({"print_partner": "https://u:hush@host/", "print_secret": SECRET}, "must not hold a user or a pass"),
    ({"print_partner": "https:///jobs", "print_secret": SECRET}, "such as https://host/path"),
    ({"print_partner": "https://host/?key=hush", "print_secret": SECRET}, "such as https://host/path"),
    ({"print_partner": "http://host:x/", "print_secret": SECRET}, "not an address that we can read"),
    ({"print_partner": "file:jobs"}, "QUILLPOST_PRINT_PARTNER must name a folder by its whole path"),
    ({"print_partner": "sftp://us@host/"}, "QUILLPOST_SFTP_KNOWN_HOSTS is not set"),
    ({"print_secret": "hush"}, "QUILLPOST_PRINT_SECRET must be whsec_ and 24 to 64 bytes as base64."),
    ({"print_secret": "whsec_aHVzaA=="}, NO_SECRET),
    ({"print_secret": f"{SECRET} whsec_é"}, NO_SECRET),
    ({"print_secret": base64.b64encode(b"h" * 32).decode()}, "whsec_"),
]


def test_a_print_partner_that_cannot_work_is_refused_at_startup(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for chosen, error in REFUSED_PARTNERS:
        with subtests.test(error, **chosen):
            assert_refused(error, partner, tmp_path, **chosen)


def test_only_a_partner_with_a_secret_that_is_not_shown_may_call_back() -> None:
    assert read_print_webhook_secrets(settings(print_partner="folder")) == {}
    assert read_print_webhook_secrets(settings(print_secret=SECRET)) == {}
    named = settings(print_partner="folder", print_secret=SECRET, print_partner_name="acme", sftp_password="hush")
    assert read_print_webhook_secrets(named) == {"acme": [SECRET]}
    assert SECRET not in repr(named)
    assert "hush" not in repr(named)


def test_a_partner_that_can_be_reached_is_named_and_a_batch_remembers_it_without_the_password(tmp_path: Path) -> None:
    store, hot = build_folder_store(tmp_path / "files"), tmp_path / "hot"
    there = settings(print_partner=f"file://{hot}")
    with pytest.raises(PartnerDown, match="is not there"):
        ping_print_partner(there, store)
    hot.mkdir()
    assert ping_print_partner(there, store) == str(hot)
    assert ping_print_partner(settings(print_partner="folder"), store) == "print-jobs/live in the file store"
    known = {
        "folder": "folder",
        f"{HTTPS}/base": f"{HTTPS}/base",
        "https://token:hush@print.example.com/base": f"{HTTPS}/base",
        "https://token@print.example.com/base": f"{HTTPS}/base",
        "sftp://press:secret@print.example.com:2222/in": "sftp://press@print.example.com:2222/in",
        "SFTP://Press@Print.Example.com:22/In/": "sftp://Press@print.example.com/In",
        "sftp://press:secret@print.example.com:port/in": "print.example.com:port/in",
    }
    assert {given: read_partner_name(settings(print_partner=given)) for given in known} == known


# Gift cards


REFUSED_ISSUERS: list[tuple[Given, str]] = [
    ({"giftcards": "https://host", "giftcards_key": "k"}, "tremendous:https://host or tango"),
    ({"giftcards": "tremendous:http://host", "giftcards_key": "k"}, "must begin with https"),
    ({"giftcards": "tango:http://127.example.com", "giftcards_key": "n:k", "giftcards_account": "c/a"}, "https"),
    ({"giftcards": "tremendous:ftp://host", "giftcards_key": "k"}, "an address such as"),
    ({"giftcards": "tremendous:https://me:hush@host", "giftcards_key": "k"}, "QUILLPOST_GIFTCARDS_KEY"),
    ({"giftcards": "tremendous:https://host/?a=b", "giftcards_key": "k"}, "an address such as"),
    ({"giftcards": "tremendous:https://host"}, "QUILLPOST_GIFTCARDS_KEY must be set"),
    ({"giftcards": "tango:https://host", "giftcards_key": "k"}, "NAME:KEY"),
    ({"giftcards": "tango:https://host", "giftcards_key": "n:k"}, "CUSTOMER/ACCOUNT"),
]


def test_live_gift_cards_come_from_whom_the_settings_name(build: Build) -> None:
    usual, named = build(), build(giftcards="tremendous:https://www.tremendous.example", giftcards_key="k")
    for container, live in ((usual, "stock"), (named, "tremendous")):
        names = {mode: issuer.name for mode, issuer in container.production.giftcard_issuers.items()}
        assert names == {"test": "sandbox", "live": live}


def test_an_issuer_of_gift_cards_that_cannot_work_is_refused_at_startup(subtests: pytest.Subtests) -> None:
    for given, error in REFUSED_ISSUERS:
        with subtests.test(error, **given):
            wrong = settings(**given)
            assert_refused(error, build_live_giftcard_issuer, wrong)
            assert check_giftcard_issuer(wrong).status == "broken"


# Print files


def printed(container: Container) -> bytes:
    look = Design(product="postcard-4x6", message="Hello", ink=(0, 0, 0))
    copy = Copy(1, 0, Addressee(name="Jane Doe", address="12 Main St"))
    made_at = datetime(2026, 5, 4, tzinfo=UTC)
    return container.renderer.compose({0: look}, [copy], title="A batch", made_at=made_at).sheets


def test_templates_and_an_output_profile_of_the_press_reach_the_print_files(build: Build, tmp_path: Path) -> None:
    file = tmp_path / "press.toml"
    file.write_text("[postcard-4x6.back]\nindicia = [4.6, 3.1, 1.15, 0.65]\n")
    usual, moved = build(), build(templates=file)
    box = moved.renderer.products["postcard-4x6"].find_side("back").indicia
    assert box
    assert (box.left, box.bottom) == pytest.approx((4.6 * INCH, 3.1 * INCH))
    assert printed(moved) != printed(usual)
    profile = SRGB.profile[:16] + b"GRAY" + SRGB.profile[20:]
    (tmp_path / "press.icc").write_bytes(profile)
    with pikepdf.open(io.BytesIO(printed(build(output_profile=tmp_path / "press.icc")))) as document:
        (intent,) = document.Root.OutputIntents
        assert intent.DestOutputProfile.read_bytes() == profile


def test_a_file_that_cannot_be_used_is_named(build: Build, tmp_path: Path) -> None:
    (tmp_path / "odd").write_bytes(b"\xff neither of them")
    for setting in ("templates", "output_profile"):
        for file in (tmp_path / "missing", tmp_path / "odd"):
            with pytest.raises(NotReady, match=f"QUILLPOST_{setting.upper()}"):
                build(**{setting: file})


NOT_PUBLIC = "QUILLPOST_BASE_URL is not a public https address, which QR codes need."

# One line more than a postcard has room for; letters and folded cards take it.
EIGHT_LINES = "|".join("ABCDEFGH")
TOO_LONG = (
    "QUILLPOST_PERMIT_FIRST is too long for its place on 4x6 postcard, 6x9 postcard, 6x11 postcard,"
    " magnacard: shorten its lines."
)


def ready(**chosen: object) -> Readiness:
    settings = Settings.model_validate(LIVE_SETTINGS | chosen)
    return check_live_readiness(settings, bootstrap.build_renderer(settings))


def test_what_is_missing_is_reported_as_a_gap() -> None:
    assert ready() == Readiness(
        gaps=(), indicia={"first": ("FIRST-CLASS", "PERMIT 1"), "standard": ("PRSRT STD", "PERMIT 1")}
    )
    assert ready(print_partner=None).gaps == ("QUILLPOST_PRINT_PARTNER is not set: nobody prints.",)
    assert ready(mailer_id=None).gaps == ("QUILLPOST_MAILER_ID is not set: no barcode can be printed.",)


# The postage mark


def test_a_postage_mark_of_nothing_is_none() -> None:
    no_mark = "is not set: no postage mark for"
    for nothing in (None, "", " ", "|", " | ", "\t", "\n|\n"):
        assert ready(permit_first=nothing).gaps == (f"QUILLPOST_PERMIT_FIRST {no_mark} first class.",)
        assert ready(permit_standard=nothing).gaps == (f"QUILLPOST_PERMIT_STANDARD {no_mark} standard mail.",)


def test_a_postage_mark_that_does_not_fit_where_the_templates_have_it_is_a_gap_and_is_not_used(tmp_path: Path) -> None:
    found = ready(permit_first=EIGHT_LINES)
    assert found.gaps == (TOO_LONG,)
    assert found.indicia == {"first": ("",), "standard": ("PRSRT STD", "PERMIT 1")}
    assert ready(permit_first="|".join("ABCDEFG")).gaps == ()
    [gap] = ready(permit_standard="PRSRT STD U.S. POSTAGE PAID " * 40).gaps
    assert gap.startswith("QUILLPOST_PERMIT_STANDARD is too long")
    assert all(piece in gap for piece in ("4x6 postcard", "windowed letter", "notecard", "gift card"))
    file = tmp_path / "press.toml"
    file.write_text("[postcard-4x6.back]\nindicia = [5.0, 3.2, 0.6, 0.35]\n")
    [gap] = ready(templates=file, permit_first="A|B|C|D").gaps
    assert gap == "QUILLPOST_PERMIT_FIRST is too long for its place on 4x6 postcard: shorten its lines."


def test_a_mark_that_does_not_fit_pauses_orders_not_pieces_and_testing_has_its_own(build: Build, clock: Clock) -> None:
    container = build(**LIVE_SETTINGS | {"permit_first": EIGHT_LINES})
    order = create_order(container, open_account(container, mode="live"))
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        row = order_row(tx, order)
        assert (row.status, row.hold_reasons) == ("paused", [TOO_LONG])
        assert [item.status for item in item_rows(tx, order)] == ["Processing"]
    environment = container.environments["test"]
    assert (environment.gaps, set(environment.indicia.values())) == ((), {TEST_INDICIA})


def test_a_batch_that_was_made_before_waits_for_a_mark_that_fits(build: Build, clock: Clock) -> None:
    before = build(**LIVE_SETTINGS)
    order = create_order(before, open_account(before, mode="live"))
    sweep_due_orders(before, clock)
    after = build(**LIVE_SETTINGS | {"permit_first": EIGHT_LINES})
    with after.db.system_transaction() as tx:
        [made] = batch_rows(tx)
    batch_tasks.compose_batch(after.production, made.id, now=clock.now())
    with after.db.system_transaction() as tx:
        [waiting] = batch_rows(tx)
        assert (waiting.status, waiting.trouble) == ("new", TOO_LONG)
        assert [item.status for item in item_rows(tx, order)] == ["Processing"]
    mended = build(**LIVE_SETTINGS)
    batch_tasks.compose_batch(mended.production, made.id, now=clock.now())
    with mended.db.system_transaction() as tx:
        [composed] = batch_rows(tx)
        assert (composed.status, composed.indicia) == ("composed", ["FIRST-CLASS", "PERMIT 1"])


# The address that QR codes point to


REACHED_BY_ALL = [
    "https://mail.example.com", "https://mail.example.com/", "https://mail.example.com:8443",
    "https://example.com/mail", "https://93.184.216.34", "https://[2606:4700::1111]",
]  # fmt: skip
REACHED_BY_FEW = [
    None, "", "http://mail.example.com", "https://", "https:///mail", "https://localhost", "https://localhost.",
    "https://mail.localhost:8025", "https://mail", "https://127.0.0.1", "https://10.0.0.1",
    "https://192.168.1.20:8025", "https://[::1]", "https://[fd00::1]", "https://mail.example.com:port",
    "https://someone:hush@mail.example.com", "https://mail.example .com",
    # What follows the address would be no path any more.
    "https://mail.example.com?from=paper", "https://mail.example.com/#",
]  # fmt: skip


def test_codes_may_point_only_to_what_everyone_can_reach() -> None:
    assert {address: ready(base_url=address).gaps for address in REACHED_BY_ALL} == dict.fromkeys(REACHED_BY_ALL, ())
    gap = (NOT_PUBLIC,)
    assert {address: ready(base_url=address).gaps for address in REACHED_BY_FEW} == dict.fromkeys(REACHED_BY_FEW, gap)
