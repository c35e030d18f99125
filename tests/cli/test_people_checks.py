"""What the doctor says of people who sign in, without naming any."""

from datetime import timedelta

import pytest
import sqlalchemy as sa
from signed_in import make_person

from makers import Account
from quillpost.app.container import Parts
from quillpost.cli.doctor.models import Finding
from quillpost.cli.doctor.operations import check_people, check_sign_in
from quillpost.core.database.tables.users import invitations
from quillpost.core.settings import Settings


@pytest.mark.parametrize(
    ("base_url", "verdict"),
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
def test_only_this_machine_may_be_signed_in_to_without_https(base_url: str | None, verdict: str) -> None:
    assert check_sign_in(Settings(base_url=base_url)).verdict == verdict


@pytest.mark.parametrize(("proxies", "verdict"), [("", "warning"), ("127.0.0.1", "ok")])
def test_behind_https_a_proxy_must_be_named(proxies: str, verdict: str) -> None:
    settings = Settings(base_url="https://mail.example.com", trusted_proxies=proxies)
    assert check_sign_in(settings).verdict == verdict


def seen(parts: Parts, **settings: str) -> Finding:
    with parts.db.work() as tx:
        return check_people(tx, Settings.model_validate(settings), now=parts.clock())


def invite(parts: Parts, account: Account, **columns: object) -> None:
    now = parts.clock()
    with parts.db.work() as tx:
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


def test_an_account_without_people_is_told_and_no_complaint(parts: Parts, owner: Account) -> None:
    found = seen(parts)
    assert (found.verdict, "1 of 1 accounts have nobody" in found.what) == ("ok", True)


def test_how_many_sign_in_is_told_in_words(parts: Parts, owner: Account) -> None:
    for email, what in (("dana@example.com", "1 person signs in"), ("lee@example.com", "2 people sign in")):
        make_person(parts, owner.id, email)
        assert seen(parts).what == what


def test_invitations_that_no_mail_server_brings_are_a_warning(parts: Parts, owner: Account) -> None:
    invite(parts, owner)
    found = seen(parts)
    assert (found.verdict, "1 invitation cannot be brought" in found.what) == ("warning", True)
    assert "dana" not in found.what + found.advice
    assert seen(parts, smtp="smtp://user@mail.example.com").verdict == "ok"


def test_invitations_that_are_over_wait_no_more(parts: Parts, owner: Account) -> None:
    invite(parts, owner, expires_at=parts.clock())
    invite(parts, owner, revoked_at=parts.clock(), digest=b"2")
    assert seen(parts).verdict == "ok"
