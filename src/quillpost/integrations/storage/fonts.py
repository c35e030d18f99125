"""Prepared faces in a folder: each is made once for all processes that share it."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path


class FaceFolder:
    """Files by recipe. One that is there is whole: it gets its name when it has been written.

    A folder that cannot be used costs time and nothing else: faces are then made again when needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def has(self, key: str) -> bool:
        return (self._folder / key).is_file()

    def get(self, key: str) -> bytes | None:
        try:
            return (self._folder / key).read_bytes()
        except OSError:
            return None

    def put(self, key: str, data: bytes) -> None:
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            descriptor, draft_path = tempfile.mkstemp(dir=self._folder, prefix=".new-")
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                Path(draft_path).chmod(0o644)
                Path(draft_path).replace(self._folder / key)
            except OSError:
                Path(draft_path).unlink(missing_ok=True)
