"""`doctor` and `migrate`: what they say about a service that is well, and about each thing that is not."""

import shutil
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from quillpost.app.container import Container
from quillpost.app.runtime import read_schema
from quillpost.cli.demo import create_client, run_demo_service
from quillpost.cli.doctor import installation, operations
from quillpost.cli.doctor.installation import DoctorFinding
from quillpost.cli.server import warn_of_missing_scripts
from quillpost.core.database import schema
from quillpost.core.database.engine import create_admin_engine
from quillpost.core.database.tables.accounts import invitations
from quillpost.core.database.tables.notifications import notices
from quillpost.core.settings import Settings
from quillpost.web.assets import PACKAGE_FILES
from support.cli_results import CommandResult, Quillpost
from support.factories import Account, Clock
from support.notifications import PHONE, enqueue_notification
from support.sign_in import make_user
from support.smtp_server import SmtpServer
from support.tenant_rows import insert_least


def set_schema(conninfo: str, revision: str) -> None:
    with psycopg.connect(conninfo) as connection:
        connection.execute("update alembic_version set version_num = %s", [revision])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def row(outcome: CommandResult, subject: str) -> str:
    """The doctor's lines on one subject."""
    rows = [line for line in outcome.out.splitlines() if line.strip("│ ").startswith(f"{subject} ")]
    assert rows, outcome.out
    return " ".join("\n".join(rows).split())


