"""Documentation that fails the build: whatever an operator or integrator can meet is written down."""

import re
from pathlib import Path

import pytest
import typer

from quillpost.accounts.tokens.rules import SCOPES
from quillpost.app import tasks as app_tasks
from quillpost.app.container import Container
from quillpost.cli import build_full_app
from quillpost.core.jobs import Task
from quillpost.core.settings import Settings
from quillpost.fulfillment.qr_scans.rules import BROWSER_PREFIXES, classify_visitor
from quillpost.notifications.webhooks.rules import EVENT_TYPES
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.rendering.text.variables import VARIABLE_NAMES
from quillpost.web import api
from quillpost.web.api.errors import DEFAULT_MESSAGES, STATUS_BY_ERROR
from quillpost.web.api.openapi import build_description

DOCS = Path(__file__).parents[2] / "docs"
OPERATE, API, TRAVELS, START = (
    (DOCS / f"{name}.md").read_text() for name in ("operate", "api", "how-an-order-travels", "start")
)


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_documented_with_its_meaning(name: str) -> None:
    row = next((line for line in OPERATE.splitlines() if f"`QUILLPOST_{name.upper()}` |" in line), None)
    assert row is not None
    meaning = Settings.model_fields[name].description
    assert meaning is not None
    assert meaning in row


def test_no_setting_is_documented_that_does_not_exist() -> None:
    named = set(re.findall(r"^\| `QUILLPOST_([A-Z0-9_]+)`", OPERATE, re.MULTILINE))
    assert named == {name.upper() for name in Settings.model_fields}


def _commands(app: typer.Typer, prefix: str = "quillpost") -> list[str]:
    found = [
        f"{prefix} {command.name or command.callback.__name__}"  # type: ignore[union-attr]
        for command in app.registered_commands
    ]
    for group in app.registered_groups:
        assert group.typer_instance is not None
        found += _commands(group.typer_instance, f"{prefix} {group.name}")
    return found


@pytest.mark.parametrize("command", _commands(build_full_app()))
def test_every_command_is_documented(command: str) -> None:
    assert f"`{command}`" in OPERATE


@pytest.mark.parametrize("status", sorted({*STATUS_BY_ERROR.values(), *DEFAULT_MESSAGES, 500}))
def test_every_error_is_documented(status: int) -> None:
    assert re.search(rf"^\| {status} \| ", API, re.MULTILINE)


@pytest.mark.parametrize("event", EVENT_TYPES)
def test_every_event_is_documented(event: str) -> None:
    assert f"| `{event}` |" in API


@pytest.mark.parametrize("variable", [name for name in VARIABLE_NAMES if not name.startswith("CUSTOM")])
def test_every_variable_is_documented(variable: str) -> None:
    assert f"`%{variable}%`" in API


@pytest.mark.parametrize("status", [*OrderStatus, *ItemStatus])
def test_every_status_is_documented(status: str) -> None:
    assert f"| {status} |" in TRAVELS


@pytest.mark.parametrize("scope", sorted({scope.split(":")[0] for scope in SCOPES}))
def test_every_scope_is_documented(scope: str) -> None:
    assert f"`{scope}`" in API


def test_a_scan_tried_as_the_page_says_counts_and_one_with_curls_own_name_does_not() -> None:
    [agent] = re.findall(r'-A "(.+)"', START)
    assert (classify_visitor(agent, {}), classify_visitor("curl/8.5.0", {})) == ("person", "bot")
    assert all(f"`{start.title()}`" in API for start in BROWSER_PREFIXES)
    paths = build_description(api.routes)["paths"]
    assert {f"/api/v2/orders/{{order_id}}/{name}" for name in re.findall(r"orders/1/(\w+)", START)} <= paths.keys()


def test_every_task_is_documented(container: Container) -> None:
    tasks: list[Task] = app_tasks.build_tasks(container)
    assert [task.name for task in tasks if f"`{task.name}`" not in OPERATE] == []


def test_links_between_the_pages_lead_somewhere() -> None:
    pages = [*DOCS.rglob("*.md"), DOCS.parent / "README.md", DOCS.parent / "CHANGELOG.md"]
    broken = [
        (page.name, target)
        for page in pages
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []
