"""A folder in the file store."""

from collections.abc import Iterator
from contextlib import contextmanager

from quillpost.core.ports import FileStore
from quillpost.integrations.folders.models import too_large


class StorePlace:
    """Its writes are whole by themselves. A folder there is no more than the start of a key: what moves one
    moves file after file."""

    def __init__(self, store: FileStore, folder: str) -> None:
        self._store = store
        self._folder = folder

    @property
    def shown(self) -> str:
        return f"{self._folder} in the file store"

    @contextmanager
    def open(self) -> Iterator["StorePlace"]:
        yield self

    def put(self, name: str, data: bytes, *, is_secret: bool = False) -> None:  # noqa: ARG002
        self._store.put(self._key(name), data)

    def get(self, name: str, *, most_bytes: int | None = None) -> bytes:
        data = self._store.get(self._key(name))
        if most_bytes is not None and len(data) > most_bytes:
            raise too_large(name, most_bytes)
        return data

    def exists(self, name: str) -> bool:
        key = self._key(name)
        return self._store.exists(key) or any(self._store.keys(f"{key}/"))

    def size(self, name: str) -> int | None:
        return len(self._store.get(self._key(name))) if self._store.exists(self._key(name)) else None

    def names(self, folder: str) -> list[str]:
        start = self._key(folder) + "/"
        inside = (key.removeprefix(start).partition("/")[0] for key in self._store.keys(start))
        return sorted(set(inside))

    def rename(self, old: str, new: str) -> bool:
        if self.exists(new):
            return False
        start = self._key(old)
        moved = [start] if self._store.exists(start) else list(self._store.keys(f"{start}/"))
        for key in moved or [start]:  # a key that is not there says so
            self._store.put(self._key(new) + key.removeprefix(start), self._store.get(key))
        for key in moved:
            self._store.delete(key)
        return True

    def delete(self, name: str) -> None:
        key = self._key(name)
        # A folder of this machine cannot be removed as if it were a file.
        for each in list(self._store.keys(f"{key}/")) or [key]:
            self._store.delete(each)

    def _key(self, name: str) -> str:
        return f"{self._folder}/{name}" if name else self._folder