def test_an_empty_an_old_and_a_newer_schema_are_recognized(
    blank: str, tmp_path: Path, quillpost: Quillpost, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = {"home": tmp_path, "database_url": blank}
    empty = quillpost("doctor", **place, port=free_port())
    assert (empty.code, "empty" in row(empty, "schema")) == (0, True), empty.out
    first, second = quillpost("migrate", **place), quillpost("migrate", **place)
    assert (first.code, "was empty" in first.out) == (0, True)
    assert read_schema(blank).status == "current"
    assert (second.code, "nothing to do" in second.out) == (0, True)
    known = ["0000", *schema.list_revisions()]
    monkeypatch.setattr(schema, "list_revisions", lambda: known)
    for revision, advice in (("0000", "quillpost migrate"), ("9999", "later one")):
        set_schema(blank, revision)
        outcome = quillpost("doctor", **place)
        assert (outcome.code, advice in row(outcome, "schema")) == (1, True)
    assert quillpost("migrate", **place).is_one_sentence("9999")
    set_schema(blank, "0000")
    assert quillpost("work", **place).err == (
        f"quillpost: The database schema (0000) is older than this release needs ({known[-1]}): "
        "take a backup, then run `quillpost migrate`.\n"
    )


@pytest.mark.usefixtures("clean_database")
def test_a_service_that_is_well_is_called_well(beside: Quillpost, owner: Account) -> None:
    owner.post("/webhooks", {"url": "https://example.com/hook", "type": "*"})
    live = {"permit_first": "A|B", "permit_standard": "C", "mailer_id": "123456", "print_partner": "folder"}
    outcome = beside("doctor", base_url="https://mail.example.com", port=free_port(), **live)
    assert (outcome.code, outcome.err) == (0, ""), outcome.out
    well = "settings,home,files,fonts,port,templates,output profile,time zone,allowed hosts,live mail,print partner"
    well += ",carrier,database,schema,secret key,clock,prices,jobs,batches,paused,webhooks,notices"
    assert [subject for subject in well.split(",") if " ok " not in row(outcome, subject)] == []
    assert "none at work" in row(outcome, "workers")
    assert "QUILLPOST_LEGACY_FIELDS=true" in row(outcome, "old fields")


def test_all_that_is_wrong_is_named_at_once(beside: Quillpost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "HTTP_SECONDS", 0.2)
    blocked, database = tmp_path / "other", f"postgresql://someone:hush@127.0.0.1:{free_port()}/quillpost"
    blocked.mkdir()
    (blocked / "files").write_text("in the way")
    wrong = {"templates": tmp_path / "a", "output_profile": tmp_path / "b", "timezone": "Mars/One"}
    with socket.socket() as another_program:
        another_program.bind(("127.0.0.1", 0))
        another_program.listen()
        port = another_program.getsockname()[1]
        more = {"port": port, "home": blocked, "print_secret": "hush", "database_url": database}
        outcome = beside("doctor", permit_first="A|B|C|D|E|F|G|H", **wrong, **more)
    assert outcome.code == 1
    for subject in ("templates", "output profile", "time zone", "port", "files", "print partner", "database"):
        assert "broken" in row(outcome, subject)
    assert "QUILLPOST_PORT" in row(outcome, "port")
    assert "QUILLPOST_PRINT_SECRET must be whsec_" in row(outcome, "print partner")
    assert "QUILLPOST_PERMIT_FIRST is too long for its place on 4x6 postcard" in row(outcome, "live mail")
    for subject in ("home", "fonts", "allowed hosts"):
        assert " ok " in row(outcome, subject)
    assert "hush" not in outcome.out
    unreadable = beside("doctor", port="eighty")
    assert (unreadable.code, "QUILLPOST_PORT" in row(unreadable, "settings")) == (1, True)
    with_warnings = beside("doctor", permit_first="A|B|C|D|E|F|G|H", port=free_port())
    assert (with_warnings.code, "QUILLPOST_MAILER_ID" in row(with_warnings, "live mail")) == (0, True)


def test_a_home_that_was_never_used_is_not_touched(tmp_path: Path, quillpost: Quillpost) -> None:
    home = tmp_path / "never"
    # Faces are kept in the home as well, where no other folder is named.
    outcome = quillpost("doctor", home=home, faces_folder=home / "faces", port=free_port(), permit_first="PERMIT 1")
    assert outcome.code == 0, outcome.out
    assert "there is none yet" in row(outcome, "database")
    assert not home.exists()


@pytest.mark.costly
def test_doctor_and_backup_leave_a_running_service_running(folder: Path, tmp_path: Path, quillpost: Quillpost) -> None:
    home = folder / "home"
    with run_demo_service(home) as service:
        port = service.base_url.rpartition(":")[2]
        seen = quillpost("doctor", home=home, port=port)
        assert seen.code == 0, seen.out
        assert "Quillpost runs there" in row(seen, "port")
        assert "they are at work" in row(seen, "workers")
        assert service.token not in seen.out
        saved = quillpost("backup", tmp_path / "b.qpb", home=home)
        assert saved.code == 0, saved.err
        with create_client(service.base_url, service.token) as caller:
            assert list(caller.orders.list()) == []
    stopped = quillpost("doctor", home=home, port=port)
    assert stopped.code == 0, stopped.out
    assert "free" in row(stopped, "port")


SMALL_INDICIA = "[postcard-4x6.back]\nindicia = [5.0, 3.2, 0.4, 0.35]\n"
CANNOT_BE_READ = "which cannot be read: No such file or directory."
TEXTS, HTTPS = {"sms": "https://AC1@texts.example.com"}, {"base_url": "https://mail.example.com"}
SETTINGS: dict[Any, list[tuple[str, dict[str, Any], str, str]]] = {
    installation.check_production_settings: [
        ("time zone", {"timezone": "Mars/One"}, "broken", "QUILLPOST_TIMEZONE names no time zone: Mars/One."),
        ("time zone", {"timezone": "America"}, "broken", "QUILLPOST_TIMEZONE names no time zone: America."),
        ("allowed hosts", {"allowed_hosts": "http://localhost:3917"}, "broken", "without http:// and without a path."),
        ("templates", {"templates": "missing"}, "broken", CANNOT_BE_READ),
        ("templates", {"templates": "half"}, "broken", "QUILLPOST_TEMPLATES cannot be used."),
        ("templates", {"templates": "small"}, "broken", "the indicia is too small"),
        ("output profile", {"output_profile": "missing"}, "broken", CANNOT_BE_READ),
        ("output profile", {"output_profile": "half"}, "broken", "QUILLPOST_OUTPUT_PROFILE cannot be used."),
        ("guard", {"allow_private_urls": True}, "warning", "QUILLPOST_ALLOW_PRIVATE_URLS"),
    ],
    installation.check_print_partner: [
        ("print partner", {"print_partner": "file:///not-mounted"}, "warning", "not-mounted"),
        ("print partner", {"print_partner": "https://print.example.com"}, "broken",
         "QUILLPOST_PRINT_SECRET must be set"),
    ],
    installation.check_carrier: [
        ("carrier", {"carrier_folder": "file:///not-mounted"}, "warning", "not-mounted"),
        ("carrier", {"carrier_folder": "ftp://carrier.example.com/scans"}, "broken",
         "QUILLPOST_CARRIER_FOLDER must be file:///path"),
        ("carrier", {}, "ok", "every file of scans could be read"),
    ],
    installation.check_mail_server: [
        ("mail server", {}, "warning", "QUILLPOST_SMTP"),
        ("mail server", {"smtp": "mail.example.com"}, "broken", "QUILLPOST_SMTP must be"),
        ("mail server", TEXTS, "warning", "there is none"),
    ],
    installation.check_text_messages: [
        ("text messages", {}, "warning", "the standard output"),
        ("text messages", {"smtp": "mail.example.com"}, "warning", "QUILLPOST_SMS"),
        ("text messages", TEXTS, "broken", "QUILLPOST_SMS needs QUILLPOST_SMS_TOKEN and QUILLPOST_SMS_FROM."),
        ("text messages", TEXTS | {"sms_token": "hush", "sms_from": "+15125550100"}, "ok", ""),
    ],
    installation.check_sign_in: [
        *(("sign-in", {"base_url": url}, "ok", "")
          for url in (None, "http://localhost:8025", "http://127.0.0.1:8025/", "http://[::1]:8025")),
        *(("sign-in", {"base_url": url}, "warning", "")
          for url in ("http://mail.example.com", "http://10.0.0.7:8025", "http://localhost.example.com")),
        ("sign-in", HTTPS, "warning", ""),
        ("sign-in", HTTPS | {"trusted_proxies": "127.0.0.1"}, "ok", ""),
    ],
}  # fmt: skip


def test_each_setting_is_checked(tmp_path: Path, subtests: pytest.Subtests) -> None:
    (tmp_path / "half").write_text("[postcard")
    (tmp_path / "small").write_text(SMALL_INDICIA)
    for check, subject, given, status, words in [(check, *row) for check, each in SETTINGS.items() for row in each]:
        with subtests.test(subject, **given):
            files = {name: tmp_path / str(given[name]) for name in ("templates", "output_profile") if name in given}
            usual = {"home": tmp_path, "mail_from": "mail@example.com"}
            found = check(Settings.model_validate(usual | given | files))
            findings = [found] if isinstance(found, DoctorFinding) else list(found)
            [finding] = [each for each in findings if each.subject == subject]
            assert finding.status == status
            assert words in finding.message + finding.advice
            assert "hush" not in repr(findings)


def test_with_such_a_setting_nothing_else_starts(beside: Quillpost) -> None:
    for setting in ("timezone", "allowed_hosts", "templates", "output_profile"):
        assert f"QUILLPOST_{setting.upper()}" in beside("print", "list", **{setting: "http://no.such/thing"}).err


def test_files_of_the_carrier_that_could_not_be_read_are_reported(container: Container, home: Path) -> None:
    store = container.storage.store
    store.put("tracking/refused/poem", b"Roses are red")
    store.put("tracking/refused/poem.reason.txt", b"It is a poem.")
    [finding] = installation.check_carrier(Settings(home=home))
    for key in ("tracking/refused/poem", "tracking/refused/poem.reason.txt"):
        store.delete(key)
    assert (finding.status, "inbox/poem: It is a poem." in finding.message) == ("warning", True)


def test_missing_page_scripts_are_reported(tmp_path: Path) -> None:
    for place in PACKAGE_FILES.values():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).touch()
    settings = Settings(home=tmp_path, font_packages=tmp_path)
    assert installation.check_scripts(settings).status == "ok"
    with capture_logs() as logs:
        warn_of_missing_scripts(settings)
        assert logs == []
        (tmp_path / PACKAGE_FILES["uplot.js"]).unlink()
        warn_of_missing_scripts(settings)
    assert [(line["event"], line["missing"]) for line in logs] == [("web.scripts_missing", ["uplot"])]
    found = installation.check_scripts(settings)
    assert (found.status, found.message) == ("warning", "pages are without uplot")


