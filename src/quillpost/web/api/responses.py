"""JSON responses: the three forms of time, the two pagination envelopes, warnings."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, cast

import orjson
from fastapi import Request, Response
from pydantic import BaseModel, create_model
from starlette.datastructures import URL

from quillpost.client.types import Links, Meta
from quillpost.core.paging import Page
from quillpost.core.text import format_iso
from quillpost.core.tokens import hide_secrets

Row = TypeVar("Row")
WireType = TypeVar("WireType")

MAX_HEADER_LENGTH = 2_000
MAX_SECRET_LENGTH = 200
"""At least as long as any secret of ours, however it is written."""
IGNORED_HEADER = "X-Ignored-Fields"
FIRST_ERROR_STATUS = 400


def json_response(
    content: Any, *, status: int = 200, headers: Mapping[str, str] | None = None, warnings: Sequence[str] = ()
) -> Response:
    body = orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS)
    if warnings:
        headers = {**(headers or {}), **build_warning_header(warnings)}
    return Response(
        body if status < FIRST_ERROR_STATUS else _hide_body_secrets(body),
        status_code=status,
        headers={name: to_header_text(value) for name, value in (headers or {}).items()},
        media_type="application/json",
    )


def _hide_body_secrets(body: bytes) -> bytes:
    """An error may quote what was sent, and that may be a token or a gift card's code."""
    return hide_secrets(body.decode()).encode()


def add_ignored_header(response: Response, names: Iterable[str]) -> Response:
    existing = response.headers.get(IGNORED_HEADER)
    ignored = {*names, *(existing.split(", ") if existing else ())}
    if ignored:
        response.headers[IGNORED_HEADER] = to_header_text(", ".join(sorted(ignored)))
    return response


def without_length(response: Response) -> Response:
    """The answer to a HEAD for which nothing is drawn: how long the body of the GET would be is not known."""
    del response.headers["Content-Length"]
    return response


def to_header_text(text: str) -> str:
    """Callers' own words may stand in a header: plain ASCII, on one line, not endless."""
    plain = _truncate_safely(text)[:MAX_HEADER_LENGTH].encode("ascii", "backslashreplace").decode()
    return "".join(char if char.isprintable() else " " for char in plain)[:MAX_HEADER_LENGTH]


def _truncate_safely(text: str) -> str:
    """Without secrets, and without the half of one at which it was cut off."""
    max_length = 2 * MAX_HEADER_LENGTH
    text_start = hide_secrets(text[:max_length])
    return text_start if len(text) <= max_length else text_start[:-MAX_SECRET_LENGTH]


def to_wire(wire_type: type[WireType], row: object, **values: Any) -> WireType:
    """What `values` does not have is the row's attribute of the same name; a time is in ISO 8601."""
    content = {
        name: values.pop(name) if name in values else _to_wire_value(getattr(row, name))
        for name in wire_type.__annotations__
    }
    assert not values, sorted(values)
    return cast(WireType, content)


def _to_wire_value(value: object) -> object:
    return format_iso(value) if isinstance(value, datetime) else value


def raw_json(metadata: str | None) -> Any:
    """Metadata goes back to the letter, number texts and key order included."""
    return None if metadata is None else orjson.Fragment(metadata.encode())


def page_response(
    request: Request,
    page: Page[Row],
    serialize: Callable[[Row], Mapping[str, Any]],
    *,
    extra_meta: Mapping[str, Any] | None = None,
) -> Response:
    """The links + meta envelope; `extra_meta` is in the meta as well."""
    current = page.request.page

    def link(number: int | None) -> str | None:
        return None if number is None else str(_page_url(request.url, number))

    return json_response(
        {
            "data": [serialize(row) for row in page.rows],
            "links": {
                "first": link(1),
                "last": link(page.last_page),
                "prev": link(min(current - 1, page.last_page) if current > 1 else None),
                "next": link(current + 1 if current < page.last_page else None),
            },
            "meta": {
                "current_page": current,
                "from": page.first_row,
                "last_page": page.last_page,
                "path": str(request.url.replace(query="")).rstrip("?"),
                "per_page": page.request.per_page,
                "to": page.last_row,
                "total": page.total,
                **(extra_meta or {}),
            },
        }
    )


@cache
def page_of(row: Any, meta: Any = Meta) -> type[BaseModel]:
    """The links + meta envelope of these rows, for the description."""
    return create_model(f"{row.__name__}Page", data=(list[row], ...), links=(Links, ...), meta=(meta, ...))


@cache
def list_of(row: Any) -> type[BaseModel]:
    """All rows at once, for the description."""
    return create_model(f"{row.__name__}List", data=(list[row], ...))


def numbered_page_response(
    request: Request, page: Page[Row], serialize: Callable[[Row], Mapping[str, Any]]
) -> Response:
    current = page.request.page

    def link(number: int) -> str:
        return str(_page_url(request.url, number))

    return json_response(
        {
            "current_page": current,
            "data": [serialize(row) for row in page.rows],
            "first_page_url": link(1),
            "from": page.first_row,
            "last_page": page.last_page,
            "last_page_url": link(page.last_page),
            "next_page_url": link(current + 1) if current < page.last_page else None,
            "path": str(request.url.replace(query="")).rstrip("?"),
            "per_page": page.request.per_page,
            "prev_page_url": link(min(current - 1, page.last_page)) if current > 1 else None,
            "to": page.last_row,
            "total": page.total,
        }
    )


def _page_url(url: URL, number: int) -> URL:
    return url.include_query_params(page=number)


WARNINGS_HEADER = "X-Warnings"
MAX_WARNING_LENGTH = 800
COUNT_LENGTH = 80


def build_warning_header(warnings: Sequence[str]) -> dict[str, str]:
    """Plain ASCII and not endless: warnings that do not fit are counted in the last one."""
    escaped = [_escape_warning(warning) for warning in dict.fromkeys(warnings)]
    if not escaped:
        return {}
    included: list[str] = []
    room = MAX_HEADER_LENGTH - COUNT_LENGTH
    for warning_text in escaped:
        room -= len(warning_text) + 2
        if room < 0:
            break
        included.append(warning_text)
    if len(included) < len(escaped):
        omitted = len(escaped) - len(included)
        included.append(
            json.dumps(f"{omitted:,} more {'warning has' if omitted == 1 else 'warnings have'} no room here.")
        )
    return {WARNINGS_HEADER: f"[{', '.join(included)}]"}


def _escape_warning(warning: str) -> str:
    """Callers' own words may stand in a warning: no secret, and never half of an escape."""
    text = hide_secrets(warning)
    encoded = json.dumps(text)
    while len(encoded) > MAX_WARNING_LENGTH:
        text = text[: len(text) * MAX_WARNING_LENGTH // (len(encoded) + 4)].rstrip() + "…"
        encoded = json.dumps(text)
    return encoded
