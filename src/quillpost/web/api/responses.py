"""JSON responses: the three forms of time, the two pagination envelopes, warnings."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import orjson
from fastapi import Request, Response
from starlette.datastructures import URL

from quillpost.core.paging import Page
from quillpost.core.tokens import hide_secrets

Row = TypeVar("Row")

LONGEST_HEADER = 2_000
LONGEST_SECRET = 200
"""At least as long as any secret of ours, however it is written."""
IGNORED = "X-Ignored-Fields"
REFUSALS = 400


def answer(content: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    body = orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS)
    return Response(
        body if status < REFUSALS else _covered(body),
        status_code=status,
        headers={name: header_text(value) for name, value in (headers or {}).items()},
        media_type="application/json",
    )


def _covered(body: bytes) -> bytes:
    """A refusal may quote what was sent, and somebody may have sent a token, or what a gift card is claimed
    with, where it does not belong."""
    return hide_secrets(body.decode()).encode()


def name_ignored(response: Response, names: Iterable[str]) -> Response:
    """The answer, with what of the call changed nothing, beside that which it names already."""
    named = response.headers.get(IGNORED)
    ignored = {*names, *(named.split(", ") if named else ())}
    if ignored:
        response.headers[IGNORED] = header_text(", ".join(sorted(ignored)))
    return response


def unmeasured(response: Response) -> Response:
    """The answer to a HEAD for which nothing is drawn: how long the body of the GET would be is not known."""
    del response.headers["Content-Length"]
    return response


def header_text(text: str) -> str:
    """Callers' own words may stand in a header: plain ASCII, on one line, not endless."""
    plain = _beginning(text)[:LONGEST_HEADER].encode("ascii", "backslashreplace").decode()
    return "".join(letter if letter.isprintable() else " " for letter in plain)[:LONGEST_HEADER]


def _beginning(text: str) -> str:
    """Without secrets, and without the half of one at which it was cut off."""
    most = 2 * LONGEST_HEADER
    shown = hide_secrets(text[:most])
    return shown if len(text) <= most else shown[:-LONGEST_SECRET]


def verbatim(metadata: str | None) -> Any:
    """Metadata goes back to the letter, number texts and key order included."""
    return None if metadata is None else orjson.Fragment(metadata.encode())


def linked(
    request: Request,
    page: Page[Row],
    show: Callable[[Row], Mapping[str, Any]],
    *,
    more: Mapping[str, Any] | None = None,
) -> Response:
    """The links + meta envelope; `more` is in the meta as well."""
    current = page.asked.page

    def link(number: int | None) -> str | None:
        return None if number is None else str(_page_url(request.url, number))

    return answer(
        {
            "data": [show(row) for row in page.rows],
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
                "per_page": page.asked.per_page,
                "to": page.last_row,
                "total": page.total,
                **(more or {}),
            },
        }
    )


def paginated(request: Request, page: Page[Row], show: Callable[[Row], Mapping[str, Any]]) -> Response:
    """The page-number envelope."""
    current = page.asked.page

    def link(number: int) -> str:
        return str(_page_url(request.url, number))

    return answer(
        {
            "current_page": current,
            "data": [show(row) for row in page.rows],
            "first_page_url": link(1),
            "from": page.first_row,
            "last_page": page.last_page,
            "last_page_url": link(page.last_page),
            "next_page_url": link(current + 1) if current < page.last_page else None,
            "path": str(request.url.replace(query="")).rstrip("?"),
            "per_page": page.asked.per_page,
            "prev_page_url": link(min(current - 1, page.last_page)) if current > 1 else None,
            "to": page.last_row,
            "total": page.total,
        }
    )


def _page_url(url: URL, number: int) -> URL:
    """The same call for another page: every other parameter is kept."""
    return url.include_query_params(page=number)


WARNINGS = "X-Warnings"
LONGEST_WARNING = 800
ROOM_FOR_COUNT = 80


def warning_header(warnings: Sequence[str]) -> dict[str, str]:
    """The header for an answer, or none where there is nothing to say. It is plain ASCII, as headers are, and
    not endless: sentences that have no room are counted in the last one."""
    told = [_escaped(warning) for warning in dict.fromkeys(warnings)]
    if not told:
        return {}
    shown: list[str] = []
    room = LONGEST_HEADER - ROOM_FOR_COUNT
    for sentence in told:
        room -= len(sentence) + 2
        if room < 0:
            break
        shown.append(sentence)
    if len(shown) < len(told):
        left = len(told) - len(shown)
        shown.append(
            json.dumps(f"{left:,} more {'warning has' if left == 1 else 'warnings have'} no room here.")
        )
    return {WARNINGS: f"[{', '.join(shown)}]"}


def _escaped(warning: str) -> str:
    """Callers' own words may stand in a warning: no secret, and never half of an escape."""
    text = hide_secrets(warning)
    written = json.dumps(text)
    while len(written) > LONGEST_WARNING:
        text = text[: len(text) * LONGEST_WARNING // (len(written) + 4)].rstrip() + "…"
        written = json.dumps(text)
    return written
