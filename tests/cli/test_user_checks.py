"""What the doctor says of people who sign in, without naming any."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.cli.doctor.installation import DoctorFinding, check_sign_in
from quillpost.cli.doctor.operations import check_users
from quillpost.core.database.tables.accounts import invitations
from quillpost.core.settings import Settings
from support.browser_sessions import make_user
from support.factories import Account


@pytest.mark.parametrize(
    ("base_url", "status"),
    [
        (None, "ok"),
        ("http://localhost:8025", "ok"),
        ("http://127.0.0.1:8025/", "ok"),
        ("http://[::1]:8025", "ok"),
        ("http://mail.example.com", "warning"),
        ("http://10.0.0.7:8025", "warning"),
        ("http://localhost.example.com", "warning"),
    ],
)
def test_only_this_machine_may_be_signed_in_to_without_https(base_url: str | None, status: str) -> None:
    assert check_sign_in(Settings(base_url=base_url)).status == status


@pytest.mark.parametrize(("proxies", "status"), [("", "warning"), ("127.0.0.1", "ok")])
def test_behind_https_a_proxy_must_be_named(proxies: str, status: str) -> None:
    settings = Settings(base_url="https://mail.example.com", trusted_proxies=proxies)
    assert check_sign_in(settings).status == status


def seen(container: Container, **settings: str) -> DoctorFinding:
    with container.db.system_transaction() as tx:
        return check_users(tx, Settings.model_validate(settings), now=container.clock())


def invite(container: Container, account: Account, **columns: object) -> None:
    now = container.clock()
    with container.db.system_transaction() as tx:
        tx.execute(
            sa.insert(invitations).values(
                {
                    "account_id": account.id,
                    "email": "dana@example.com",
                    "role": "member",
                    "digest": b"1",
                    "created_at": now,
                    "expires_at": now + timedelta(days=7),
                }
                | columns
            )
        )


def test_an_account_without_users_is_reported_and_no_problem(container: Container, owner: Account) -> None:
    found = seen(container)
    assert (found.status, "1 of 1 accounts have nobody" in found.message) == ("ok", True)


def test_the_number_of_users_is_reported_in_words(container: Container, owner: Account) -> None:
    for email, what in (("dana@example.com", "1 person signs in"), ("lee@example.com", "2 people sign in")):
        make_user(container, owner.id, email)
        assert seen(container).message == what


def test_invitations_that_no_mail_server_brings_are_a_warning(container: Container, owner: Account) -> None:
    invite(container, owner)
    found = seen(container)
    assert (found.status, "1 invitation cannot be brought" in found.message) == ("warning", True)
    assert "dana" not in found.message + found.advice
    assert seen(container, smtp="smtp://user@mail.example.com").status == "ok"


def test_invitations_that_are_over_wait_no_more(container: Container, owner: Account) -> None:
    invite(container, owner, expires_at=container.clock())
    invite(container, owner, revoked_at=container.clock(), digest=b"2")
    assert seen(container).status == "ok"
