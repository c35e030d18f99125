"""What comes of a stranger's file in the end: a plain one that composing can pass through."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PrintablePicture:
    """A JPEG or PNG file; `width` and `height` are as seen, upright.

    `notes` are sentences about what was changed in a way that its owner may want to know.
    """

    data: bytes
    content_type: str
    width: int
    height: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PrintablePages:
    """A PDF of letter pages.

    `notes` are sentences about what was changed in a way that its owner may want to know.
    """

    data: bytes
    count: int
    notes: tuple[str, ...] = ()
