"""How commands start, how a server greets its first user and gives each call its turn, and how it stops; and the
demonstration, on a service of its own with everything else as a newcomer finds it."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from multiprocessing import Pipe
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import Mock

import pypdfium2
import pytest
import sqlalchemy as sa
import typer
from PIL import Image
from starlette.types import Message, Receive, Scope, Send
from uvicorn.config import STARTUP_FAILURE

from quillpost.accounts.audit.service import list_audit_entries
from quillpost.accounts.users import invitations
from quillpost.accounts.users.service import list_members
from quillpost.app import bootstrap, runtime
from quillpost.app.bootstrap import build_outbound_guard, publish_receiver_address, read_receiver_addresses
from quillpost.app.container import Container
from quillpost.cli import COMMANDS, app, build_full_app, demo, server
from quillpost.cli.welcome import ACCOUNT_EMAIL, Welcome, prepare_welcome
from quillpost.core.database.tables.base import accounts
from quillpost.core.database.tables.notifications import deliveries, webhooks
from quillpost.core.encryption import DecryptionFailed, Encryptor, KeyFile
from quillpost.core.errors import Unavailable
from quillpost.core.requests import STOPPING_MESSAGE, Shutdown
from quillpost.core.settings import Settings
from quillpost.notifications.webhooks.service import decrypt_secret, send_sample_event
from quillpost.web.middleware.admission import Admission
from quillpost.web.middleware.requests import RequestMiddleware
from support.cli_results import Quillpost
from support.rows import execute, scalar
from support.sign_in import sign_in_browser
from support.test_client import TestClient
from support.webhooks import back_off

PASSWORD = "a card for every neighbor"
LIBRARIES = ("sqlalchemy", "pydantic", "alembic", "paramiko", "aiohttp", "numpy", "pikepdf", "fastapi")

LOOK = f"""
import importlib, json, sys
from quillpost.cli import app
def loaded():
    return [name for name in {LIBRARIES} if name in sys.modules]
app(["--help"], standalone_mode=False)
found = {{"--help": loaded()}}
for module in ("recipients", "worker"):
    importlib.import_module("quillpost.cli." + module)
    found[module] = loaded()
print(json.dumps(found), file=sys.stderr)
"""


def test_help_says_of_commands_what_they_say_of_themselves(quillpost: Quillpost, subtests: pytest.Subtests) -> None:
    announced = typer.main.get_group(app).commands
    real = typer.main.get_group(build_full_app()).commands
    assert {name: command.help for name, command in announced.items()} == {
        name: (command.help or "").partition("\n\n")[0].replace("\n", " ") for name, command in real.items()
    }
    assert list(announced) == list(real)
    for name in COMMANDS:
        with subtests.test(name):
            shown = quillpost(name, "--help")
            assert (shown.code, f"Usage: quillpost {name}" in shown.out) == (0, True)
    refused = quillpost("lsts")
    assert (refused.code, "No such command 'lsts'. Did you mean 'lists'?" in refused.err) == (2, True)


def test_a_command_loads_no_library_that_only_others_need() -> None:
    run = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True)
    assert json.loads(run.stderr) == {
        "--help": [],
        "recipients": ["sqlalchemy", "pydantic"],
        "worker": ["sqlalchemy", "pydantic", "aiohttp", "numpy"],
    }


def test_threads_of_a_server_change_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose threads compute leaves light calls their turn."""
    chosen: list[float] = []
    monkeypatch.setattr(sys, "setswitchinterval", chosen.append)
    monkeypatch.setattr(bootstrap, "build_container", lambda *_: None)
    monkeypatch.setattr(runtime, "warn_if_key_file_exposed", lambda *_: None)
    monkeypatch.setattr(server, "create_app", lambda *_: None)
    monkeypatch.setenv("QUILLPOST_SERVE_JOBS", "no")
    server._create_application(Settings(), "nowhere")
    assert chosen == [server.THREAD_SWITCH_SECONDS]
    assert server.THREAD_SWITCH_SECONDS < 0.001


