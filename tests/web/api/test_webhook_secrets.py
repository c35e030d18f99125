"""A secret that is changed: shown once, and for a day the one before signs too."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.notifications import webhooks
from quillpost.notifications.webhooks.service import decrypt_secret
from support.factories import Account, Clock, make_live, make_sub_account, make_teammate
from support.traces import traces
from support.webhook_log import subscribe


def rotate(account: Account, hook: int, **how: Any) -> Any:
    return account.post(f"/webhooks/{hook}/rotate-secret", **how)


def signing(container: Container, hook: int) -> tuple[str, str | None, Any]:
    """The secret, the one before it, and until when that signs too."""
    with container.db.system_transaction() as tx:
        row = tx.execute(sa.select(webhooks).where(webhooks.c.id == hook)).one()
    previous = row.previous_secret_sealed
    return (
        decrypt_secret(container.encryptor, hook, bytes(row.secret_sealed)),
        None if previous is None else decrypt_secret(container.encryptor, hook, bytes(previous)),
        row.previous_until,
    )


def test_a_new_secret_is_shown_once_and_the_old_one_signs_for_a_day(
    owner: Account, container: Container, clock: Clock
) -> None:
    made = owner.post("/webhooks", {"url": "https://example.com/hook", "type": "*"}).json()
    hook, first = made["id"], made["secret"]
    clock.advance(minutes=1)
    rotated = rotate(owner, hook)
    assert rotated.status_code == 200
    body = rotated.json()
    second = body.pop("secret")
    assert second.startswith("whsec_")
    assert second != first
    assert made["previous_secret_until"] is None
    assert body["previous_secret_until"] == "2026-05-05T12:01:00Z"
    assert body == owner.get(f"/webhooks/{hook}").json()
    assert rotated.headers["Cache-Control"] == "no-store"
    assert "x-holds-secret" not in rotated.headers
    assert second not in owner.get("/webhooks").text
    assert signing(container, hook) == (second, first, clock.now() + timedelta(hours=24))

    clock.advance(hours=1)
    third = rotate(owner, hook).json()["secret"]
    assert signing(container, hook) == (third, second, clock.now() + timedelta(hours=24))


@pytest.mark.usefixtures("clean_database")
def test_a_rotation_with_an_idempotency_key_is_made_once_and_its_secret_kept_sealed(
    owner: Account, container: Container
) -> None:
    hook = subscribe(owner)
    first, _, _ = signing(container, hook)
    answers = [rotate(owner, hook, headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    second = answers[0].json()["secret"]
    assert signing(container, hook)[:2] == (second, first)
    with container.db.system_transaction() as tx:
        [kept] = tx.execute(sa.text("select answer_body, sealed from idempotency_keys")).all()
    assert kept.sealed
    assert second.encode() not in bytes(kept.answer_body)


@pytest.mark.parametrize("status", ["failing", "paused", "disabled"])
def test_a_subscription_that_rests_can_have_a_new_secret_too(owner: Account, container: Container, status: str) -> None:
    hook = subscribe(owner)
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(webhooks).values(status=status))
    assert (rotate(owner, hook).status_code, rotate(owner, hook).json()["status"]) == (200, status)


def test_strangers_change_no_secret(owner: Account, stranger: Account, container: Container) -> None:
    hook = subscribe(owner)
    teammate = make_teammate(container, owner, make_sub_account(container, owner))
    before = traces(container)
    for account in (stranger, teammate, make_live(container, owner)):
        refused = rotate(account, hook)
        assert (refused.status_code, refused.text) == (404, '{"message":"Not Found"}')
    assert traces(container) == before