def test_a_mail_server_is_tried() -> None:
    with SmtpServer() as house:
        smtp = f"smtp+plain://127.0.0.1:{house.port}"
        settings = Settings.model_validate({"mail_from": "m@example.com", "smtp": smtp})
        assert [found.status for found in installation.check_mail_server(settings)] == ["ok"]
        assert house.mails == []
        house.shut()
        [found] = installation.check_mail_server(settings)
    assert (found.status, found.message) == ("warning", "127.0.0.1 could not be reached.")
    assert found.advice == "E-mails wait until it is back."


@pytest.fixture
def look(clean_database: None, container: Container, home: Path) -> Callable[..., dict[str, DoctorFinding]]:
    """At the database of the service that the test calls."""

    def run(**settings: object) -> dict[str, DoctorFinding]:
        chosen = Settings.model_validate({"home": home, "port": free_port(), **settings})
        found = operations.check_with_database(chosen, container.db.conninfo, now=container.clock())
        return {finding.subject: finding for finding in found}

    return run


Look = Callable[..., dict[str, DoctorFinding]]
A_BATCH = """insert into batches (mode, piece, mail_class, status, item_count, created_at, partner, trouble)
             values ('live', 'postcard-4x6', 'first', %(status)s, 1, now(), %(partner)s, %(trouble)s)"""


