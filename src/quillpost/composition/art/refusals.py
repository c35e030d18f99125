"""Why something that came in cannot be printed."""


class BadArt(Exception):
    """It cannot be printed; `message` is a sentence for whoever sent it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class BadImage(BadArt):
    """A picture that cannot be printed."""


class BadPdf(BadArt):
    """A PDF that cannot be printed."""


class TooMuch(BadArt):
    """It was printable, and takes more to be drawn than one picture may."""
