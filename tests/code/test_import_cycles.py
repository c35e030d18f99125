"""No module needs, by whatever detour, one that needs it: each can be imported first."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import quillpost

PACKAGE = Path(quillpost.__file__).parent


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in PACKAGE.rglob("*.py")}


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
    imports = {module: imports_of(module, path.read_text("utf-8")) for module, path in MODULES.items()}
    assert len(in_loading_order(imports)) == len(MODULES)


def test_a_cycle_would_be_found() -> None:
    source = "from quillpost.core import jobs\nfrom quillpost.core.errors import Message\nimport quillpost.core.text"
    assert imports_of("quillpost.core", source) == {
        "quillpost.core.jobs",
        "quillpost.core.errors",
        "quillpost.core.text",
    }
    with pytest.raises(CycleError):
        in_loading_order({"a": {"b"}, "b": {"c"}, "c": {"a"}})
