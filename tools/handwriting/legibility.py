"""How much of unseen notes a reader program gets right: word and character error rates by edit distance."""

import io
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random

from PIL import ImageOps

from .pages import Pages, darkness, ink_box

READER = "tesseract"
SENTENCES: list[str] = [
    sentence
    for sentences in tomllib.loads(Path(__file__).with_name("notes.toml").read_text("utf-8")).values()
    for sentence in sentences
]

_DPI = 300
_MARGIN = 60  # pixels of white around the note: the reader expects paper there
_READERS = 2
_SECONDS = 120
_SENTENCE_COUNTS = (3, 4)
_CUT_SHARE = 0.8  # no misread space makes so many words one
_NOT_SPELLING = re.compile(r"[^0-9a-z]")


@dataclass(frozen=True, slots=True)
class Errors:
    """Edits that turn what was read into what was written, and how much was written.

    Of `cut_notes` the reader returned far fewer words than there are: it took a line for something else than text.
    """

    notes: int = 0
    cut_notes: int = 0
    words: int = 0
    word_errors: int = 0
    chars: int = 0
    char_errors: int = 0

    @property
    def word_rate(self) -> float:
        return self.word_errors / self.words if self.words else 0.0

    @property
    def char_rate(self) -> float:
        return self.char_errors / self.chars if self.chars else 0.0

    def __add__(self, other: "Errors") -> "Errors":
        return Errors(
            self.notes + other.notes,
            self.cut_notes + other.cut_notes,
            self.words + other.words,
            self.word_errors + other.word_errors,
            self.chars + other.chars,
            self.char_errors + other.char_errors,
        )


def has_reader() -> bool:
    return shutil.which(READER) is not None


def measure_legibility(pages: Pages, style: int, manner: str, notes: int) -> Errors:
    """Of this style's first `notes` notes, which do not depend on how many other styles there are."""
    texts = [compose_note(style, number) for number in range(notes)]
    with ThreadPoolExecutor(_READERS) as readers:
        readings = list(readers.map(_read, _draw_notes(pages, texts, style, manner)))
    return sum(map(compare_texts, texts, readings), Errors())


def compose_note(style: int, number: int) -> str:
    """The same in every run."""
    random = Random(f"{style} {number}")
    return " ".join(random.sample(SENTENCES, random.choice(_SENTENCE_COUNTS)))


def compare_texts(written: str, read: str) -> Errors:
    """Without regard to case and punctuation."""
    written_words, read_words = spelled_words(written), spelled_words(read)
    written_chars, read_chars = " ".join(written_words), " ".join(read_words)
    return Errors(
        notes=1,
        cut_notes=int(len(read_words) < _CUT_SHARE * len(written_words)),
        words=len(written_words),
        word_errors=edit_distance(written_words, read_words),
        chars=len(written_chars),
        char_errors=edit_distance(written_chars, read_chars),
    )


def spelled_words(text: str) -> list[str]:
    """Lowercase, with nothing but letters and digits."""
    return [word for word in (_NOT_SPELLING.sub("", part) for part in text.lower().split()) if word]


def edit_distance(first: Sequence[str], second: Sequence[str]) -> int:
    """The fewest insertions, deletions and replacements."""
    costs = list(range(len(second) + 1))
    for row, item in enumerate(first, start=1):
        diagonal, costs[0] = costs[0], row
        for column, other in enumerate(second, start=1):
            replaced = diagonal + (item != other)
            diagonal = costs[column]
            costs[column] = min(replaced, diagonal + 1, costs[column - 1] + 1)
    return costs[-1]


def _draw_notes(pages: Pages, texts: Iterable[str], style: int, manner: str) -> Iterator[bytes]:
    """PNGs of the notes on white paper."""
    for draw, text in enumerate(texts):
        page = pages.draw(text, style, manner, draw=draw, dpi=_DPI)
        note = ImageOps.expand(page.crop(ink_box(darkness(page))), _MARGIN, fill=255)
        file = io.BytesIO()
        note.save(file, "PNG", dpi=(_DPI, _DPI))
        yield file.getvalue()


def _read(png: bytes) -> str:
    command = [READER, "stdin", "stdout", "--psm", "6", "-l", "eng"]
    # More threads of its own make it slower, and the machine is shared.
    environment = os.environ | {"OMP_THREAD_LIMIT": "1"}
    done = subprocess.run(command, input=png, capture_output=True, timeout=_SECONDS, check=True, env=environment)
    return done.stdout.decode("utf-8")
