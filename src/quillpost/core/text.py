"""Text that others wrote, made fit to show."""


def one_line(text: str, *, most: int) -> str:
    """Without line ends, control characters and marks that turn the direction of reading; cut to length."""
    plain = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return plain if len(plain) <= most else plain[: most - 1].rstrip() + "…"
