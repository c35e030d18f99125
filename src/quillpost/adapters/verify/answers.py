"""What a verifier answers, read with care: it is another's word, and ends on paper."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any, TypeVar

import orjson

from quillpost.ports.addresses import AddressAnswer, Moved, PostalParts, VerifierDown
from quillpost.postal.states import CODES

LONGEST = 300
DPV = frozenset({"Y", "D", "S", "N"})
ZIP = re.compile(r"\d{5}(?:-\d{4})?", re.ASCII)

Answer = TypeVar("Answer")


def read_answers(
    body: bytes, asked: int, read: Callable[[Mapping[str, Any]], Answer], nothing: Answer
) -> Sequence[Answer]:
    """One for each question, by its `id`; what is missing, or cannot be understood, is no answer."""
    try:
        told = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise VerifierDown("The verifier's answer is not JSON.") from None
    answers = told.get("answers") if isinstance(told, dict) else None
    if not isinstance(answers, list):
        raise VerifierDown("The verifier's answer has no list named answers.")
    found = [nothing] * asked
    for answer in answers:
        place = answer.get("id") if isinstance(answer, dict) else None
        if type(place) is int and 0 <= place < asked:
            found[place] = read(answer)
    return found


def read_answer(answer: Mapping[str, Any]) -> AddressAnswer:
    dpv = answer.get("dpv")
    return AddressAnswer(
        dpv=dpv if isinstance(dpv, str) and dpv in DPV else None,
        corrected=read_parts(answer.get("address")),
        moved=_moved(answer.get("moved")),
        is_vacant=answer.get("vacant") is True,
    )


def read_found(answer: Mapping[str, Any]) -> PostalParts | None:
    return read_parts(answer.get("address"))


def read_parts(told: object) -> PostalParts | None:
    """A whole address at home, or nothing: half of one is printed nowhere."""
    if not isinstance(told, dict):
        return None
    street, second, city, state, code = (
        _line(told.get(name)) for name in ("address", "address2", "city", "state", "zip")
    )
    if not (street and city) or state not in CODES or code is None or not ZIP.fullmatch(code):
        return None
    return street, second, city, state, code


def _moved(told: object) -> Moved | None:
    if not isinstance(told, dict):
        return None
    to = read_parts(told.get("address"))
    if to is None and told.get("address") is not None:
        return None  # they have moved somewhere that we cannot read: the old address is as good as before
    return Moved(to, _day(told.get("date")))


def _day(told: object) -> date | None:
    """NCOA knows the month of a move; some services tell the day."""
    if not isinstance(told, str):
        return None
    try:
        return date.fromisoformat(told if len(told) > len("2026-05") else f"{told}-01")
    except ValueError:
        return None


def _line(told: object) -> str | None:
    if not isinstance(told, str) or len(told) > LONGEST or not told.isprintable():
        return None
    return " ".join(told.upper().split()) or None
