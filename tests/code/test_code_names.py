"""Our own modules: names are the field's words, a class name occurs once, a type of the wire is written once, and each
module can be imported first."""

import ast
import importlib
import io
import pkgutil
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict, is_typeddict

import quillpost
from quillpost import client
from quillpost.core.database.tables import base
from quillpost.web import api

PACKAGE = Path(quillpost.__file__).parent
ROOT = Path(__file__).resolve().parents[2]
SOURCES = {str(path.relative_to(PACKAGE)): path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}


# Words


PRIVATE_WORDS = {
    "who", "told", "said", "fault", "faults", "asked", "wanted", "sought", "wish", "wishes", "sealer", "shelf",
    "studio", "world", "worlds", "reception", "ground", "footing", "lane", "lanes", "flying", "pump", "courier",
    "desk", "tally", "crowds", "barred", "barring", "unwell", "resting", "trouble", "troubles", "troubled",
    "duties", "whereabouts", "heed", "nursery", "crew", "examiner", "judge", "judged", "judging", "verdict", "verdicts",
    "door", "doors", "doubt", "doubts", "lying", "mend",
}  # fmt: skip
"""Words that meant several things each, or something that the field has a word for: see `CONTRIBUTING.md`."""

NOUNS_IN_ING = frozenset({"handwriting", "logging", "paging", "pricing", "rendering", "tracking"})
"""Nouns of the field, not doings."""


def is_private(name: str) -> bool:
    """`SignedInUser` and `signed_in_user` alike."""
    return not PRIVATE_WORDS.isdisjoint(word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name))


def private_names_in(source: str) -> set[str]:
    """Only where a word of it is private is the source taken apart, which takes long, into code and comments."""
    suspects = {name for name in set(re.findall(r"[^\W\d]\w*", source)) if is_private(name)}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline) if suspects else ()
    return suspects & {token.string for token in tokens if token.type == tokenize.NAME}


def test_no_identifier_and_no_module_is_made_of_a_private_word_and_no_module_is_a_doing() -> None:
    tables = base.metadata.tables.values()
    kept = {name for table in tables for name in (table.name, *(column.name for column in table.c))}
    ours = chain.from_iterable((ROOT / folder).rglob("*.py") for folder in ("tests", "benchmarks", "tools"))
    sources = SOURCES | {str(module): module.read_text("utf-8") for module in ours}
    found = {module: private_names_in(source) - kept for module, source in sources.items()}
    assert {module: names for module, names in found.items() if names} == {}
    places = [*map(Path, SOURCES), *(place for place in PACKAGE.rglob("*") if place.is_dir())]
    assert [str(place) for place in places if is_private(place.stem)] == []
    stems = {Path(module).stem for module in SOURCES}
    assert {stem for stem in stems if stem.endswith("ing")} - NOUNS_IN_ING == set()


# Classes


ROW_AND_WIRE = "a row of ours, and the same on the wire: `wire.Order` where both are used"
SAME_NAME_ALLOWED = {
    **dict.fromkeys(("Automation", "ImageTemplate", "Import", "MailingList", "MessageTemplate"), ROW_AND_WIRE),
    **dict.fromkeys(("Order", "Recipient", "SubAccount"), ROW_AND_WIRE),
    "QuillpostError": "the root of the service's errors, and of those that the client raises",
}
NOT_A_COPY = {"RadiusCenter": "an address as other clients write it, which our own client does not offer"}
MIN_KEYS = 4
MIN_SHARED = 0.8


