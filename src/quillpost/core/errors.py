"""The ways a request can fail. Raised anywhere; only `web/api/errors.py` knows their HTTP form."""

from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar


class Message(str):
    """A sentence of the API with the `code` by which rules and pages know it, and the `params` that it names."""

    code: str
    params: Mapping[str, Any]

    def __new__(cls, code: str, text: str, **params: Any) -> Self:
        message = super().__new__(cls, text)
        message.code, message.params = code, params
        return message

    def __getnewargs_ex__(self) -> tuple[tuple[str, str], Mapping[str, Any]]:
        return (self.code, str(self)), self.params

    def to_json(self) -> dict[str, Any]:
        params = {name: each.to_json() if isinstance(each, Message) else each for name, each in self.params.items()}
        return {"code": self.code, "text": str(self), "params": params}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """The message again; a param that is an object was a message too."""
        params = {
            name: cls.from_json(each) if isinstance(each, dict) else each for name, each in stored["params"].items()
        }
        return cls(stored["code"], stored["text"], **params)


Text = TypeVar("Text", bound=str)


def add_note(message: Text, note: str) -> Text | Message:
    """`message (note)`; just the message where the note is empty."""
    return Message("noted", f"{message} ({note})", message=message, note=note) if note else message


class QuillpostError(Exception):
    """A failure that a caller can understand and act on."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    @property
    def code(self) -> str | None:
        return self.message.code if isinstance(self.message, Message) else None


class Invalid(QuillpostError):
    """The request itself is wrong; `fields` has the errors by dotted path."""

    def __init__(self, fields: Mapping[str, Sequence[str]], message: str | None = None) -> None:
        self.fields = {name: list(errors) for name, errors in fields.items()}
        first = next(iter(self.fields.values()), [""])[0]
        super().__init__(message or first or "The given data was invalid.")


class Refused(QuillpostError):
    """Well formed, but it names something that is not the caller's, or no longer in that state."""


class NoMatch(Refused):
    """A search without a result."""


class Unauthenticated(QuillpostError):
    """No token, or not one of ours."""

    def __init__(self) -> None:
        super().__init__("Unauthenticated.")


class Unpaid(QuillpostError):
    """The account's credit is too low."""


class Forbidden(QuillpostError):
    """The token may not do this."""


class NotFound(QuillpostError):
    """Unknown, or another account's: the same answer."""

    def __init__(self) -> None:
        super().__init__("Not Found")


class Conflict(QuillpostError):
    """It clashes with another call; `retry_after` is set when waiting helps."""

    def __init__(self, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Throttled(QuillpostError):
    """Too many calls."""

    def __init__(self, *, retry_after: int) -> None:
        super().__init__(f"Too many requests. Try again in {retry_after} seconds.")
        self.retry_after = retry_after


class Unavailable(QuillpostError):
    """A dependency does not answer; nothing was half-written."""


class Overloaded(Unavailable):
    """Too much to do in time; nothing was begun."""

    def __init__(self) -> None:
        super().__init__(
            "The service is busy, and this call has waited long enough for its turn. Nothing was done. "
            "Try again in a few seconds, with fewer calls at once."
        )


class NotReady(QuillpostError):
    """The service cannot start, or a command cannot run: one sentence for an operator."""
