"""A class name occurs once, and a type of the wire is written once."""

import ast
import importlib
import pkgutil
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from typing_extensions import TypedDict, is_typeddict

from quillpost import client
from quillpost.web import api

SOURCE = Path(client.__file__).parents[1]

ROW_AND_WIRE = "a row of ours, and the same on the wire: `wire.Order` where both are used"
SAME_NAME_ALLOWED = {
    "Automation": ROW_AND_WIRE,
    "ImageTemplate": ROW_AND_WIRE,
    "Import": ROW_AND_WIRE,
    "MailingList": ROW_AND_WIRE,
    "MessageTemplate": ROW_AND_WIRE,
    "Order": ROW_AND_WIRE,
    "Recipient": ROW_AND_WIRE,
    "SubAccount": ROW_AND_WIRE,
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


def read_sources(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(SOURCE)): path.read_text("utf-8") for path in sorted(folder.rglob("*.py"))}


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


WIRE_TYPES = {
    kind.__name__: keys_of(kind) for kind in classes_of(client) if is_typeddict(kind) and len(keys_of(kind)) >= MIN_KEYS
}


def test_a_class_name_occurs_once() -> None:
    found = find_duplicates(read_sources(SOURCE))
    assert {name: places for name, places in found.items() if name not in SAME_NAME_ALLOWED} == {}
    assert sorted(SAME_NAME_ALLOWED.keys() - found.keys()) == [], "occurs once by now: take it off the list"


def test_the_api_writes_no_type_of_the_wire_a_second_time() -> None:
    accepting = find_accepting(read_sources(Path(api.__file__).parent))
    copies = {kind.__name__: find_copy(kind, WIRE_TYPES) for kind in classes_of(api)}
    assert {
        name: copied
        for name, copied in copies.items()
        if copied is not None and name not in accepting | NOT_A_COPY.keys()
    } == {}


def test_a_second_class_of_a_name_is_found() -> None:
    sources = {"a.py": "class Order: ...", "b.py": "def make():\n    class Order: ...", "c.py": "class Item: ..."}
    assert find_duplicates(sources) == {"Order": ["a.py", "b.py"]}


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


def test_a_declared_body_is_not_a_copy() -> None:
    assert find_accepting({"a.py": "@accepts(wire.Order)\nclass NewOrder: ...\nclass Order: ..."}) == {"NewOrder"}
