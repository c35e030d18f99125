"""The API's description of itself, at /openapi.json and, with a token, at /api/v2/openapi.json."""

import copy
import json
import re
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Response
from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute

from quillpost.api.answers import answer
from quillpost.api.docs import SHAPES
from quillpost.api.examples import restore_nulls
from quillpost.api.links import add_links
from quillpost.api.told import add_events

ABOUT = """Printed direct mail on demand: this message, in this handwriting, on this piece, to these people.

Every call carries `Authorization: Bearer <token>`. Failures have one shape: `{"message": "..."}`, and
validation adds `errors` with every fault under the dotted path of its field. `Idempotency-Key` on a POST
makes it safe to repeat. Every answer carries `X-Request-Id`, `X-RateLimit-Limit` and
`X-RateLimit-Remaining`. HEAD answers wherever GET does, and OPTIONS names the methods of a path.

Outside of `/api/v2`, and without a token: `POST /hooks/lists/{api_key}` puts people on the list that has this
`api_key`. It takes one or many, as JSON or a form, by the names that CRMs, shops and other tools use, and
answers `[{"id": 41, "mailing_list_id": 12, "email": "jane@example.com", "result": "added", "ignored": []}]`.
`result` is `added`, `changed`, `unchanged` or, with an `error`, `refused`. An unknown key is 404."""

REFERENCE = re.compile(r'"#/components/schemas/([^"]+)"')


def describe(app: FastAPI) -> None:
    """Serve the description; it is drawn up once."""
    drawn: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not drawn:
            drawn.update(draw(app.routes))
        return drawn

    app.openapi = openapi  # type: ignore[method-assign]

    def show() -> Response:
        return answer(app.openapi())

    for path in ("/openapi.json", "/api/v2/openapi.json"):
        app.add_api_route(path, show, include_in_schema=False)


def draw(routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """The description of these routes. It needs nothing that runs."""
    drawn: dict[str, Any] = get_openapi(
        title="Quillpost API", version="1.0.0", description=ABOUT, routes=routes
    )
    components = drawn.setdefault("components", {})
    components.setdefault("schemas", {}).update(copy.deepcopy(SHAPES))
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    drawn["security"] = [{"token": []}]
    _remove_foreign_failures(drawn)
    add_events(drawn)
    _remove_leftovers(drawn)
    _allow_blanks(drawn)
    drawn = _with_whole_numbers(drawn)
    restore_nulls(drawn)
    add_links(drawn)
    return drawn


def _remove_foreign_failures(drawn: dict[str, Any]) -> None:
    """The framework adds a 422 of its own shape wherever we declare none; those calls have none."""
    for item in drawn["paths"].values():
        for operation in item.values():
            if "HTTPValidationError" in str(operation["responses"].get("422", "")):
                del operation["responses"]["422"]


def _allow_blanks(drawn: dict[str, Any]) -> None:
    """What may be left out of a query may be left blank as well, unless it is an object."""
    for item in drawn["paths"].values():
        for operation in item.values():
            for parameter in operation.get("parameters", ()):
                is_object = parameter["schema"].get("type") == "object"
                if parameter["in"] == "query" and not parameter["required"] and not is_object:
                    parameter["allowEmptyValue"] = True


def _with_whole_numbers(drawn: Any) -> Any:
    """The framework writes the bounds of integers in floating point, where large ones are read inexactly."""
    if isinstance(drawn, dict):
        return {name: _with_whole_numbers(value) for name, value in drawn.items()}
    if isinstance(drawn, list):
        return [_with_whole_numbers(value) for value in drawn]
    return int(drawn) if isinstance(drawn, float) and drawn.is_integer() else drawn


def _remove_leftovers(drawn: dict[str, Any]) -> None:
    """Schemas of the framework's making that nothing shows, and then those that only they showed."""
    schemas = drawn["components"]["schemas"]
    while leftovers := schemas.keys() - set(REFERENCE.findall(json.dumps(drawn))):
        for name in leftovers:
            del schemas[name]
