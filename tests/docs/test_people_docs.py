"""Whatever somebody who signs in can meet, and whatever is noted of it, is written down, with its numbers."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

from direct import TestClient
from quillpost.accounts.audit.service import ACTS
from quillpost.accounts.models import OWNERS_ALONE, Role
from quillpost.accounts.users import invitations, password_resets, passwords, second_factor, sessions, sign_in
from quillpost.accounts.users import queries as user_queries
from quillpost.accounts.users.rate_limits import of_email, of_network
from quillpost.core.tokens import Kind
from quillpost.web.cookies import KNOWN, SESSION, VISITOR
from quillpost.web.dashboard.settings import users

ROOT = Path(__file__).parents[2]
PEOPLE, OAUTH, OPERATE = (
    (ROOT / "docs" / f"{name}.md").read_text() for name in ("people", "oauth", "operate")
)

PAGES = ("/sign-in", "/sign-out", "/forgot", "/reset", "/join", "/settings", "/session", "/oauth", "/tokens")
"""Where whoever signs in, or connects an app, comes by."""


def spelled(lasts: timedelta) -> str:
    """As the pages write it."""
    minutes = int(lasts.total_seconds() // 60)
    if minutes % 1440 == 0:
        return f"{minutes // 1440} days"
    return "an hour" if minutes == 60 else f"{minutes} minutes" if minutes else f"{lasts.seconds} seconds"


@pytest.mark.parametrize(("act", "words"), ACTS.items())
def test_every_act_of_the_audit_log_is_documented(act: str, words: str) -> None:
    assert f"| `{act}` | {words} |" in PEOPLE


def test_no_act_is_documented_that_is_not_noted() -> None:
    table = PEOPLE.partition("| act |")[2]
    assert set(re.findall(r"^\| `([a-z_.]+)` \|", table, re.MULTILINE)) == set(ACTS)


@pytest.mark.parametrize("role", get_args(Role))
def test_every_role_is_a_column(role: str) -> None:
    header = next(line for line in PEOPLE.splitlines() if line.startswith("| may |"))
    assert f" {role} " in header
    assert role in users.ROLES


@pytest.mark.parametrize("scope", sorted(OWNERS_ALONE))
def test_what_only_owners_may_do_is_said(scope: str) -> None:
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
        (PEOPLE, f"good once and for {spelled(invitations.LASTS)}"),
        (
            PEOPLE,
            f"{invitations.MOST_WAITING} may wait in one account,"
            f" and {invitations.MOST_A_DAY} are mailed a day at most",
        ),
        (PEOPLE, f"good once, for {spelled(password_resets.LINK_LASTS)}"),
        (
            PEOPLE,
            f"A session lasts {spelled(sessions.LASTS)}, and ends after {sessions.IDLE.days} without a visit",
        ),
        (PEOPLE, f"a token of {spelled(sessions.PAGE_TOKEN_LASTS)} that ends with the session"),
        (PEOPLE, f"the last {spelled(sessions.CONFIRMED_FOR)}"),
        (PEOPLE, f"{second_factor.RECOVERY_CODES} recovery codes"),
        (PEOPLE, f"{passwords.SHORTEST} to {passwords.LONGEST:,} characters"),
        (PEOPLE, "Five wrong codes" if sign_in.MOST_CODES == 5 else "another number"),
        (PEOPLE, f"{of_email('x')[0].most} in 15 minutes and {of_email('x')[1].most} a day"),
        (PEOPLE, f"{of_network('192.0.2.1')[0].most} failed ones an hour"),
        (OPERATE, f"| `{SESSION}` | {spelled(sessions.LASTS)} |"),
        (OPERATE, f"| `{VISITOR}` | until the browser is closed |"),
        (OPERATE, f"| `{KNOWN}` | {spelled(user_queries.LASTS)} |"),
    ],
)
def test_every_number_is_the_real_one(page: str, fact: str) -> None:
    assert " ".join(fact.split()) in " ".join(page.split())


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_kind_of_secret_is_documented_for_scanners(kind: str) -> None:
    assert f"`qp_{kind}_`" in OAUTH
