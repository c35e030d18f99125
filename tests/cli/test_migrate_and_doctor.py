"""`migrate` and `doctor`: what they say about a service that is well, and about each thing that is not."""

import socket
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from structlog.testing import capture_logs

from quillpost.app.container import Container
from quillpost.app.runtime import read_schema
from quillpost.cli.demo import create_client, run_demo_service
from quillpost.cli.server import warn_of_missing_scripts
from quillpost.core.database import schema
from quillpost.core.settings import Settings
from quillpost.web.assets import PACKAGE_FILES
from support.cli_results import CommandResult, Quillpost
from support.factories import Account


def test_migrate_fills_an_empty_database_and_then_has_nothing_to_do(
    blank: str, tmp_path: Path, quillpost: Quillpost
) -> None:
    first = quillpost("migrate", home=tmp_path, database_url=blank)
    assert (first.code, "was empty" in first.out) == (0, True)
    assert read_schema(blank).status == "current"
    second = quillpost("migrate", home=tmp_path, database_url=blank)
    assert (second.code, "nothing to do" in second.out) == (0, True)


def test_migrate_refuses_a_newer_schema(conninfo: str, tmp_path: Path, quillpost: Quillpost) -> None:
    _set_schema(conninfo, "9999")
    outcome = quillpost("migrate", home=tmp_path, database_url=conninfo)
    assert outcome.is_one_sentence()
    assert "9999" in outcome.err


def test_an_older_schema_asks_for_a_migration(
    conninfo: str, tmp_path: Path, quillpost: Quillpost, monkeypatch: pytest.MonkeyPatch
) -> None:
    _know_an_older_revision(monkeypatch)
    _set_schema(conninfo, "0000")
    outcome = quillpost("work", home=tmp_path, database_url=conninfo)
    assert (outcome.code, outcome.err) == (
        1,
        f"quillpost: The database schema (0000) is older than this release needs ({schema.list_revisions()[-1]}): "
        "take a backup, then run `quillpost migrate`.\n",
    )


def _know_an_older_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    known = ["0000", *schema.list_revisions()]
    monkeypatch.setattr(schema, "list_revisions", lambda: known)


def _set_schema(conninfo: str, revision: str) -> None:
    with psycopg.connect(conninfo) as connection:
        connection.execute("update alembic_version set version_num = %s", [revision])


class Patient:
    """A service on this database, and what the doctor says of it."""

    def __init__(self, quillpost: Quillpost, home: Path, conninfo: str, port: int) -> None:
        self.home = home
        self.conninfo = conninfo
        self._quillpost = quillpost
        self._settings: dict[str, object] = {"home": home, "database_url": conninfo, "port": port}

    def see(self, **changes: object) -> CommandResult:
        return self.run("doctor", **changes)

    def run(self, *words: str, **changes: object) -> CommandResult:
        return self._quillpost(*words, **self._settings | changes)

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.conninfo) as connection:
            connection.execute(statement)


@pytest.fixture
def patient(container: Container, conninfo: str, tmp_path: Path, quillpost: Quillpost) -> Patient:
    return Patient(quillpost, tmp_path / "home", conninfo, _free_port())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _row(outcome: CommandResult, subject: str) -> str:
    """The doctor's lines on one subject."""
    rows = [line for line in outcome.out.splitlines() if line.strip("│ ").startswith(f"{subject} ")]
    assert rows, outcome.out
    return "\n".join(rows)


def test_a_service_that_is_well_is_called_well(patient: Patient, owner: Account) -> None:
    owner.post("/webhooks", {"url": "https://example.com/hook", "type": "*"})
    outcome = patient.see(
        base_url="https://mail.example.com",
        permit_first="A|B",
        permit_standard="C",
        mailer_id="123456",
        print_partner="folder",
    )
    assert outcome.code == 0, outcome.out
    assert outcome.err == ""
    for subject in (
        "settings", "home", "files", "fonts", "port", "templates", "output profile", "time zone",
        "allowed hosts", "live mail", "print partner", "carrier", "database", "schema",
        "secret key", "clock", "prices", "jobs", "batches", "paused", "webhooks", "notices",
    ):  # fmt: skip
        assert " ok " in _row(outcome, subject)
    assert "none at work" in _row(outcome, "workers")
    assert "QUILLPOST_LEGACY_FIELDS=true" in " ".join(_row(outcome, "old fields").split())