def test_a_server_process_may_take_long_to_start_but_not_fall_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine it loads for minutes; killed meanwhile, it would begin anew for ever."""
    now = 0.0
    monkeypatch.setattr(server, "time", SimpleNamespace(monotonic=lambda: now))
    ours, theirs = Pipe()
    process, parent = Mock(parent_conn=ours), object.__new__(server.ServerProcesses)
    vars(parent).update(should_exit=Event(), config=None, sockets=[], _pinged_at={}, _has_answered=set())
    assert parent._is_responsive(process)
    now += 3 * server.UNRESPONSIVE_SECONDS
    assert parent._is_responsive(process)
    theirs.send(theirs.recv())
    assert parent._is_responsive(process)
    now += server.UNRESPONSIVE_SECONDS - 1
    assert parent._is_responsive(process)
    now += 1
    assert not parent._is_responsive(process)
    ours, _theirs = Pipe()
    never = Mock(parent_conn=ours)
    assert parent._is_responsive(never)
    now += server.START_SECONDS
    assert not parent._is_responsive(never)
    successor = Mock(exitcode=STARTUP_FAILURE, **{"process.is_alive.return_value": False})
    monkeypatch.setattr(server, "Process", lambda *_: successor)
    for each in (never, Mock(parent_conn=Pipe()[0])):  # one that is silent, and one that is no more
        parent.processes = [each]
        parent.keep_subprocess_alive()
        assert (each.kill.called, parent.processes, parent.should_exit.is_set()) == (True, [successor], False)
    parent.keep_subprocess_alive()
    assert (successor.start.call_count, parent.should_exit.is_set()) == (2, True), "the next would fail to start, too"


Greet = Callable[..., Welcome]


@pytest.fixture
def greet(conninfo: str, home: Path) -> Greet:
    """A start on a home that was used before, with a database of the test's own."""

    def run(**changes: object) -> Welcome:
        return prepare_welcome(settings_of(home, **changes), conninfo)

    return run


def settings_of(home: Path, **changes: object) -> Settings:
    return Settings.model_validate({"home": home, "receiver": True, "port": 9001} | changes)


def subscriptions(container: Container) -> list[Any]:
    return execute(container, sa.select(webhooks).order_by(webhooks.c.id))


def first_account(container: Container) -> int:
    return int(scalar(container, sa.select(accounts.c.id)))


def test_the_greeting_has_a_link_until_somebody_has_joined(
    greet: Greet, http: TestClient, container: Container, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def shown(greeting: Welcome) -> str:
        greeting.print_message()
        return capsys.readouterr().out

    monkeypatch.setattr(invitations, "MAX_EMAILS_PER_DAY", 2)
    here = {"base_url": "http://quillpost.test"}
    first, *_, last = (greet(**here) for _ in range(4))
    account_id = first_account(container)
    with container.db.system_transaction() as tx:
        assert tx.exec_driver_sql("select count(*) from notices").scalar() == 0, "the address is nobody's"
        entries = list(reversed(list_audit_entries(tx, account_id)))
    assert [entry.act for entry in entries] == ["account.created", "token.created", "person.invited"]
    assert {entry.actor for entry in entries} == {"the command line"}
    assert dict(entries[1].about, id=1) == {"id": 1, "name": "first steps", "mode": "test"}
    assert first.join_url != last.join_url
    assert f"  Set password {last.join_url}\n" in shown(last)
    browser = sign_in_browser(http)
    assert browser.get(str(first.join_url)).status_code == 404
    assert ACCOUNT_EMAIL in browser.get(str(last.join_url)).text
    browser.post(str(last.join_url), name="You", password=PASSWORD, again=PASSWORD)
    with container.db.system_transaction() as tx:
        [member] = list_members(tx, account_id)
    assert (member.email, member.role) == (ACCOUNT_EMAIL, "owner")
    after = greet(**here)
    assert after.join_url is None
    assert "  Sign in      http://quillpost.test/sign-in\n" in shown(after)
    assert after == last


def test_the_receiver_page_is_subscribed_once_wherever_it_moves(greet: Greet, container: Container) -> None:
    shown, again = greet(), greet()
    assert shown == again
    [before] = subscriptions(container)
    assert before.url == f"{shown.receiver_url}/hook"
    assert (before.type, before.mode, before.description) == ("*", "test", "Receiver page")
    with container.db.system_transaction() as tx:
        send_sample_event(tx, before.id, now=container.clock())
        tx.execute(sa.update(webhooks).values(status="failing", last_error="Connection refused."))
    back_off(container, before.id)
    moved = greet(port=9002)  # and what waits for it goes along
    [hook] = subscriptions(container)
    assert (hook.id, hook.url) == (before.id, f"{moved.receiver_url}/hook")
    assert ":9002/" in hook.url
    assert (hook.status, hook.last_error) == ("active", None)
    with container.db.system_transaction() as tx:
        assert tx.execute(sa.select(deliveries.c.status)).scalars().all() == ["pending"]
        queue = tx.execute(sa.text("select resting_until, due_at from webhook_lanes")).one()
    assert (queue.resting_until, queue.due_at is not None) == (None, True)
    public = greet(base_url="https://mail.example.com", host="0.0.0.0")
    assert public.receiver_url is not None
    assert public.receiver_url.startswith("https://mail.example.com/receiver/")
    [hook] = subscriptions(container)
    assert hook.url.startswith("http://127.0.0.1:9001/receiver/"), "events stay on this machine"


def test_several_that_were_left_behind_become_one(greet: Greet, container: Container) -> None:
    greet()
    [first] = subscriptions(container)
    execute(container, sa.update(webhooks).values(description="mine"))
    greet(port=9002)
    same = {name: value for name, value in first._mapping.items() if name != "id"}
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(webhooks).values(description="Receiver page"))
        tx.execute(sa.insert(webhooks).values(same | {"url": "https://example.com/hook"}))
    greet(port=9002)
    urls = [hook.url for hook in subscriptions(container)]
    assert [url.partition("/receiver")[0] for url in urls] == ["http://127.0.0.1:9002", "https://example.com/hook"]


