"""Faces ready to write with, and the small file in which one is kept."""

import io
import json
import zipfile
from dataclasses import dataclass
from typing import Any, Self

_SOURCE, _PROGRAM, _FACE_DATA = "source.ttf", "program.ttf", "facts.json"
_FIXED_DATE = (1980, 1, 1, 0, 0, 0)


class InvalidPreparedFace(ValueError):
    """The bytes are no prepared face: cut short, changed, or of another make."""


@dataclass(frozen=True, eq=False)
class PreparedFace:
    """A face ready to write with: made once from a source font and a recipe, then kept.

    All measures are thousandths of an em. `source` may have other units: shape with HarfBuzz's scale
    set to 1000, and the advances that it answers are those of `advances`.
    """

    name: str
    """A PostScript name."""
    source: bytes
    """TrueType, static, with its layout tables: what HarfBuzz shapes with."""
    program: bytes
    """TrueType for embedding: 1000 units an em, every take of every glyph, no layout tables, no hints."""
    takes: int
    """How many shapes each glyph has beside its true one."""
    source_numbers: tuple[int, ...]
    """For each base glyph its glyph number in `source`."""
    advances: tuple[int, ...]
    """For each base glyph; the same for all of its takes."""
    boxes: tuple[tuple[int, int, int, int], ...]
    """For each base glyph the left, bottom, right and top of the source's ink; zeros when empty."""
    letters: dict[str, int]
    """Character to base glyph: letters that have ink, and the space."""
    x_height: int
    cap_height: int

    def glyph_number(self, base: int, take: int) -> int:
        """The glyph in `program`; the take numbered `takes` is the source's own true shape."""
        return 1 + base * (self.takes + 1) + take

    def to_bytes(self) -> bytes:
        face_data = {
            "name": self.name,
            "takes": self.takes,
            "source_numbers": self.source_numbers,
            "advances": self.advances,
            "boxes": self.boxes,
            "letters": dict(sorted(self.letters.items())),
            "x_height": self.x_height,
            "cap_height": self.cap_height,
        }
        members = {
            _SOURCE: self.source,
            _PROGRAM: self.program,
            _FACE_DATA: json.dumps(face_data, separators=(",", ":")).encode(),
        }
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, content in members.items():
                archive.writestr(zipfile.ZipInfo(name, _FIXED_DATE), content)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The face that was kept; NotAPreparedFace if the bytes are not what was written."""
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                source, program, face_data = (archive.read(name) for name in (_SOURCE, _PROGRAM, _FACE_DATA))
            return cls(source=source, program=program, **_face_fields(json.loads(face_data)))
        except (zipfile.BadZipFile, EOFError, KeyError, TypeError, ValueError) as error:
            raise InvalidPreparedFace(str(error)) from error


def _face_fields(face_data: dict[str, Any]) -> dict[str, Any]:
    """What JSON gives as lists, as the tuples that they were."""
    return face_data | {
        "source_numbers": tuple(face_data["source_numbers"]),
        "advances": tuple(face_data["advances"]),
        "boxes": tuple(tuple(box) for box in face_data["boxes"]),
    }
