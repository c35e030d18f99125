"""A delivery line read by usaddress, for what the tables cannot tell apart: it learned from many addresses.

Slower by far than the tables, and loaded only when it is first asked.
"""

import threading
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import ModuleType

from quillpost.postal.doors import Door, with_ordinal
from quillpost.postal.tables import DIRECTIONS, SUFFIXES
from quillpost.postal.units import Unit, read_units, unnamed_unit

NUMBER = ("AddressNumberPrefix", "AddressNumber", "AddressNumberSuffix")
BEFORE_THE_NAME = ("StreetNamePreModifier", "StreetNamePreType")
UNIT_LABELS = ("OccupancyType", "OccupancyIdentifier", "SubaddressType", "SubaddressIdentifier")
BESIDE = ("BuildingName", "LandmarkName", "Recipient", "PlaceName")
"""What may stand on the line beside the street."""

_ASKING = threading.Lock()
"""The model is one object with a state of its own."""


@cache
def _library() -> ModuleType:
    """A model of megabytes, which only those load who need it."""
    return import_module("usaddress")


def labelled(line: str) -> Mapping[str, str] | None:
    """The parts of a line by their labels; None where it is read as two addresses, or as none."""
    library = _library()
    with _ASKING:
        try:
            labels, kind = library.tag(line)
        except library.RepeatedLabelError:
            return None
    return None if kind == "Ambiguous" else {label: text.rstrip(",") for label, text in labels.items()}


def door_by_library(words: list[str]) -> Door | None:
    """The same words as for `read_door`, or None where the library does not tell either."""
    labels = labelled(" ".join(words))
    known = {*NUMBER, *BEFORE_THE_NAME, *UNIT_LABELS, *BESIDE}
    known |= {"StreetNamePreDirectional", "StreetName", "StreetNamePostType", "StreetNamePostDirectional"}
    if labels is None or "AddressNumber" not in labels or "StreetName" not in labels:
        return None
    if not known.issuperset(labels):
        return None
    units = _units([labels[label] for label in labels if label in UNIT_LABELS])
    if units is None:
        return None
    rest = " ".join([labels[label] for label in labels if label in BESIDE])
    return Door(_street(labels), units, True, rest=rest)


def _units(texts: list[str]) -> list[Unit] | None:
    words = " ".join(texts).split()
    unnamed = unnamed_unit(words)
    return [unnamed] if unnamed else read_units(words)


def _street(labels: Mapping[str, str]) -> str:
    before, after = (_direction(labels.get(f"StreetName{end}Directional", "")) for end in ("Pre", "Post"))
    name, kind = labels["StreetName"], labels.get("StreetNamePostType", "")
    if kind and name.isdigit():
        name = with_ordinal(name)
    *inner, last = kind.split() or [""]
    parts = [
        *(labels.get(label, "") for label in NUMBER), before,
        *(labels.get(label, "") for label in BEFORE_THE_NAME), name, *inner, SUFFIXES.get(last, last), after,
    ]  # fmt: skip
    return " ".join([part for part in parts if part])


def _direction(text: str) -> str:
    return "".join([DIRECTIONS.get(word, word) for word in text.split()])