def test_under_another_key_the_subscription_is_replaced(greet: Greet, home: Path, container: Container) -> None:
    before = greet()
    [old] = subscriptions(container)
    former = Encryptor.from_keys(KeyFile(home / "secret.key").read_keys())
    (home / "secret.key").write_text("00" * 32)
    after = greet()
    assert after.receiver_url != before.receiver_url
    [hook] = subscriptions(container)
    assert (hook.id == old.id, hook.url) == (False, f"{after.receiver_url}/hook")
    assert decrypt_secret(Encryptor.from_keys([bytes(32)]), hook.id, bytes(hook.secret_sealed))
    with pytest.raises(DecryptionFailed):
        decrypt_secret(former, hook.id, bytes(hook.secret_sealed))


def test_whoever_delivers_beside_the_server_finds_the_receiver(tmp_path: Path) -> None:
    home = tmp_path
    beside = settings_of(home, receiver=False, port=8025)
    assert read_receiver_addresses(beside) == set()
    publish_receiver_address(settings_of(home))
    assert read_receiver_addresses(beside) == {("127.0.0.1", 9001)}
    assert build_outbound_guard(beside).check_url("http://127.0.0.1:9001/receiver/x/hook") is None
    assert build_outbound_guard(beside).check_url("http://127.0.0.1:9002/") is not None
    (home / "receiver-place").write_text("nonsense")
    assert read_receiver_addresses(beside) == set()
    publish_receiver_address(settings_of(home))
    publish_receiver_address(settings_of(home, receiver=False))
    assert read_receiver_addresses(beside) == set()