def test_missing_page_scripts_are_reported(patient: Patient, tmp_path: Path) -> None:
    for place in PACKAGE_FILES.values():
        file = tmp_path / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    assert " ok " in _row(patient.see(font_packages=str(tmp_path)), "scripts")
    settings = Settings(home=tmp_path, font_packages=tmp_path)
    with capture_logs() as logs:
        warn_of_missing_scripts(settings)
        assert logs == []
        (tmp_path / PACKAGE_FILES["uplot.js"]).unlink()
        warn_of_missing_scripts(settings)
    assert [(line["event"], line["missing"]) for line in logs] == [("web.scripts_missing", ["uplot"])]
    row = " ".join(_row(patient.see(font_packages=str(tmp_path)), "scripts").split())
    assert "warning" in row
    assert "pages are without uplot" in row


def test_an_open_guard_is_reported(patient: Patient) -> None:
    row = " ".join(_row(patient.see(allow_private_urls=True), "guard").split())
    assert "warning" in row
    assert "QUILLPOST_ALLOW_PRIVATE_URLS" in row


SMALL_INDICIA = "[postcard-4x6.back]\nindicia = [5.0, 3.2, 0.4, 0.35]\n"


@pytest.mark.parametrize(
    ("subject", "setting", "content", "error"),
    [
        ("time zone", "timezone", "Mars/One", "QUILLPOST_TIMEZONE names no time zone: Mars/One."),
        ("time zone", "timezone", "America", "QUILLPOST_TIMEZONE names no time zone: America."),
        ("allowed hosts", "allowed_hosts", "http://localhost:3917", "without http:// and without a path."),
        ("templates", "templates", None, "which cannot be read: No such file or directory."),
        ("templates", "templates", "[postcard", "QUILLPOST_TEMPLATES cannot be used."),
        ("templates", "templates", SMALL_INDICIA, "the indicia is too small"),
        ("output profile", "output_profile", None, "which cannot be read: No such file or directory."),
        ("output profile", "output_profile", "colours", "QUILLPOST_OUTPUT_PROFILE cannot be used."),
    ],
)
def test_a_setting_with_which_nothing_starts_is_broken(
    patient: Patient, tmp_path: Path, subject: str, setting: str, content: str | None, error: str
) -> None:
    value: object = content
    if setting not in ("timezone", "allowed_hosts"):
        value = tmp_path / "press"
        if content is not None:
            (tmp_path / "press").write_text(content)
    outcome = patient.see(**{setting: value})
    assert outcome.code == 1
    row = " ".join(_row(outcome, subject).split())
    assert "broken" in row
    assert error in row
    elsewhere = patient.run("print", "list", **{setting: value})
    assert elsewhere.code == 1
    assert error in " ".join(elsewhere.err.split())


def test_all_fatal_settings_are_reported_and_hide_no_other_check(patient: Patient, tmp_path: Path) -> None:
    nowhere = {"templates": tmp_path / "a", "output_profile": tmp_path / "b", "timezone": "Mars/One"}
    outcome = patient.see(permit_first="A|B|C|D|E|F|G|H", **nowhere)
    for subject in ("templates", "output profile", "time zone"):
        assert "broken" in _row(outcome, subject)
    assert "QUILLPOST_PERMIT_FIRST is too long" in _row(outcome, "live mail")
    for subject in ("home", "files", "fonts", "port", "carrier", "database", "schema", "prices", "webhooks"):
        assert " ok " in _row(outcome, subject)


def test_a_postage_mark_that_does_not_fit_is_reported_without_failing(patient: Patient) -> None:
    outcome = patient.see(permit_first="A|B|C|D|E|F|G|H")
    assert outcome.code == 0
    assert "QUILLPOST_PERMIT_FIRST is too long for its place on 4x6 postcard" in _row(outcome, "live mail")


def test_a_secret_that_is_none_is_broken_without_a_partner_as_well(patient: Patient) -> None:
    outcome = patient.see(print_secret="hush")
    assert outcome.code == 1
    assert "QUILLPOST_PRINT_SECRET must be whsec_" in _row(outcome, "print partner")
    assert "hush" not in outcome.out


def test_a_print_partner_that_is_away_is_shown_and_no_failure(patient: Patient, tmp_path: Path) -> None:
    outcome = patient.see(print_partner=f"file://{tmp_path}/not-mounted")
    assert outcome.code == 0
    assert "warning" in _row(outcome, "print partner")
    assert "not-mounted" in outcome.out


