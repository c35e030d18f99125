"""The installed handwriting styles, prepared on first use."""

import zlib
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from threading import Condition
from typing import Protocol

from cachetools import cached

from quillpost.rendering.handwriting import faces as face_files
from quillpost.rendering.handwriting.faces import InvalidPreparedFace, PreparedFace, recipe_key
from quillpost.rendering.handwriting.hand import FALLBACK_FONTS, HELPER_FONT, PLAIN_FONT, Hand
from quillpost.rendering.handwriting.models import FALLBACK_FACES, HELPER_FACE, PLAIN_FACE, STYLES, FaceRecipe, Style
from quillpost.rendering.handwriting.text import PlainFace

SHIPPED_FACES_FOLDER = "shipped"


class FontSources:
    """Font files of Python packages, and of npm packages in `node_modules`."""

    def __init__(self, node_modules: Path | None) -> None:
        self._node_modules = node_modules

    def read_font(self, face: FaceRecipe) -> bytes | None:
        """None where the package is not installed."""
        file = self._font_file(face)
        return file.read_bytes() if file else None

    def installed(self) -> tuple[Style, ...]:
        return tuple(style for style in STYLES if self._font_file(style))

    def read_shipped_face(self, key: str) -> bytes | None:
        """A face of this recipe that came with the release."""
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


ProgressCallback = Callable[[int, int], None]


class FaceStore(Protocol):
    def has(self, key: str) -> bool: ...

    def get(self, key: str) -> bytes | None: ...

    def put(self, key: str, data: bytes) -> None: ...


class Hands:
    """Handwriting styles by number. Thread-safe."""

    def __init__(self, sources: FontSources, store: FaceStore) -> None:
        self._sources = sources
        self._store = store
        self._prepare_once = cached({}, key=lambda face, _on_progress: face.face, condition=Condition())(
            self._load_or_prepare
        )
        self._hands: dict[int, Hand] = {}

    @cached_property
    def styles(self) -> Mapping[int, Style]:
        return {style.number: style for style in self._sources.installed()}

    @cached_property
    def plain(self) -> PlainFace:
        return PlainFace(partial(self.prepare_face, PLAIN_FACE))

    def hand(self, number: int) -> Hand:
        """The first call may take some seconds."""
        if number not in self._hands:
            style = self.styles.get(number)
            if style is None:
                raise LookupError(f"The handwriting style {number} is not installed.")
            self._hands[number] = Hand(style, self.prepare_face(style), self._fallback_faces)
        return self._hands[number]

    def prepare_face(self, face: FaceRecipe, on_progress: ProgressCallback | None = None) -> PreparedFace:
        """From memory, from the store, or made now; concurrent callers wait for one preparation."""
        return self._prepare_once(face, on_progress)

    def installed_faces(self) -> list[FaceRecipe]:
        """Those needed first come first."""
        faces = [PLAIN_FACE, *self.styles.values(), HELPER_FACE, *FALLBACK_FACES]
        return [face for face in faces if self._sources.read_font(face) is not None]

    def unprepared_faces(self) -> list[FaceRecipe]:
        return [
            face for face in self.installed_faces() if not self._is_stored(recipe_key(face, self._font_bytes(face)))
        ]

    @cached_property
    def _fallback_faces(self) -> Mapping[bytes, PlainFace]:
        """In the order in which letters are borrowed; big faces are read only when needed."""
        fallbacks = [face for face in FALLBACK_FACES if self._sources.read_font(face) is not None]
        fallback_faces = {
            font: PlainFace(partial(self.prepare_face, face))
            for font, face in zip(FALLBACK_FONTS, fallbacks, strict=False)
        }
        helper = PlainFace(partial(self.prepare_face, HELPER_FACE), has_marks=False)
        return {HELPER_FONT: helper, PLAIN_FONT: self.plain, **fallback_faces}

    def _font_bytes(self, face: FaceRecipe) -> bytes:
        data = self._sources.read_font(face)
        if data is None:
            raise LookupError(f"The font of {face.face} is not installed.")
        return data

    def _is_stored(self, key: str) -> bool:
        return self._store.has(key) or self._sources.read_shipped_face(key) is not None

    def _load_or_prepare(self, face: FaceRecipe, on_progress: ProgressCallback | None) -> PreparedFace:
        font_bytes = self._font_bytes(face)
        key = recipe_key(face, font_bytes)
        stored = self._sources.read_shipped_face(key) or self._store.get(key)
        if stored is not None:
            try:
                return PreparedFace.from_bytes(stored)
            except InvalidPreparedFace:
                pass  # cut short by a full disk, say: it is made again
        prepared = face_files.prepare_face(face, font_bytes, on_progress)
        self._store.put(key, prepared.to_bytes())
        return prepared
