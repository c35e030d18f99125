"""Where the typefaces' files are on this machine."""

import zlib
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from quillpost.rendering.handwriting.catalog import STYLES, FaceRecipe, Style

SHIPPED_FACES_FOLDER = "shipped"


class FontSources:
    """Font packages of Python, and those of npm where a `node_modules` folder has them."""

    def __init__(self, node_modules: Path | None) -> None:
        self._node_modules = node_modules

    def read_font(self, face: FaceRecipe) -> bytes | None:
        """The face's TrueType file; nothing where its package is not installed."""
        file = self._font_file(face)
        return file.read_bytes() if file else None

    def installed(self) -> tuple[Style, ...]:
        """The styles whose files are there, by number."""
        return tuple(style for style in STYLES if self._font_file(style))

    def read_shipped_face(self, key: str) -> bytes | None:
        """A face that came with us, prepared by this very recipe."""
        file = resources.files("quillpost.rendering.handwriting") / SHIPPED_FACES_FOLDER / f"{key}.face"
        return zlib.decompress(file.read_bytes()) if file.is_file() else None

    def _font_file(self, face: FaceRecipe) -> Traversable | None:
        package = self._package_folder(face)
        file = package / face.source.path if package else None
        return file if file and file.is_file() else None

    def _package_folder(self, face: FaceRecipe) -> Traversable | None:
        if face.source.is_from_npm:
            return self._node_modules / face.source.package if self._node_modules else None
        try:
            return resources.files(face.source.package)
        except ModuleNotFoundError:
            return None