def test_print_settings_that_do_not_fit_together_are_broken(patient: Patient) -> None:
    outcome = patient.see(print_partner="https://print.example.com")
    assert outcome.code == 1
    assert "broken" in _row(outcome, "print partner")
    assert "QUILLPOST_PRINT_SECRET must be set" in " ".join(outcome.out.split())


def test_files_of_the_carrier_that_could_not_be_read_are_shown(patient: Patient, container: Container) -> None:
    container.storage.store.put("tracking/refused/poem", b"Roses are red")
    container.storage.store.put("tracking/refused/poem.reason.txt", b"It is a poem.")
    outcome = patient.see()
    assert outcome.code == 0
    assert "warning" in _row(outcome, "carrier")
    assert "inbox/poem: It is a poem." in " ".join(_row(outcome, "carrier").split())


def test_a_carrier_folder_that_is_away_is_shown_and_no_failure(patient: Patient, tmp_path: Path) -> None:
    outcome = patient.see(carrier_folder=f"file://{tmp_path}/not-mounted")
    assert outcome.code == 0
    assert "warning" in _row(outcome, "carrier")
    assert "not-mounted" in outcome.out


def test_a_carrier_folder_that_is_no_address_is_broken(patient: Patient) -> None:
    outcome = patient.see(carrier_folder="ftp://carrier.example.com/scans")
    assert outcome.code == 1
    assert "QUILLPOST_CARRIER_FOLDER must be file:///path" in " ".join(_row(outcome, "carrier").split())


def test_warnings_alone_are_no_failure(patient: Patient) -> None:
    patient.execute(
        """insert into procrastinate_jobs (queue_name, task_name, status, scheduled_at)
           values ('default', 'fulfillment.sweep_due_orders', 'failed', null),
                  ('default', 'fulfillment.sweep_due_orders', 'todo', now() - interval '1 hour')"""
    )
    outcome = patient.see()
    assert outcome.code == 0
    assert "QUILLPOST_MAILER_ID" in _row(outcome, "live mail")
    jobs = _row(outcome, "jobs")
    assert "1 failed (fulfillment.sweep_due_orders)" in jobs
    assert "1 wait" in jobs


def test_work_that_waits_for_a_person_is_reported(patient: Patient, owner: Account) -> None:
    for _ in range(3):
        owner.send()
    patient.execute("update orders set status = 'paused' where id <= 2")
    patient.execute(
        """insert into batches (mode, piece, mail_class, status, item_count, created_at, trouble)
           values ('live', 'postcard-4x6', 'first', 'composed', 1, now(), 'The printer does not answer.'),
                  ('live', 'postcard-4x6', 'first', 'composed', 1, now(), null)"""
    )
    outcome = patient.see()
    assert outcome.code == 0
    assert "2 test orders wait for an operator, first 1, 2" in _row(outcome, "paused")
    batches = _row(outcome, "batches")
    assert "1 in trouble. batch-000001: The printer does not answer." in batches
    assert "quillpost print retry" in batches


def test_a_batch_that_is_with_a_former_partner_is_not_tried_again(patient: Patient, owner: Account) -> None:
    patient.execute(
        """insert into batches (mode, piece, mail_class, status, item_count, created_at, partner, trouble)
           values ('live', 'postcard-4x6', 'first', 'handed', 1, now(), 'https://old.example.com',
                   'It is with https://old.example.com: mark it by hand.')"""
    )
    alone = _row(patient.see(print_partner="folder"), "batches")
    assert "mark it by hand" in alone
    assert "quillpost print list --trouble" in alone
    assert "retry" not in alone
    patient.execute(
        """insert into batches (mode, piece, mail_class, status, item_count, created_at, partner, trouble)
           values ('live', 'postcard-4x6', 'first', 'composed', 1, now(), 'folder', 'The disk is full.')"""
    )
    both = _row(patient.see(print_partner="folder"), "batches")
    assert "`quillpost print retry BATCH` tries the others again." in both


def test_a_failing_webhook_is_named_by_its_number(patient: Patient, owner: Account) -> None:
    made = owner.post("/webhooks", {"url": "https://example.com/hook?key=hush", "type": "*"}).json()
    patient.execute("update webhooks set status = 'failing'")
    outcome = patient.see()
    assert str(made["id"]) in _row(outcome, "webhooks")
    assert "hush" not in outcome.out