def find_duplicates(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """The class names that occur more than once, with the files they are in."""
    places = defaultdict(list)
    for place, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(place)
    return {name: found for name, found in places.items() if len(found) > 1}


def find_accepting(sources: Mapping[str, str]) -> set[str]:
    """The classes that declare their type of the wire with `@accepts(...)`."""
    classes = [node for source in sources.values() for node in ast.walk(ast.parse(source))]
    return {
        node.name
        for node in classes
        if isinstance(node, ast.ClassDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "accepts"
    }


def classes_of(package: Any) -> Iterator[type]:
    """The classes that the modules of a package define."""
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(found.name)
        yield from (one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__)


def keys_of(kind: Any) -> set[str]:
    if is_typeddict(kind):
        return set(kind.__annotations__)
    fields = kind.model_fields if issubclass(kind, BaseModel) else {}
    return {field.alias or name for name, field in fields.items()}


def find_copy(kind: type, wire_types: Mapping[str, set[str]]) -> str | None:
    """The type of the wire that this class writes a second time."""
    keys = keys_of(kind)
    if len(keys) < MIN_KEYS:
        return None
    return next((name for name, own in wire_types.items() if len(keys & own) >= MIN_SHARED * len(keys | own)), None)


def test_a_class_name_occurs_once() -> None:
    found = find_duplicates(SOURCES)
    assert {name: places for name, places in found.items() if name not in SAME_NAME_ALLOWED} == {}
    assert sorted(SAME_NAME_ALLOWED.keys() - found.keys()) == [], "occurs once by now: take it off the list"
    sources = {"a.py": "class Order: ...", "b.py": "def make():\n    class Order: ...", "c.py": "class Item: ..."}
    assert find_duplicates(sources) == {"Order": ["a.py", "b.py"]}


def test_the_api_writes_no_type_of_the_wire_a_second_time() -> None:
    kinds = [kind for kind in classes_of(client) if is_typeddict(kind)]
    wire_types = {kind.__name__: keys for kind in kinds if len(keys := keys_of(kind)) >= MIN_KEYS}
    allowed = find_accepting({name: text for name, text in SOURCES.items() if name.startswith("web/api/")}) | {
        *NOT_A_COPY
    }
    copies = {kind.__name__: find_copy(kind, wire_types) for kind in classes_of(api) if kind.__name__ not in allowed}
    assert {name: copied for name, copied in copies.items() if copied is not None} == {}
    assert find_accepting({"a.py": "@accepts(wire.Order)\nclass NewOrder: ...\nclass Order: ..."}) == {"NewOrder"}


def test_a_copy_of_a_wire_type_is_found() -> None:
    class Ping(TypedDict):
        id: int
        name: str
        email: str
        phone: str

    class Copied(BaseModel):
        id: int
        name: str
        email: str
        phone: str
        note: str

    class Other(BaseModel):
        id: int
        name: str
        street: str
        town: str

    wire_types = {"Ping": keys_of(Ping)}
    assert [find_copy(kind, wire_types) for kind in (Ping, Copied, Other)] == ["Ping", "Ping", None]


# Imports


MODULES = {
    ".".join(("quillpost", *Path(path).with_suffix("").parts)).removesuffix(".__init__"): source
    for path, source in SOURCES.items()
}


def imports_of(module: str, source: str) -> set[str]:
    """The modules of ours that it imports as it is loaded."""
    found: set[str] = set()
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.ImportFrom) and statement.module:
            names = {f"{statement.module}.{alias.name}" for alias in statement.names}
            found |= {name if name in MODULES else statement.module for name in names}
        elif isinstance(statement, ast.Import):
            found |= {alias.name for alias in statement.names}
    return {name for name in found if name in MODULES and name != module}


def in_loading_order(imports: dict[str, set[str]]) -> list[str]:
    return list(TopologicalSorter(imports).static_order())


def test_every_module_can_be_imported_first() -> None:
    """None needs, by whatever detour, one that needs it."""
    imports = {module: imports_of(module, source) for module, source in MODULES.items()}
    assert len(in_loading_order(imports)) == len(MODULES)
    source = "from quillpost.core import jobs\nfrom quillpost.core.errors import Message\nimport quillpost.core.text"
    expected = {f"quillpost.core.{name}" for name in ("jobs", "errors", "text")}
    assert imports_of("quillpost.core", source) == expected
    with pytest.raises(CycleError):
        in_loading_order({"a": {"b"}, "b": {"c"}, "c": {"a"}})
