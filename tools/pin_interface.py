"""Write down what users, clients and operators see, so that a change of it shows in a diff.

    python tools/pin_interface.py

It writes one file for each collector into `tests/interface/pinned`, where a test compares them with what the
code does. Nothing in them tells which module or name it comes from: code may move and be renamed freely. Run
it after a change that is meant to be seen, and look at the difference.
"""

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from pinned_print import print_files
from pinned_schema import schema
from pinned_words import page_words, sentences
from typer.main import get_group
from typer.testing import CliRunner

from quillpost.app.bootstrap import build_container
from quillpost.app.container import Container
from quillpost.app.runtime import upgrade_database
from quillpost.app.tasks import build_tasks
from quillpost.cli import app as command_line
from quillpost.cli import build_full_app
from quillpost.client.signatures import sign
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.settings import Settings
from quillpost.core.telemetry import REGISTRY
from quillpost.notifications.webhooks.payloads import build_sample_event
from quillpost.notifications.webhooks.rules import EVENT_TYPES, build_body, build_query
from quillpost.web.application import create_app

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
PINNED = ROOT / "tests" / "interface" / "pinned"

WIDTH = 100
"""Columns of the terminal that help is shown in."""
NAMED = re.compile(r"\{\w+")
STYLING = re.compile(r"\x1b\[[0-9;]*m")

AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
EVENT_ID = "00000000-0000-4000-8000-000000000001"
SECRET = "whsec_" + "A" * 32


@dataclass(frozen=True, slots=True)
class Service:
    """A whole service with its usual settings, over a new database."""

    container: Container
    conninfo: str
    app: FastAPI


def openapi(service: Service) -> str:
    """The API's description, with its keys sorted."""
    return as_json(service.app.openapi(), sort_keys=True)


def routes(service: Service) -> str:
    """Every address that is answered, those of pages and hooks as well, with its methods. What its parts are
    called is the code's own affair; where clients see it, it is in the API's description."""
    return "".join(f"{line}\n" for line in sorted(set(_routes(service.app.routes))))


def _routes(found: Sequence[Any], prefix: str = "") -> Iterator[str]:
    for route in found:
        path = prefix + getattr(route, "path", "")
        if inner := getattr(route, "routes", None):
            yield from _routes(inner, path)
        else:
            methods = " ".join(sorted(getattr(route, "methods", None) or ["*"]))
            yield f"{NAMED.sub('{', path)} {methods}"


def cli_help(_service: Service) -> str:
    """What `--help` shows of the program, of every group and of every command."""
    commands = [[], *_commands(get_group(build_full_app()).commands)]
    return "\n".join(f"$ quillpost {' '.join([*command, '--help'])}\n{_help(command)}" for command in commands)


def _commands(found: Mapping[str, Any], group: Sequence[str] = ()) -> Iterator[list[str]]:
    for name, command in sorted(found.items()):
        yield [*group, name]
        yield from _commands(getattr(command, "commands", {}), [*group, name])


def _help(command: Sequence[str]) -> str:
    wide = {"COLUMNS": str(WIDTH), "TERMINAL_WIDTH": str(WIDTH)}
    shown = CliRunner().invoke(command_line, [*command, "--help"], prog_name="quillpost", env=wide)
    if shown.exit_code != 0:
        raise RuntimeError(f"quillpost {' '.join(command)} --help ended with {shown.exit_code}.")
    return "\n".join(line.rstrip() for line in STYLING.sub("", shown.output).strip().splitlines()) + "\n"


def settings(_service: Service) -> str:
    """Every setting by the name that it has in the environment, with all that is known of it."""
    prefix = Settings.model_config["env_prefix"]
    known = Settings.model_json_schema()["properties"]
    return "\n".join(f"{prefix}{name.upper()}\n{_format_setting(known[name])}" for name in sorted(known))


def _format_setting(setting: Mapping[str, Any]) -> str:
    facts = {"default": "(none)", **setting}
    del facts["title"]
    return "".join(f"    {fact}: {json.dumps(facts[fact], ensure_ascii=False)}\n" for fact in sorted(facts))


def webhook_bodies(_service: Service) -> str:
    """The sample of each event: as a body, as the query of a GET, and what signs it."""
    found = {}
    for event_type in EVENT_TYPES:
        event = build_sample_event(event_type, EVENT_ID, sub_account_id=None, at=AT)
        body = build_body(event)
        headers = sign([SECRET], message_id=EVENT_ID, at=AT, body=body)
        found[event_type] = {"headers": headers, "body": json.loads(body), "query": build_query(event)}
    return as_json(found)


def operations(service: Service) -> str:
    """The jobs and the metrics, which operators watch by name."""
    jobs = [f"job {task.name}, queue {task.queue}, every {task.cron}" for task in build_tasks(service.container)]
    metrics = [f"metric {found.name}, {found.type}: {found.documentation}" for found in REGISTRY.collect()]
    return "".join(f"{line}\n" for line in sorted(jobs) + sorted(metrics))


def as_json(value: Any, *, sort_keys: bool = False) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=sort_keys) + "\n"


COLLECTORS: Mapping[str, Callable[[Service], str]] = {
    "cli_help.txt": cli_help,
    "openapi.json": openapi,
    "operations.txt": operations,
    "page_words.txt": lambda _: page_words(SOURCE),
    "print_files.txt": lambda service: print_files(service.container.renderer),
    "routes.txt": routes,
    "schema.sql": lambda service: schema(service.conninfo),
    "sentences.txt": lambda _: sentences(SOURCE),
    "settings.txt": settings,
    "webhook_bodies.json": webhook_bodies,
}
"""By the name of its file, what is pinned: each gives the same text wherever and whenever it is called."""


@contextmanager
def new_service() -> Iterator[Service]:
    """One of our own, in a folder that goes with it; what the environment sets is left out."""
    for name in [name for name in os.environ if name.startswith("QUILLPOST_")]:
        del os.environ[name]
    with tempfile.TemporaryDirectory(prefix="quillpost-pin-") as folder:
        home = Path(folder)
        home.chmod(0o755)  # the server's unprivileged user passes through it
        postgres = EmbeddedPostgres(home)
        postgres.start()
        try:
            upgrade_database(postgres.conninfo())
            container = build_container(Settings(home=home), postgres.conninfo())
            try:
                yield Service(container, postgres.conninfo(), create_app(container))
            finally:
                container.db.close()
        finally:
            postgres.stop()


def main() -> None:
    PINNED.mkdir(parents=True, exist_ok=True)
    for old in PINNED.iterdir():
        if old.name not in COLLECTORS:
            old.unlink()
    with new_service() as service:
        for name, collect in COLLECTORS.items():
            text = collect(service)
            (PINNED / name).write_text(text, "utf-8")
            print(f"{name}: {text.count(chr(10)):,} lines")


if __name__ == "__main__":
    main()
