"""Documentation that fails the build: whatever an operator, an integrator or a sender can meet is written down."""

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import jsonschema_rs
import pytest
import typer
from fastapi.routing import APIRoute

from quillpost.accounts.audit.service import ACTION_LABELS
from quillpost.accounts.models import Role
from quillpost.accounts.rate_limits.service import get_email_buckets, get_network_buckets
from quillpost.accounts.tokens.rules import OWNER_ONLY_SCOPES, SCOPES
from quillpost.accounts.users import invitations, passwords, second_factor, sessions
from quillpost.accounts.users import sign_in as user_sign_in
from quillpost.accounts.users.rules import MAX_PASSWORD_LENGTH, MIN_PASSWORD_LENGTH
from quillpost.app import tasks as app_tasks
from quillpost.app.container import Container
from quillpost.cli import build_full_app
from quillpost.core.settings import Settings
from quillpost.core.tokens import SecretKind
from quillpost.fulfillment.qr_scans.rules import BROWSER_PREFIXES, classify_visitor
from quillpost.notifications.webhooks import rules as webhook_rules
from quillpost.notifications.webhooks.payloads import build_sample_event
from quillpost.notifications.webhooks.rules import EVENT_TYPES
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.rendering.text.variables import VARIABLE_NAMES
from quillpost.web import api, security
from quillpost.web.api.errors import DEFAULT_MESSAGES, STATUS_BY_ERROR
from quillpost.web.api.openapi import build_description
from quillpost.web.dashboard import routes as index
from quillpost.web.dashboard import sign_in
from quillpost.web.dashboard.settings.users import pages as user_pages
from support.test_client import TestClient

DOCS = Path(__file__).parents[2] / "docs"
OPERATE, API, TRAVELS, START, SENDERS, PEOPLE, OAUTH, README = (
    (DOCS / f"{name}.md").read_text()
    for name in ("operate", "api", "how-an-order-travels", "start", "dashboard", "people", "oauth", "../README")
)


def commands_of(app: typer.Typer, prefix: str = "quillpost") -> list[str]:
    found = [
        f"{prefix} {command.name or command.callback.__name__}"  # type: ignore[union-attr]
        for command in app.registered_commands
    ]
    for group in app.registered_groups:
        assert group.typer_instance is not None
        found += commands_of(group.typer_instance, f"{prefix} {group.name}")
    return found


DOCUMENTED: dict[str, tuple[str, Iterable[str]]] = {
    "commands": (OPERATE, (f"`{command}`" for command in commands_of(build_full_app()))),
    "events": (API, (f"| `{event}` |" for event in EVENT_TYPES)),
    "variables": (API, (f"`%{name}%`" for name in VARIABLE_NAMES if not name.startswith("CUSTOM"))),
    "statuses": (TRAVELS, (f"| {status} |" for status in (*OrderStatus, *ItemStatus))),
    "scopes": (API, (f"`{scope.split(':')[0]}`" for scope in SCOPES)),
    "errors": (API, (f"\n| {status} | " for status in {*STATUS_BY_ERROR.values(), *DEFAULT_MESSAGES, 500})),
    "acts of the audit log": (PEOPLE, (f"| `{act}` | {words} |" for act, words in ACTION_LABELS.items())),
    "secrets, for scanners": (OAUTH, (f"`qp_{kind}_`" for kind in get_args(SecretKind))),
    "agents taken for browsers": (API, (f"`{start.title()}`" for start in BROWSER_PREFIXES)),
    "cookies": (OPERATE, [f"| `{security.ZONE_COOKIE}` | 365 days |"]),
    "the page about pages": (README, ["](docs/dashboard.md)"]),
    "the page about embedding": (SENDERS, ["](embed.md)"]),
}


def test_what_one_can_meet_is_documented() -> None:
    for text, named in DOCUMENTED.values():
        names = list(named)
        assert [name for name in names if name not in text] == []
        assert names
    table = PEOPLE.partition("| act |")[2]
    assert set(re.findall(r"^\| `([a-z_.]+)` \|", table, re.MULTILINE)) == set(ACTION_LABELS)


def test_settings_are_documented_with_their_meaning_and_no_others_are() -> None:
    rows = dict(re.findall(r"^\| `QUILLPOST_([A-Z0-9_]+)` (\|.*)", OPERATE, re.MULTILINE))
    assert rows.keys() == {name.upper() for name in Settings.model_fields}
    fields = Settings.model_fields.items()
    assert [name for name, field in fields if (field.description or "\n") not in rows[name.upper()]] == []


def test_every_task_is_documented(container: Container) -> None:
    assert [task.name for task in app_tasks.build_tasks(container) if f"`{task.name}`" not in OPERATE] == []


def test_a_scan_tried_as_the_page_says_counts_and_one_with_curls_own_name_does_not() -> None:
    [agent] = re.findall(r'-A "(.+)"', START)
    assert (classify_visitor(agent, {}), classify_visitor("curl/8.5.0", {})) == ("person", "bot")
    paths = DRAWN["paths"]
    assert {f"/api/v2/orders/{{order_id}}/{name}" for name in re.findall(r"orders/1/(\w+)", START)} <= paths.keys()


def test_links_between_the_pages_lead_somewhere() -> None:
    pages = [*DOCS.rglob("*.md"), DOCS.parent / "README.md", DOCS.parent / "CHANGELOG.md"]
    assert [
        (page.name, target)
        for page in pages
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ] == []


# Pages


FORMS = ("/new", "/invite", "/files")
"""Where a page of these leads is told of with it."""

SIGN_IN_PAGES = ("/sign-in", "/sign-out", "/forgot", "/reset", "/join", "/settings", "/session", "/oauth", "/tokens")
"""Where whoever signs in, or connects an app, comes by."""


def test_pages_are_documented_senders_in_one_place_and_the_print_rooms_in_another() -> None:
    """Those that need no number, and are no file."""
    routes = [route for router in index.ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    paths = {route.path for route in routes if "GET" in (route.methods or ())}
    pages = {path for path in paths if not re.search(r"[{.]", path) and not path.endswith(FORMS)}
    of_sign_in = {route.path for router in sign_in.ROUTERS for route in router.routes if isinstance(route, APIRoute)}

    def documented(text: str) -> set[str]:
        cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("|")]
        return {path for cell in cells for path in re.findall(r"`(/[^`]*)`", cell)}

    of_operators = {path for path in pages if path.startswith("/print-room")}
    assert sorted(of_operators - documented(OPERATE)) == []
    assert sorted((pages & of_sign_in) - documented(PEOPLE)) == []
    assert sorted(pages - of_sign_in - of_operators - documented(SENDERS)) == []
    assert documented(SENDERS) <= pages
    assert {path for path in documented(OPERATE) if path.startswith("/print-room")} <= pages


def test_every_page_around_the_sign_in_is_documented(http: TestClient) -> None:
    """What lies under a page (its forms, and the pages of single things) belongs to that page."""
    app: Any = http.app
    paths = {route.path for route in app.routes if getattr(route, "path", "").startswith(SIGN_IN_PAGES)}
    named = {path for path in paths if f"`{path}`" in PEOPLE or f" {path}` |" in OAUTH}
    under = {path for path in paths if any(path.startswith((f"{page}/", f"{page}.")) for page in named)}
    assert sorted(paths - named - under) == []
    assert len(named) >= 18


# People and their numbers


def test_every_role_is_a_column_and_what_is_for_owners_only_says_so() -> None:
    header = next(line for line in PEOPLE.splitlines() if line.startswith("| may |"))
    assert [role for role in get_args(Role) if f" {role} " not in header] == []
    assert set(get_args(Role)) <= set(user_pages.ROLE_DESCRIPTIONS)
    rows = {scope: line for line in PEOPLE.splitlines() for scope in OWNER_ONLY_SCOPES if f"(`{scope}`)" in line}
    assert rows.keys() == OWNER_ONLY_SCOPES
    assert [scope for scope, row in rows.items() if not row.endswith("| yes | no | no |")] == []


