"""All hands that this installation has: made when they are first needed, and kept."""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from threading import Lock
from typing import Protocol

from quillpost.rendering.handwriting.catalog import FURTHER, HELPER, PLAIN, Face, Style
from quillpost.rendering.handwriting.faces import NotAPreparedFace, Prepared
from quillpost.rendering.handwriting.font_preparation import prepare, recipe_key
from quillpost.rendering.handwriting.hand import FURTHER_FONTS, HELPER_FONT, PLAIN_FONT, Hand
from quillpost.rendering.handwriting.plain import PlainFace
from quillpost.rendering.handwriting.sources import FontSources

Tell = Callable[[int, int], None]


class FaceStore(Protocol):
    """Where prepared faces are kept, by their recipe."""

    def has(self, key: str) -> bool: ...

    def get(self, key: str) -> bytes | None: ...

    def put(self, key: str, data: bytes) -> None: ...


class Hands:
    """Handwriting styles by number. May be asked from several threads at once."""

    def __init__(self, sources: FontSources, store: FaceStore) -> None:
        self._sources = sources
        self._store = store
        self._guard = Lock()
        self._locks: dict[str, Lock] = {}
        self._prepared: dict[str, Prepared] = {}
        self._hands: dict[int, Hand] = {}

    @cached_property
    def styles(self) -> Mapping[int, Style]:
        """The styles whose fonts are installed."""
        return {style.number: style for style in self._sources.installed()}

    @cached_property
    def plain(self) -> PlainFace:
        return PlainFace(partial(self.prepared, PLAIN))

    def hand(self, number: int) -> Hand:
        """The hand of that number, which may take some seconds the very first time."""
        if number not in self._hands:
            style = self.styles.get(number)
            if style is None:
                raise LookupError(f"The handwriting style {number} is not installed.")
            self._hands[number] = Hand(style, self.prepared(style), self._others)
        return self._hands[number]

    def prepared(self, face: Face, tell: Tell | None = None) -> Prepared:
        """The face, from memory, from the store, or made now; two who ask at once wait for one making."""
        with self._lock_of(face):
            if face.face not in self._prepared:
                self._prepared[face.face] = self._load_or_make(face, tell)
            return self._prepared[face.face]

    def faces(self) -> list[Face]:
        """Every installed face, those that are needed first at the head."""
        faces = [PLAIN, *self.styles.values(), HELPER, *FURTHER]
        return [face for face in faces if self._sources.find(face) is not None]

    def unprepared(self) -> list[Face]:
        """Those of them that the store does not have yet."""
        return [face for face in self.faces() if not self._is_kept(recipe_key(face, self._raw(face)))]

    @cached_property
    def _others(self) -> Mapping[bytes, PlainFace]:
        """Where letters are borrowed, in this order; the big faces are read only when they are looked at."""
        further = [face for face in FURTHER if self._sources.find(face) is not None]
        late = {
            font: PlainFace(partial(self.prepared, face))
            for font, face in zip(FURTHER_FONTS, further, strict=False)
        }
        helper = PlainFace(partial(self.prepared, HELPER), has_marks=False)
        return {HELPER_FONT: helper, PLAIN_FONT: self.plain, **late}

    def _lock_of(self, face: Face) -> Lock:
        with self._guard:
            return self._locks.setdefault(face.face, Lock())

    def _raw(self, face: Face) -> bytes:
        raw = self._sources.find(face)
        if raw is None:
            raise LookupError(f"The font of {face.face} is not installed.")
        return raw

    def _is_kept(self, key: str) -> bool:
        return self._store.has(key) or self._sources.shipped(key) is not None

    def _load_or_make(self, face: Face, tell: Tell | None) -> Prepared:
        raw = self._raw(face)
        key = recipe_key(face, raw)
        kept = self._sources.shipped(key) or self._store.get(key)
        if kept is not None:
            try:
                return Prepared.from_bytes(kept)
            except NotAPreparedFace:
                pass  # cut short by a full disk, say: it is made again
        made = prepare(face, raw, tell)
        self._store.put(key, made.to_bytes())
        return made