def execute(container: Container, statement: LiteralString, **values: object) -> None:
    with psycopg.connect(container.db.conninfo) as admin:
        admin.execute(statement, values)


def test_work_that_fails_or_waits_for_a_person_is_reported(look: Look, owner: Account, container: Container) -> None:
    orders = [int(owner.send().json()["id"]) for _ in range(3)]
    execute(container, "update orders set status = 'paused' where id = any(%(ids)s)", ids=orders[:2])
    for trouble in ("The printer does not answer.", None):
        execute(container, A_BATCH, status="composed", partner=None, trouble=trouble)
    execute(container, """
        delete from procrastinate_jobs;
        insert into procrastinate_jobs (queue_name, task_name, status, scheduled_at)
        values ('default', 'fulfillment.sweep_due_orders', 'failed', null),
               ('default', 'fulfillment.sweep_due_orders', 'todo', now() - interval '1 hour')
    """)  # fmt: skip
    made = owner.post("/webhooks", {"url": "https://example.com/hook?key=hush", "type": "*"}).json()
    execute(container, "update webhooks set status = 'failing'")
    found = look()
    jobs, paused, batches = found["jobs"], found["paused"], found["batches"]
    assert {jobs.status, paused.status, batches.status, found["webhooks"].status} == {"warning"}
    assert "1 failed (fulfillment.sweep_due_orders)" in jobs.message
    assert "1 wait" in jobs.message
    assert f"2 test orders wait for an operator, first {orders[0]}, {orders[1]}" in paused.message
    assert batches.message.startswith("1 in trouble. batch-")
    assert batches.message.endswith(": The printer does not answer.")
    assert "quillpost print retry" in batches.advice
    assert str(made["id"]) in found["webhooks"].message
    assert "hush" not in repr(found)


def test_a_batch_that_is_with_a_former_partner_is_not_tried_again(look: Look, container: Container) -> None:
    former = "https://old.example.com"
    execute(container, A_BATCH, status="handed", partner=former, trouble=f"It is with {former}: mark it by hand.")
    alone = look(print_partner="folder")["batches"]
    assert "mark it by hand" in alone.message
    assert "quillpost print list --trouble" in alone.advice
    assert "retry" not in alone.advice
    execute(container, A_BATCH, status="composed", partner="folder", trouble="The disk is full.")
    assert "`quillpost print retry BATCH` tries the others again." in look(print_partner="folder")["batches"].advice


