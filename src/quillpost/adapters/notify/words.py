"""What the other side says, as it can be kept and shown."""

LONGEST = 300


def one_line(said: str) -> str:
    """One short line. What no database stores and no console shows is marked: a server that does not speak
    UTF-8 leaves half characters, and JSON may spell a zero."""
    short = " ".join(said.split())[:LONGEST]
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in short)
