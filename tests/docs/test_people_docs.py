"""Whatever somebody who signs in can meet, and whatever is noted of it, is written down, with its numbers."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

from quillpost.accounts.audit.service import ACTION_LABELS
from quillpost.accounts.models import Role
from quillpost.accounts.rate_limits.service import get_email_buckets, get_network_buckets
from quillpost.accounts.tokens.rules import OWNER_ONLY_SCOPES
from quillpost.accounts.users import invitations, passwords, second_factor, sessions, sign_in
from quillpost.accounts.users.rules import MAX_PASSWORD_LENGTH, MIN_PASSWORD_LENGTH
from quillpost.accounts.users.sign_in import BROWSER_TOKEN_LIFETIME
from quillpost.core.tokens import SecretKind
from quillpost.web.dashboard.settings.users import pages as user_pages
from quillpost.web.security import KNOWN_BROWSER, SESSION, VISITOR
from support.test_client import TestClient

ROOT = Path(__file__).parents[2]
PEOPLE, OAUTH, OPERATE = ((ROOT / "docs" / f"{name}.md").read_text() for name in ("people", "oauth", "operate"))

PAGES = ("/sign-in", "/sign-out", "/forgot", "/reset", "/join", "/settings", "/session", "/oauth", "/tokens")
"""Where whoever signs in, or connects an app, comes by."""


def spelled(lasts: timedelta) -> str:
    """As the pages write it."""
    minutes = int(lasts.total_seconds() // 60)
    if minutes % 1440 == 0:
        return f"{minutes // 1440} days"
    return "an hour" if minutes == 60 else f"{minutes} minutes" if minutes else f"{lasts.seconds} seconds"


@pytest.mark.parametrize(("act", "words"), ACTION_LABELS.items())
def test_every_act_of_the_audit_log_is_documented(act: str, words: str) -> None:
    assert f"| `{act}` | {words} |" in PEOPLE


def test_no_act_is_documented_that_is_not_noted() -> None:
    table = PEOPLE.partition("| act |")[2]
    assert set(re.findall(r"^\| `([a-z_.]+)` \|", table, re.MULTILINE)) == set(ACTION_LABELS)


@pytest.mark.parametrize("role", get_args(Role))
def test_every_role_is_a_column(role: str) -> None:
    header = next(line for line in PEOPLE.splitlines() if line.startswith("| may |"))
    assert f" {role} " in header
    assert role in user_pages.ROLE_DESCRIPTIONS


@pytest.mark.parametrize("scope", sorted(OWNER_ONLY_SCOPES))
def test_owner_only_scopes_are_documented(scope: str) -> None:
    row = next(line for line in PEOPLE.splitlines() if f"(`{scope}`)" in line)
    assert row.endswith("| yes | no | no |")


def test_every_page_is_documented(http: TestClient) -> None:
    """What lies under a page (its forms, and the pages of single things) belongs to that page."""
    app: Any = http.app
    paths = {route.path for route in app.routes if getattr(route, "path", "").startswith(PAGES)}
    named = {path for path in paths if f"`{path}`" in PEOPLE or f" {path}` |" in OAUTH}
    under = {path for path in paths if any(path.startswith((f"{page}/", f"{page}.")) for page in named)}
    assert sorted(paths - named - under) == []
    assert len(named) >= 18


@pytest.mark.parametrize(
    ("page", "fact"),
    [
        (PEOPLE, f"good once and for {spelled(invitations.INVITATION_LIFETIME)}"),
        (
            PEOPLE,
            f"{invitations.MAX_PENDING} may wait in one account,"
            f" and {invitations.MAX_EMAILS_PER_DAY} are mailed a day at most",
        ),
        (PEOPLE, f"good once, for {spelled(passwords.LINK_LIFETIME)}"),
        (
            PEOPLE,
            f"A session lasts {spelled(sessions.SESSION_LIFETIME)}, and ends after {sessions.IDLE_TIMEOUT.days} "
            "without a visit",
        ),
        (PEOPLE, f"a token of {spelled(sessions.PAGE_TOKEN_LIFETIME)} that ends with the session"),
        (PEOPLE, f"the last {spelled(sessions.CONFIRMATION_LIFETIME)}"),
        (PEOPLE, f"{second_factor.RECOVERY_CODE_COUNT} recovery codes"),
        (PEOPLE, f"{MIN_PASSWORD_LENGTH} to {MAX_PASSWORD_LENGTH:,} characters"),
        (PEOPLE, "Five wrong codes" if sign_in.MAX_WRONG_CODES == 5 else "another number"),
        (PEOPLE, f"{get_email_buckets('x')[0].limit} in 15 minutes and {get_email_buckets('x')[1].limit} a day"),
        (PEOPLE, f"{get_network_buckets('192.0.2.1')[0].limit} failed ones an hour"),
        (OPERATE, f"| `{SESSION}` | {spelled(sessions.SESSION_LIFETIME)} |"),
        (OPERATE, f"| `{VISITOR}` | until the browser is closed |"),
        (OPERATE, f"| `{KNOWN_BROWSER}` | {spelled(BROWSER_TOKEN_LIFETIME)} |"),
    ],
)
def test_every_number_is_the_real_one(page: str, fact: str) -> None:
    assert " ".join(fact.split()) in " ".join(page.split())


@pytest.mark.parametrize("kind", get_args(SecretKind))
def test_every_kind_of_secret_is_documented_for_scanners(kind: str) -> None:
    assert f"`qp_{kind}_`" in OAUTH
