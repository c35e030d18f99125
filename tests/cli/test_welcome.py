"""The first minute on a home that was used before: the receiver page is subscribed once, where it is."""

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.bootstrap import build_outbound_guard, publish_receiver_address, read_receiver_addresses
from quillpost.app.container import Container
from quillpost.cli.welcome import Welcome, prepare_welcome
from quillpost.core.database.tables.notifications import deliveries, webhooks
from quillpost.core.encryption import DecryptionFailed, Encryptor, KeyFile
from quillpost.core.settings import Settings
from quillpost.notifications.webhooks.service import decrypt_secret, send_sample_event
from support.webhook_log import back_off


def settings_of(home: Path, **changes: Any) -> Settings:
    return Settings.model_validate({"home": home, "receiver": True, "port": 9001} | changes)


@pytest.fixture
def home(container: Container, tmp_path: Path) -> Path:
    return tmp_path / "home"


def welcome(home: Path, container: Container, **changes: Any) -> Welcome:
    return prepare_welcome(settings_of(home, **changes), container.db.conninfo)


def subscriptions(container: Container) -> list[Any]:
    with container.db.system_transaction() as tx:
        return list(tx.execute(sa.select(webhooks).order_by(webhooks.c.id)))


def test_it_subscribes_once_however_often_it_starts(home: Path, container: Container) -> None:
    first, again = welcome(home, container), welcome(home, container)
    assert first == again
    [hook] = subscriptions(container)
    assert hook.url == f"{first.receiver_url}/hook"
    assert (hook.type, hook.mode, hook.description) == ("*", "test", "Receiver page")


def test_another_port_takes_the_subscription_along_and_what_waits_for_it(home: Path, container: Container) -> None:
    welcome(home, container)
    [before] = subscriptions(container)
    with container.db.system_transaction() as tx:
        send_sample_event(tx, before.id, now=container.clock())
        tx.execute(sa.update(webhooks).values(status="failing", last_error="Connection refused."))
    back_off(container, before.id)
    moved = welcome(home, container, port=9002)
    [hook] = subscriptions(container)
    assert (hook.id, hook.url) == (before.id, f"{moved.receiver_url}/hook")
    assert ":9002/" in hook.url
    assert (hook.status, hook.last_error) == ("active", None)
    with container.db.system_transaction() as tx:
        assert tx.execute(sa.select(deliveries.c.status)).scalars().all() == ["pending"]
        queue = tx.execute(sa.text("select resting_until, due_at from webhook_lanes")).one()
    assert queue.resting_until is None
    assert queue.due_at is not None


def test_several_that_were_left_behind_become_one(home: Path, container: Container) -> None:
    welcome(home, container)
    [first] = subscriptions(container)
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(webhooks).values(description="mine"))
    welcome(home, container, port=9002)
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(webhooks).values(description="Receiver page"))
        tx.execute(
            sa.insert(webhooks).values(
                {name: value for name, value in first._mapping.items() if name != "id"}
                | {"url": "https://example.com/hook"}
            )
        )
    welcome(home, container, port=9002)
    urls = [hook.url for hook in subscriptions(container)]
    assert [url.partition("/receiver")[0] for url in urls] == ["http://127.0.0.1:9002", "https://example.com/hook"]


def test_under_another_key_the_subscription_is_replaced(home: Path, container: Container) -> None:
    before = welcome(home, container)
    [old] = subscriptions(container)
    former = Encryptor.from_keys(KeyFile(home / "secret.key").read_keys())
    (home / "secret.key").write_text("00" * 32)
    after = welcome(home, container)
    assert after.receiver_url != before.receiver_url
    [hook] = subscriptions(container)
    assert (hook.id == old.id, hook.url) == (False, f"{after.receiver_url}/hook")
    assert decrypt_secret(Encryptor.from_keys([bytes(32)]), hook.id, bytes(hook.secret_sealed))
    with pytest.raises(DecryptionFailed):
        decrypt_secret(former, hook.id, bytes(hook.secret_sealed))


def test_events_stay_on_this_machine_whatever_its_public_address(home: Path, container: Container) -> None:
    shown = welcome(home, container, base_url="https://mail.example.com", host="0.0.0.0")
    assert shown.receiver_url.startswith("https://mail.example.com/receiver/")
    [hook] = subscriptions(container)
    assert hook.url.startswith("http://127.0.0.1:9001/receiver/")


def test_whoever_delivers_beside_the_server_finds_the_receiver(home: Path) -> None:
    home.mkdir(exist_ok=True)
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
