"""What the hands are made of: faces, who lends which letters, and what is not used."""

import re
import site
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import uharfbuzz as hb

_FOLDER = "@expo-google-fonts"
_COPYRIGHT_ID = 0
_RANGE = re.compile(r"([A-Za-z0-9])-([A-Za-z0-9])")
_RECIPES = Path(__file__).with_name("recipes.toml")


def spell_chars(text: str) -> str:
    """`a-z`, `A-Z` and `0-9` stand for what is between; what follows ` not ` is left out."""
    included, _, excluded = text.partition(" not ")
    chars = _RANGE.sub(lambda ends: "".join(map(chr, range(ord(ends[1]), ord(ends[2]) + 1))), included)
    return "".join(dict.fromkeys(char for char in chars if char not in excluded and char != " "))


@dataclass(frozen=True)
class FaceSource:
    """An npm package of `@expo-google-fonts`, or a file of an installed Python package. `unfit` is never used."""

    name: str
    license: str
    package: str
    file: str
    python: str
    weight: int | None
    unfit: str

    @classmethod
    def from_table(cls, name: str, table: Mapping[str, Any]) -> "FaceSource":
        return cls(
            name,
            table["license"],
            table.get("package", name),
            table.get("file", ""),
            table.get("python", ""),
            table.get("weight"),
            table.get("unfit", ""),
        )

    def read(self, node_modules: Path) -> bytes:
        return self._path(node_modules).read_bytes()

    def _path(self, node_modules: Path) -> Path:
        if self.python:
            return next(path for folder in site.getsitepackages() if (path := Path(folder, self.python)).is_file())
        folder = node_modules / _FOLDER / self.package
        if self.file:
            return folder / self.file
        return min(folder.rglob("*_400Regular.ttf"))

    @property
    def origin(self) -> str:
        return self.python.partition("/")[0] or f"{_FOLDER}/{self.package}"


def copyright_line(font: bytes) -> str:
    text = hb.Face(font).get_name(_COPYRIGHT_ID)
    return " ".join(str(text or "").split())


@dataclass(frozen=True)
class Recipe:
    """`without` are letters of the host that are not used; `kin` faces fill gaps; `drawn` signs are our own strokes."""

    name: str
    host: str
    lenders: Mapping[str, str]
    without: str = ""
    kin: tuple[str, ...] = ()
    drawn: str = ""
    joining: float = 0.0

    @classmethod
    def from_table(cls, name: str, table: Mapping[str, Any]) -> "Recipe":
        lenders = {face: spell_chars(chars) for face, chars in table.get("lenders", {}).items()}
        return cls(
            name,
            table["host"],
            lenders,
            spell_chars(table.get("without", "")),
            tuple(table.get("kin", ())),
            table.get("drawn", ""),
            table["joining"],
        )

    @property
    def faces(self) -> tuple[str, ...]:
        return (self.host, *self.lenders, *self.kin)


@dataclass(frozen=True)
class Recipes:
    faces: Mapping[str, FaceSource]
    hands: Mapping[str, Recipe]
    helper: Recipe
    drawn: str = field(default="")

    @cached_property
    def used_faces(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(face for hand in (*self.hands.values(), self.helper) for face in hand.faces))


def read_recipes() -> Recipes:
    table = tomllib.loads(_RECIPES.read_text("utf-8"))
    faces = {name: FaceSource.from_table(name, entry) for name, entry in table["faces"].items()}
    hands = {name: Recipe.from_table(name, entry) for name, entry in table["hands"].items()}
    return Recipes(faces, hands, Recipe.from_table("helper", table["helper"]), table["drawn"])