def test_a_setting_that_cannot_be_read_is_named(patient: Patient) -> None:
    outcome = patient.see(port="eighty")
    assert outcome.code == 1
    assert "QUILLPOST_PORT" in _row(outcome, "settings")


def test_an_unreachable_database_is_broken_and_its_password_kept(patient: Patient) -> None:
    outcome = patient.see(database_url=f"postgresql://someone:hush@127.0.0.1:{_free_port()}/quillpost")
    assert outcome.code == 1
    assert "broken" in _row(outcome, "database")
    assert "hush" not in outcome.out


@pytest.mark.parametrize(("revision", "advice"), [("0000", "quillpost migrate"), ("9999", "later one")])
def test_another_schema_is_broken(
    patient: Patient, revision: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _know_an_older_revision(monkeypatch)
    _set_schema(patient.conninfo, revision)
    outcome = patient.see()
    assert outcome.code == 1
    assert advice in _row(outcome, "schema")


def test_an_empty_database_is_no_failure(blank: str, patient: Patient) -> None:
    outcome = patient.see(database_url=blank)
    assert outcome.code == 0, outcome.out
    assert "empty" in _row(outcome, "schema")


def test_a_key_that_others_may_read_is_broken(patient: Patient) -> None:
    key = patient.home / "secret.key"
    key.chmod(0o644)
    outcome = patient.see()
    assert outcome.code == 1
    assert "chmod 600" in _row(outcome, "secret key")
    assert key.read_text().strip() not in outcome.out


def test_a_key_that_is_lost_or_wrong_is_broken(patient: Patient, owner: Account) -> None:
    owner.post("/webhooks", {"url": "https://example.com/hook", "type": "*"})
    key = patient.home / "secret.key"
    key.write_text("00" * 32)
    assert "does not open" in _row(patient.see(), "secret key")
    key.unlink()
    outcome = patient.see()
    assert (outcome.code, "is gone" in _row(outcome, "secret key")) == (1, True)
    assert not key.exists(), "the doctor made a key"


def test_prices_that_are_not_in_force_are_broken(patient: Patient) -> None:
    patient.execute("update prices set valid_from = '2999-01-01' where size = '6x9'")
    outcome = patient.see()
    assert outcome.code == 1
    assert "Postcard-6x9" in _row(outcome, "prices")
    assert "Postcard-4x6" not in _row(outcome, "prices")


def test_a_file_store_that_is_no_folder_is_broken(patient: Patient, tmp_path: Path) -> None:
    home = tmp_path / "other"
    home.mkdir()
    (home / "files").write_text("in the way")
    outcome = patient.see(home=home)
    assert outcome.code == 1
    assert "broken" in _row(outcome, "files")


@pytest.fixture
def someone_else() -> Iterator[int]:
    """A port on which something listens that is not Quillpost."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(0)
        yield int(listener.getsockname()[1])


def test_a_port_that_another_program_uses_is_broken(
    patient: Patient, someone_else: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quillpost.cli.doctor.installation.HTTP_SECONDS", 0.2)
    outcome = patient.see(port=someone_else)
    assert outcome.code == 1
    assert "QUILLPOST_PORT" in _row(outcome, "port")


def test_a_home_that_was_never_used_is_not_touched(tmp_path: Path, quillpost: Quillpost) -> None:
    home = tmp_path / "never"
    # Faces are kept in the home as well, where no other folder is named.
    outcome = quillpost("doctor", home=home, faces_folder=home / "faces", port=_free_port(), permit_first="PERMIT 1")
    assert outcome.code == 0, outcome.out
    assert "there is none yet" in _row(outcome, "database")
    assert not home.exists()


def test_the_doctor_and_a_backup_leave_a_running_service_running(
    folder: Path, tmp_path: Path, quillpost: Quillpost
) -> None:
    home = folder / "home"
    with run_demo_service(home) as service:
        port = service.base_url.rpartition(":")[2]
        seen = quillpost("doctor", home=home, port=port)
        assert seen.code == 0, seen.out
        assert "Quillpost runs there" in _row(seen, "port")
        assert "they are at work" in _row(seen, "workers")
        assert service.token not in seen.out
        saved = quillpost("backup", tmp_path / "b.qpb", home=home)
        assert saved.code == 0, saved.err
        with create_client(service.base_url, service.token) as caller:
            assert list(caller.orders.list()) == []
    stopped = quillpost("doctor", home=home, port=port)
    assert stopped.code == 0, stopped.out
    assert "free" in _row(stopped, "port")
