"""Text that others wrote, made fit to show."""


def to_one_line(text: str, *, max_length: int) -> str:
    """Without line ends, control characters and marks that turn the direction of reading; cut to length."""
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return line if len(line) <= max_length else line[: max_length - 1].rstrip() + "…"
