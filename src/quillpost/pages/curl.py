"""Calls as lines to paste into a terminal."""

import json
import shlex
from collections.abc import Mapping
from typing import Any


def curl(method: str, url: str, body: Any = None, form: Mapping[str, str] | None = None) -> str:
    """The call with the token in $TOKEN: a page does not know anybody's."""
    verb = "" if method == "GET" or (method == "POST" and (body or form)) else f" -X {method}"
    lines = [f"curl{verb}", shlex.quote(url), '-H "Authorization: Bearer $TOKEN"']
    if body:
        written = json.dumps(body, indent=2, ensure_ascii=False)
        lines += ['-H "Content-Type: application/json"', f"-d {shlex.quote(written)}"]
    for name, value in (form or {}).items():
        lines.append(f"-F {shlex.quote(f'{name}={value}')}")
    return " \\\n  ".join(lines)
