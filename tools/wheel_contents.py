"""Puts what comes from npm into a distribution: the scripts of our pages, typefaces for kanji and emoji, and licenses.

hatchling calls it (see pyproject.toml). An installation from a wheel has no checkout beside it: what is not
in the wheel is missing there. A source distribution has the same files, so that a wheel can be built from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# `web/assets.py` and the catalog of handwriting styles name these files too; a test builds a wheel and
# looks whether they find all of theirs.
NEEDED = (
    "package.json",
    "LICENSE*",
    "dist/htmx.min.js",
    "dist/sse.min.js",
    "dist/uPlot.iife.min.js",
    "dist/uPlot.min.css",
    "**/*_400Regular.ttf",
)
IN_THE_PACKAGE = "quillpost/node_modules"


class WheelContents(BuildHookInterface):  # type: ignore[misc]  # is installed only while something is built
    """Adds files to a wheel or a source distribution; an editable install finds those of its checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        folder = IN_THE_PACKAGE if self.target_name == "wheel" else "node_modules"
        for file, name in packaged_files(Path(self.root)):
            build_data["force_include"][str(file)] = f"{folder}/{name}"


def packaged_files(root: Path) -> Iterator[tuple[Path, str]]:
    """Each file, and its name below `node_modules`."""
    node_modules = root / "node_modules"
    for package in json.loads((root / "package.json").read_text())["dependencies"]:
        if not (node_modules / package).is_dir():
            raise FileNotFoundError(f"{package} is not in node_modules: run `make setup`, then build again.")
        for pattern in NEEDED:
            for file in sorted((node_modules / package).glob(pattern)):
                yield file, file.relative_to(node_modules).as_posix()
