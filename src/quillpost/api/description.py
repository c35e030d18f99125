"""The API's description of itself, at /openapi.json and, with a token, at /api/v2/openapi.json."""

from typing import Any

from fastapi import FastAPI, Response
from fastapi.openapi.utils import get_openapi

from quillpost.api.answers import answer

ABOUT = """Printed direct mail on demand: this message, in this handwriting, on this piece, to these people.

Every call carries `Authorization: Bearer <token>`. Failures have one shape: `{"message": "..."}`, and
validation adds `errors` with every fault under the dotted path of its field. `Idempotency-Key` on a POST
makes it safe to repeat. Every answer carries `X-Request-Id`, `X-RateLimit-Limit` and
`X-RateLimit-Remaining`."""


def describe(app: FastAPI) -> None:
    """Serve the description; it is drawn up once."""
    drawn: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not drawn:
            drawn.update(_draw(app))
        return drawn

    app.openapi = openapi  # type: ignore[method-assign]

    def show() -> Response:
        return answer(app.openapi())

    for path in ("/openapi.json", "/api/v2/openapi.json"):
        app.add_api_route(path, show, include_in_schema=False)


def _draw(app: FastAPI) -> dict[str, Any]:
    drawn = get_openapi(title="Quillpost API", version="1.0.0", description=ABOUT, routes=app.routes)
    schemes = drawn.setdefault("components", {}).setdefault("securitySchemes", {})
    schemes["token"] = {"type": "http", "scheme": "bearer"}
    drawn["security"] = [{"token": []}]
    _remove_foreign_failures(drawn)
    return drawn


def _remove_foreign_failures(drawn: dict[str, Any]) -> None:
    """The framework adds a 422 of its own shape wherever we declare none; those calls have none."""
    for item in drawn["paths"].values():
        for operation in item.values():
            if "HTTPValidationError" in str(operation["responses"].get("422", "")):
                del operation["responses"]["422"]
    for name in ("HTTPValidationError", "ValidationError"):
        drawn["components"]["schemas"].pop(name, None)
