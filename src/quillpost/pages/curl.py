"""Calls as lines to paste into a terminal."""

import json
import shlex
from collections.abc import Mapping
from typing import Any, Final

NOBODYS: Final = "$TOKEN"
"""In place of a token: a page does not know anybody's."""


def curl(method: str, url: str, body: Any = None, form: Mapping[str, str] | None = None) -> str:
    """The call with a token that its reader puts in."""
    verb = "" if method == "GET" or (method == "POST" and (body or form)) else f" -X {method}"
    lines = [f"curl{verb}", shlex.quote(url), f'-H "Authorization: Bearer {NOBODYS}"']
    if body:
        written = json.dumps(body, indent=2, ensure_ascii=False)
        lines += ['-H "Content-Type: application/json"', f"-d {shlex.quote(written)}"]
    for name, value in (form or {}).items():
        lines.append(f"-F {shlex.quote(f'{name}={value}')}")
    return " \\\n  ".join(lines)