def spelled(lasts: timedelta) -> str:
    """As the pages write it."""
    minutes = int(lasts.total_seconds() // 60)
    if minutes % 1440 == 0:
        return f"{minutes // 1440} days"
    return "an hour" if minutes == 60 else f"{minutes} minutes" if minutes else f"{lasts.seconds} seconds"


NUMBERS_OF_PEOPLE = [
    f"good once and for {spelled(invitations.INVITATION_LIFETIME)}",
    f"{invitations.MAX_PENDING} may wait in one account, and {invitations.MAX_EMAILS_PER_DAY} are mailed a day at most",
    f"good once, for {spelled(passwords.LINK_LIFETIME)}",
    f"A session lasts {spelled(sessions.SESSION_LIFETIME)}, and ends after {sessions.IDLE_TIMEOUT.days}"
    " without a visit",
    f"a token of {spelled(sessions.PAGE_TOKEN_LIFETIME)} that ends with the session",
    f"the last {spelled(sessions.CONFIRMATION_LIFETIME)}",
    f"{second_factor.RECOVERY_CODE_COUNT} recovery codes",
    f"{MIN_PASSWORD_LENGTH} to {MAX_PASSWORD_LENGTH:,} characters",
    "Five wrong codes" if user_sign_in.MAX_WRONG_CODES == 5 else "another number",
    f"{get_email_buckets('x')[0].limit} in 15 minutes and {get_email_buckets('x')[1].limit} a day",
    f"{get_network_buckets('192.0.2.1')[0].limit} failed ones an hour",
]
NUMBERS_OF_COOKIES = [
    f"| `{security.SESSION}` | {spelled(sessions.SESSION_LIFETIME)} |",
    f"| `{security.VISITOR}` | until the browser is closed |",
    f"| `{security.KNOWN_BROWSER}` | {spelled(user_sign_in.BROWSER_TOKEN_LIFETIME)} |",
]


@pytest.mark.parametrize(("page", "facts"), [(PEOPLE, NUMBERS_OF_PEOPLE), (OPERATE, NUMBERS_OF_COOKIES)])
def test_every_number_is_the_real_one(page: str, facts: list[str]) -> None:
    on_one_line = " ".join(page.split())
    assert [fact for fact in facts if fact not in on_one_line] == []


# The keys of events: the page, the description for programs and the events themselves say the same


DRAWN = build_description(api.routes)
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
RANGE = re.compile(r"`(\S+_)(\d+)` to `\S+_(\d+)`")


def documented(event_type: str) -> dict[str, str]:
    """Each key of the page's table for this event, with its type."""
    kind = "orders" if event_type == webhook_rules.ORDER_STATUS_EVENT else "pieces and scans"
    _, _, after = API.partition(f"**`data` of events of {kind}**")
    rows = re.findall(r"^\| (`.*`) \| ([^|]+) \|", after.partition("\n**")[0], re.MULTILINE)
    return {key: kind for names, kind in rows for key in re.findall(r"`(\S+)`", RANGE.sub(_whole, names))}


def _whole(written: re.Match[str]) -> str:
    return ", ".join(f"`{written[1]}{n}`" for n in range(int(written[2]), int(written[3]) + 1))


def described(event_type: str) -> dict[str, Any]:
    content = DRAWN["webhooks"][event_type]["post"]["requestBody"]["content"]["application/json"]
    found: dict[str, Any] = DRAWN["components"]["schemas"][content["schema"]["$ref"].rpartition("/")[2]]
    return found


def kinds(schema: dict[str, Any]) -> str:
    names = (f"{each['type']}{' (URI)' if 'format' in each else ''}" for each in schema.get("anyOf", [schema]))
    return " or ".join(names)


@pytest.mark.parametrize("event_type", webhook_rules.EVENT_TYPES)
def test_an_event_is_as_the_page_and_the_description_have_it_with_nothing_missing_or_added(event_type: str) -> None:
    event, of_the_account = (
        build_sample_event(event_type, "0e4b6f0a-6c3f-4d4e-9a5e-2f1d7c1c9b7a", sub_account_id=sub_account_id, at=NOON)
        for sub_account_id in (7, None)
    )
    data = described(event_type)["properties"]["data"]
    assert documented(event_type) == {key: kinds(schema) for key, schema in data["properties"].items()}
    assert documented(event_type).keys() == webhook_rules.build_data(event).keys()

    schema = jsonschema_rs.validator_for(described(event_type))
    message = json.loads(webhook_rules.build_body(event))
    assert schema.is_valid(message)
    assert schema.is_valid(json.loads(webhook_rules.build_body(of_the_account)))
    assert not schema.is_valid(message | {"more": 1})
    assert not schema.is_valid(message | {"data": message["data"] | {"more": 1}})
    for key in message["data"]:
        less = {name: value for name, value in message["data"].items() if name != key}
        assert not schema.is_valid(message | {"data": less})


def test_every_event_and_no_other_is_a_webhook_of_the_description() -> None:
    assert [*DRAWN["webhooks"]] == [*webhook_rules.EVENT_TYPES]
    assert DRAWN["openapi"].startswith("3.1.")
