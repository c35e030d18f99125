"""`X-Warnings`: what deserves a look, as a JSON array of sentences that any client can read."""

import json
from collections.abc import Sequence

from quillpost.api.answers import LONGEST_HEADER
from quillpost.kit.tokens import hide_secrets

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
