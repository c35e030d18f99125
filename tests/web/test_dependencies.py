"""What is handed to a thread before an endpoint runs: each hand-over costs a call as much as two queries."""

from collections.abc import Iterator
from inspect import isasyncgenfunction, iscoroutinefunction

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

ASK_THE_DATABASE = {
    "web.sessions.find_user",
    "web.api.dependencies.get_transaction",
    "web.api.dependencies.get_service_transaction",
    "web.api.imports.endpoints._find_list",
    "web.dashboard.embed.pages.admit_guest",
    "web.public.leaked_tokens.endpoints.require_allowance",
    "web.public.webhooks.endpoints.require_carrier_token",
    "web.public.webhooks.endpoints.require_list_key",
}
READ_A_FILE = {"web.api.imports.endpoints._inspect_file"}


def find_blocking(dependant: Dependant) -> Iterator[str]:
    for dependency in dependant.dependencies:
        call = dependency.call
        if call is not None and not iscoroutinefunction(call) and not isasyncgenfunction(call):
            yield f"{call.__module__}.{call.__qualname__}".removeprefix("quillpost.")
        yield from find_blocking(dependency)


def test_only_what_asks_the_database_or_reads_a_file_is_handed_to_a_thread(app: FastAPI) -> None:
    routes = [route for route in app.routes if isinstance(route, APIRoute)]
    assert {name for route in routes for name in find_blocking(route.dependant)} == ASK_THE_DATABASE | READ_A_FILE