@pytest.mark.usefixtures("clean_database")
def test_a_lost_wrong_or_open_key_is_broken(owner: Account, container: Container, home: Path, tmp_path: Path) -> None:
    def check() -> list[DoctorFinding]:
        with container.db.system_transaction() as tx:
            return list(operations.check_key(Settings(home=tmp_path), tx))

    assert [(found.status, found.message) for found in check()] == [("warning", "there is none yet")]
    owner.post("/webhooks", {"url": "https://example.com/hook", "type": "*"})
    key = tmp_path / "secret.key"
    shutil.copy(home / "secret.key", key)
    key.chmod(0o644)
    exposed, opens = check()
    assert (exposed.status, "chmod 600" in exposed.advice, opens.status) == ("broken", True, "ok")
    assert key.read_text().strip() not in repr(exposed)
    key.chmod(0o600)
    key.write_text("00" * 32)
    [other] = check()
    assert "does not open" in other.message
    key.unlink()
    [gone] = check()
    assert (gone.status, "is gone" in gone.message) == ("broken", True)
    assert not key.exists(), "the doctor made a key"


def test_prices_that_are_not_in_force_are_broken(container: Container) -> None:
    with create_admin_engine(container.db.conninfo).connect() as tx:
        tx.execute(sa.text("update prices set valid_from = '2999-01-01' where size = '6x9'"))
        found = operations.check_prices(tx, now=container.clock())
        tx.rollback()
    assert (found.status, "Postcard-6x9" in found.message, "Postcard-4x6" in found.message) == ("broken", True, False)


def test_a_wrong_clock_is_reported_with_its_offset(container: Container) -> None:
    with container.db.system_transaction() as tx:
        now = tx.execute(sa.text("select clock_timestamp()")).scalar_one()
        assert operations.check_clock(tx, now=now) == DoctorFinding("clock", "ok", "it agrees with the database's")
        for off, status in ((-10, "warning"), (10, "warning"), (-3_600, "broken"), (3_600, "broken")):
            found = operations.check_clock(tx, now=datetime.now(UTC) + timedelta(seconds=off))
            seconds, _, rest = found.message.partition(" ")
            assert (found.subject, found.status) == ("clock", status), off
            assert rest == f"seconds {'behind' if off < 0 else 'ahead of'} the database's"
            assert abs(int(seconds.replace(",", "")) - abs(off)) <= 5
            assert "NTP" in found.advice


def test_messages_that_wait_or_failed_are_counted(look: Look, container: Container, clock: Clock, account: int) -> None:
    enqueue_notification(container, account)
    assert look()["notices"].status == "ok", "it has only just been posted"
    enqueue_notification(container, account, PHONE)
    enqueue_notification(container, account, key="failed", address="bob@example.com")
    failed = {"status": "failed", "error": "550 bob@example.com", "next_at": None}
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(notices).where(notices.c.key == "failed").values(failed))
    clock.advance(minutes=6)
    found = look()["notices"]
    assert found.status == "warning"
    assert found.message == "1 e-mails wait; 1 text messages wait; 1 could not be sent since yesterday"
    assert "@" not in repr(found)
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(notices).values(failed))
    clock.advance(hours=25)
    assert look()["notices"].status == "ok", "old failures are not reported"


def test_users_are_counted_and_unsent_invitations_warned_of(look: Look, owner: Account, container: Container) -> None:
    alone = look()["people"]
    assert (alone.status, "1 of 1 accounts have nobody" in alone.message) == ("ok", True)
    for email, what in (("dana@example.com", "1 person signs in"), ("lee@example.com", "2 people sign in")):
        make_user(container, owner.id, email)
        assert look()["people"].message == what
    now = container.clock()
    whom = {"account_id": owner.id, "email": "kim@example.com", "expires_at": now + timedelta(days=7)}
    with container.db.system_transaction() as tx:
        insert_least(tx, invitations, whom | {"expires_at": now, "digest": b"1"})
        insert_least(tx, invitations, whom | {"revoked_at": now, "digest": b"2"})
    assert look()["people"].status == "ok", "those that are over wait no more"
    with container.db.system_transaction() as tx:
        insert_least(tx, invitations, whom | {"email": "kim.too@example.com", "digest": b"3"})
    found = look()["people"]
    assert (found.status, "1 invitation cannot be brought" in found.message) == ("warning", True)
    assert "kim" not in found.message + found.advice
    assert look(smtp="smtp://user@mail.example.com")["people"].status == "ok"
