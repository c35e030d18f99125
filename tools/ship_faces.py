"""Writes the default hand into the package, ready to use: `.venv/bin/python tools/ship_faces.py`.

Run it when the hand's recipe has changed; a test says so. A fresh installation then has one hand at once,
and the same one on every machine.
"""

from __future__ import annotations

import shutil
import zlib
from importlib import resources
from pathlib import Path

from quillpost.rendering.handwriting.models import DEFAULT_STYLE
from quillpost.rendering.handwriting.service import SHIPPED_FACES_FOLDER, FontSources, prepare_face, recipe_key

FOLDER = (
    Path(__file__).resolve().parent.parent / "src" / "quillpost" / "rendering" / "handwriting" / SHIPPED_FACES_FOLDER
)


def main() -> None:
    raw = FontSources(None).read_font(DEFAULT_STYLE)
    if raw is None:
        raise SystemExit(f"{DEFAULT_STYLE.face} is not installed.")
    for old in FOLDER.glob("*.face"):
        old.unlink()
    file = FOLDER / f"{recipe_key(DEFAULT_STYLE, raw)}.face"
    file.write_bytes(zlib.compress(prepare_face(DEFAULT_STYLE, raw).to_bytes(), 9))
    with resources.as_file(resources.files(DEFAULT_STYLE.source.package) / "LICENSE") as licence:
        shutil.copyfile(licence, FOLDER / "LICENSE")
    print(f"{DEFAULT_STYLE.face}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