def test_late_requests_do_not_commit(container: Container, account: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quillpost.core.requests.COMMIT_SECONDS", 0)
    mine = accounts.c.id == account

    def rename(name: str) -> None:
        execute(container, sa.update(accounts).where(mine).values(name=name))

    async def request() -> Shutdown:
        shutdown = Shutdown()
        shutdown.begin()
        while not shutdown.commits_ended.is_set():
            await asyncio.sleep(0)
        with shutdown.request_context(), pytest.raises(Unavailable, match="stopping"):
            await asyncio.to_thread(rename, "By a request")
        return shutdown

    def name() -> str:
        return str(scalar(container, sa.select(accounts.c.name).where(mine)))

    rename("Dana")
    assert asyncio.run(request()).has_begun
    assert name() == "Dana"
    rename("By a job")
    assert name() == "By a job"


def test_what_is_done_first_is_done_once() -> None:
    async def story() -> list[str]:
        shutdown, done = Shutdown(), list[str]()
        shutdown.on_begin(lambda: done.append("streams end"))
        shutdown.begin()
        shutdown.begin()
        return done

    assert asyncio.run(story()) == ["streams end"]


def test_whoever_waits_is_sent_away_and_whoever_was_inside_may_finish() -> None:
    async def story() -> None:
        admission = Admission(max_per_caller=1, max_wait_seconds=3_600)
        inside, waiting = admission.create_ticket("A"), admission.create_ticket("A")
        await inside.enter()
        turn = asyncio.create_task(waiting.enter())
        await asyncio.sleep(0)
        admission.close()
        with pytest.raises(Unavailable, match="stopping"):
            await turn
        with pytest.raises(Unavailable, match="stopping"):
            await admission.create_ticket("B").enter()
        inside.leave()
        await inside.enter()

    asyncio.run(story())


def test_abandoned_requests_are_answered_with_503_by_a_server_that_stops() -> None:
    async def story(*, is_stopping: bool) -> list[Message]:
        shutdown, got, is_working = Shutdown(), list[Message](), asyncio.Event()

        async def work(_scope: Scope, _receive: Receive, _send: Send) -> None:
            is_working.set()
            await asyncio.Event().wait()

        async def send(message: Message) -> None:
            got.append(message)

        async def receive() -> Message:
            return {"type": "http.request"}

        scope = {"type": "http", "method": "POST", "path": "/api/v2/x", "headers": [], "scheme": "http",
                 "query_string": b""}  # fmt: skip
        request = asyncio.create_task(RequestMiddleware(work, shutdown)(scope, receive, send))
        await is_working.wait()
        if is_stopping:
            shutdown.begin()
        request.cancel()
        with nullcontext() if is_stopping else pytest.raises(asyncio.CancelledError):
            await request
        return got

    assert asyncio.run(story(is_stopping=False)) == []
    start, body = asyncio.run(story(is_stopping=True))
    assert (start["status"], dict(start["headers"])[b"retry-after"]) == (503, b"5")
    assert STOPPING_MESSAGE.encode() in body["body"]


class Looks(NamedTuple):
    width: float
    height: float
    sides: tuple[str, ...] = ("front", "back")
    has_envelope: bool = False
    is_secret: bool = False


LOOKS = {
    "postcard-4x6": Looks(6, 4), "postcard-6x11": Looks(11, 6),
    "letter": Looks(8.5, 11, ("cover",), has_envelope=True),
    "windowlessletter": Looks(8.5, 11, ("cover",), has_envelope=True), "notecard": Looks(4.25, 5.5, has_envelope=True),
    "giftcard": Looks(4.25, 5.5, has_envelope=True, is_secret=True), "magnacard": Looks(6, 4),
}  # fmt: skip


@pytest.mark.costly
def test_every_piece_ends_as_it_should(folder: Path, monkeypatch: pytest.MonkeyPatch, quillpost: Quillpost) -> None:
    monkeypatch.setattr(demo, "POLL_SECONDS", 0.3)
    # A demonstration keeps away from the operator's own database.
    elsewhere = "postgresql://nobody@127.0.0.1:1/none"
    outcome = quillpost("demo", "--out", folder, database_url=elsewhere, test_review_seconds=0, test_journey_seconds=2)
    assert (outcome.code, (folder / "home" / "faces").exists()) == (0, False), outcome.out + outcome.err
    assert outcome.out.count(" ✓ ") == len(demo.DEMO_PRODUCTS) * len(demo.DEMO_RECIPIENTS) + 1
    for piece in demo.DEMO_PRODUCTS:
        place, looks = folder / piece.name, LOOKS[piece.name]
        for side in looks.sides:
            with Image.open(place / f"{side}.png") as picture:
                assert picture.width / picture.height == pytest.approx(looks.width / looks.height, rel=0.02)
        mailed = len(demo.DEMO_RECIPIENTS) - 1  # all but the undeliverable one
        assert (place / "print.pdf").exists() == (not looks.is_secret)
        if not looks.is_secret:
            with pypdfium2.PdfDocument(place / "print.pdf") as printed:
                assert len(printed) == len(looks.sides) * mailed
        assert (place / "envelope.png").exists() == (place / "envelopes.pdf").exists() == looks.has_envelope
        assert (place / "proof.pdf").read_bytes().startswith(b"%PDF")
        assert "Jane Doe" in (place / "manifest.csv").read_text()


def test_a_piece_that_ends_elsewhere_is_a_failure(tmp_path: Path) -> None:
    sent = demo.DemoOrder(demo.DEMO_PRODUCTS[0], 1, tmp_path)
    sent.items = [
        # No more of an item than is looked at.
        {"status": "Delivered", "recipient": {"name": guest.name}, "failure": None}  # type: ignore[typeddict-item]
        for guest in demo.DEMO_RECIPIENTS
    ]
    found = " ".join(demo.find_unexpected_endings([sent]))
    for guest in demo.DEMO_RECIPIENTS:
        assert (guest.name in found) == (guest.expected_status != "Delivered")


def test_another_service_needs_a_token(tmp_path: Path, quillpost: Quillpost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quillpost.client.transport.backoff", lambda _: 0.0)
    for words, why in (((), "--token"), (("--token", "x", "--out", tmp_path), "cannot be reached")):
        assert quillpost("demo", "--url", "http://127.0.0.1:1", *words).is_one_sentence(why)
