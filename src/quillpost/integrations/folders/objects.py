"""A folder in the file store."""

from collections.abc import Iterator
from contextlib import contextmanager

from quillpost.core.ports import FileStore
from quillpost.integrations.folders.models import build_too_large_error


class StorageFolder:
    """Its writes are whole by themselves. A folder there is no more than the start of a key: what moves one
    moves file after file."""

    def __init__(self, store: FileStore, folder: str) -> None:
        self._store = store
        self._folder = folder

    @property
    def label(self) -> str:
        return f"{self._folder} in the file store"

    @contextmanager
    def open(self) -> Iterator["StorageFolder"]:
        yield self

    def put(self, name: str, data: bytes, *, is_secret: bool = False) -> None:  # noqa: ARG002
        self._store.put(self._key(name), data)

    def get(self, name: str, *, max_bytes: int | None = None) -> bytes:
        data = self._store.get(self._key(name))
        if max_bytes is not None and len(data) > max_bytes:
            raise build_too_large_error(name, max_bytes)
        return data

    def exists(self, name: str) -> bool:
        key = self._key(name)
        return self._store.exists(key) or any(self._store.keys(f"{key}/"))

    def size(self, name: str) -> int | None:
        return len(self._store.get(self._key(name))) if self._store.exists(self._key(name)) else None

    def names(self, folder: str) -> list[str]:
        key_prefix = self._key(folder) + "/"
        names = (key.removeprefix(key_prefix).partition("/")[0] for key in self._store.keys(key_prefix))
        return sorted(set(names))

    def rename(self, old: str, new: str) -> bool:
        if self.exists(new):
            return False
        old_key = self._key(old)
        old_keys = [old_key] if self._store.exists(old_key) else list(self._store.keys(f"{old_key}/"))
        for key in old_keys or [old_key]:  # a key that is not there says so
            self._store.put(self._key(new) + key.removeprefix(old_key), self._store.get(key))
        for key in old_keys:
            self._store.delete(key)
        return True

    def delete(self, name: str) -> None:
        key = self._key(name)
        # A folder of this machine cannot be removed as if it were a file.
        for file_key in list(self._store.keys(f"{key}/")) or [key]:
            self._store.delete(file_key)

    def _key(self, name: str) -> str:
        return f"{self._folder}/{name}" if name else self._folder
