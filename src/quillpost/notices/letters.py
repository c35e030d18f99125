"""Text messages in letters that every phone shows: the GSM alphabet."""

from anyascii import anyascii

from quillpost.kit.text import one_line

GSM = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    "ÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
ESCAPED = frozenset("^{}\\[~]|€")
"""Letters of the second table: each takes the place of two."""

TEXT_PLACES = 160
"""What one text message holds; a longer one is sent, and paid, as several."""


def as_text_message(text: str, *, places: int = TEXT_PLACES) -> str:
    """The same in letters that fit into one text message: what the alphabet lacks is written as it is best
    read, and the end is cut."""
    letters = [letter for each in one_line(text, most=4 * places) for letter in _known(each)]
    if _places(letters) <= places:
        return "".join(letters)
    while _places(letters) > places - 3:
        letters.pop()
    return "".join(letters).rstrip() + "..."


def _known(letter: str) -> str:
    if letter in GSM or letter in ESCAPED:
        return letter
    return "".join(each for each in anyascii(letter) if each in GSM)


def _places(letters: list[str]) -> int:
    return len(letters) + sum(each in ESCAPED for each in letters)
