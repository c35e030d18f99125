"""Which letters a body is written in: UTF-8 alone. What says otherwise is refused, and never guessed at."""

from quillpost.api.errors import WrongBody

UTF_8 = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
"""Plain ASCII is UTF-8, too."""
FILES = ("text/csv", "text/tab-separated-values", "text/plain", "application/csv")
"""Of a body that is a file of people: its bytes say what it is written in."""


def require_utf8(content_type: str, *, or_file: bool = False) -> None:
    """415 if a body says that it is not in UTF-8; `or_file` where it may be a file by itself."""
    kind, *parameters = content_type.split(";")
    if or_file and kind.strip().lower() in FILES:
        return
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        charset = value.strip().strip("\"'").strip().lower()
        if name.strip().lower() == "charset" and charset and charset not in UTF_8:
            raise WrongBody(415, f"The body is declared as charset={charset[:40]}: send it in UTF-8.")
