"""Names are the field's words: one for each meaning, and none of our own making."""

import io
import re
import tokenize
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import quillpost
from quillpost.core.database.tables import base

PACKAGE = Path(quillpost.__file__).parent

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


ROOT = Path(__file__).resolve().parents[2]


def modules() -> Iterator[Path]:
    return PACKAGE.rglob("*.py")


def developer_modules() -> Iterator[Path]:
    """Tests, benchmarks and tools."""
    return chain.from_iterable((ROOT / folder).rglob("*.py") for folder in ("tests", "benchmarks", "tools"))


def words_of(name: str) -> list[str]:
    """`SignedInUser` and `signed_in_user` alike."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def names_in(module: Path) -> set[str]:
    tokens = tokenize.generate_tokens(io.StringIO(module.read_text("utf-8")).readline)
    return {token.string for token in tokens if token.type == tokenize.NAME}


def stored_names() -> set[str]:
    """Tables and columns, which keep their names."""
    return {name for table in base.metadata.tables.values() for name in (table.name, *(c.name for c in table.c))}


def test_no_identifier_is_made_of_a_private_word() -> None:
    kept = stored_names()
    found = {
        f"{module}: {name}"
        for module in chain(modules(), developer_modules())
        for name in names_in(module) - kept
        if PRIVATE_WORDS.intersection(words_of(name))
    }
    assert sorted(found) == []


def test_no_module_is_called_by_one() -> None:
    paths = [*modules(), *(path for path in PACKAGE.rglob("*") if path.is_dir())]
    assert [path.name for path in paths if PRIVATE_WORDS.intersection(words_of(path.stem))] == []


def test_a_module_is_a_thing_and_not_a_doing() -> None:
    names = {path.stem for path in modules() if path.stem.endswith("ing")}
    assert names - NOUNS_IN_ING == set()
