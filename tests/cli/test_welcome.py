"""How a server greets its first user, and finds the page that shows events."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.audit.service import list_audit_entries
from quillpost.accounts.users import invitations
from quillpost.accounts.users.service import list_members
from quillpost.app.bootstrap import build_outbound_guard, publish_receiver_address, read_receiver_addresses
from quillpost.app.container import Container
from quillpost.cli.welcome import ACCOUNT_EMAIL, Welcome, prepare_welcome
from quillpost.core.database.tables.base import accounts
from quillpost.core.database.tables.notifications import deliveries, webhooks
from quillpost.core.encryption import DecryptionFailed, Encryptor, KeyFile
from quillpost.core.settings import Settings
from quillpost.notifications.webhooks.service import decrypt_secret, send_sample_event
from support.rows import execute, scalar
from support.sign_in import sign_in_browser
from support.test_client import TestClient
from support.webhooks import back_off

PASSWORD = "a card for every neighbor"


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
