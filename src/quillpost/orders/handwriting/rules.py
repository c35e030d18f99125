"""What may be saved, and how what was read from a sheet is stored."""

import json
import zlib
from typing import Any, Final

from quillpost.core.errors import Invalid
from quillpost.orders.handwriting.models import SheetLetters
from quillpost.rendering.handwriting.sheet.models import EmptyBox, ProblemCode, SheetProblem
from quillpost.rendering.handwriting.sheet.records import (
    char_from_record,
    char_to_record,
    signature_from_record,
    signature_to_record,
)

MAX_NAME_LENGTH: Final = 60
MAX_HANDS: Final = 50
MAX_SIGNATURES: Final = 50
MAX_SHEET_FILES: Final = 6
MAX_SHEET_BYTES: Final = 40_000_000
_MAX_LETTERS_BYTES = 30_000_000


def sample_subject(hand_id: int) -> str:
    """What the signed link of a style's sample is about."""
    return f"hand-{hand_id}"


def clean_name(name: str) -> str:
    """`Invalid` where it is blank or too long."""
    cleaned = " ".join(name.split())
    if not cleaned:
        raise Invalid({"name": ["Enter a name."]})
    if len(cleaned) > MAX_NAME_LENGTH:
        raise Invalid({"name": [f"Use at most {MAX_NAME_LENGTH} characters."]})
    return cleaned


def letters_to_bytes(letters: SheetLetters) -> bytes:
    record = {
        "chars": [char_to_record(char) for char in letters.chars],
        "signature": None if letters.signature is None else signature_to_record(letters.signature),
        "missing": [[empty.char, empty.instance_number] for empty in letters.missing],
        "problems": [[problem.code.value, problem.message, problem.picture] for problem in letters.problems],
        "rejected": sorted(map(list, letters.rejected)),
    }
    return zlib.compress(json.dumps(record, separators=(",", ":")).encode())


def letters_from_bytes(data: bytes) -> SheetLetters:
    record: dict[str, Any] = json.loads(zlib.decompressobj().decompress(data, _MAX_LETTERS_BYTES))
    signature = record["signature"]
    return SheetLetters(
        chars=tuple(map(char_from_record, record["chars"])),
        signature=None if signature is None else signature_from_record(signature),
        missing=tuple(EmptyBox(char, number) for char, number in record["missing"]),
        problems=tuple(
            SheetProblem(ProblemCode(code), message, picture) for code, message, picture in record["problems"]
        ),
        rejected=frozenset((char, number) for char, number in record["rejected"]),
    )
