"""Only the limited children load what reads strangers' files: no other part of the service can open one."""

import json
import pkgutil
import subprocess
import sys

import quillpost

READERS = ("pikepdf", "pypdfium2", "PIL", "python_calamine", "zipfile")
"""Libraries that read PDFs, pictures, workbooks and archives."""

CHILDREN = {
    "quillpost.rendering.decoder.worker",
    "quillpost.rendering.decoder.tasks",
    *(
        f"quillpost.rendering.images.{name}"
        for name in (
            "complexity", "inspection", "objects", "pages", "pdfs", "pictures",
        )
    ),
    "quillpost.recipients.imports.workbook_reader",
}  # fmt: skip
"""The modules of the processes that may be lost."""

OWN_ARCHIVES = {"quillpost.rendering.handwriting.models"}
"""Reads what the service itself has packed."""

PROGRAMS = {"quillpost.__main__", "quillpost.core.database.migrations.env"}
"""They run as soon as they are imported, and import no more than others do."""

SCRIPT = """
import importlib, json, sys
names, readers = json.loads(sys.stdin.read())
for name in names:
    importlib.import_module(name)
print(json.dumps([reader for reader in readers if reader in sys.modules]))
"""


def modules() -> list[str]:
    found = pkgutil.walk_packages(quillpost.__path__, "quillpost.")
    return sorted({each.name for each in found} - CHILDREN - PROGRAMS)


def loaded_by(names: list[str], readers: list[str]) -> list[str]:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=json.dumps([names, readers]), capture_output=True, text=True, check=True
    )
    found: list[str] = json.loads(ran.stdout)
    return found


def test_the_whole_service_runs_without_anything_that_reads_strangers_files() -> None:
    others = [name for name in READERS if name != "zipfile"]  # libraries unpack their own with that one
    assert loaded_by(modules(), others) == []


def test_the_children_are_what_reads_them() -> None:
    assert loaded_by(sorted(CHILDREN), list(READERS)) == list(READERS)


def test_archives_are_opened_by_the_child_alone() -> None:
    opening = {
        name
        for name in modules()
        if (loader := pkgutil.get_loader(name)) is not None and "import zipfile" in (loader.get_source(name) or "")  # type: ignore[attr-defined]
    }
    assert opening == OWN_ARCHIVES
