"""What can go wrong with a call: one family, by what its caller can do about it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2


class QuillpostError(Exception):
    """A call that came to nothing. `status` and `request_id` are None where no answer came."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.request_id = request_id
        self.retry_after = retry_after
        """Seconds to wait before another try, where the service said so."""

    def __str__(self) -> str:
        known = [str(self.status)] if self.status is not None else []
        if self.request_id is not None:
            known.append(f"request {self.request_id}")
        return f"{self.message} ({', '.join(known)})" if known else self.message


class UnreachableError(QuillpostError):
    """No answer came, and the call may have had an effect: with an `idempotency_key` of yours it can be made again."""


class BadRequestError(QuillpostError):
    """400: an id in the call that is unknown, or a state in which this is not done."""


class AuthenticationError(QuillpostError):
    """401: a token that is missing, unknown, expired or revoked."""


class PaymentRequiredError(QuillpostError):
    """402: the account's credit does not cover it."""


class PermissionDeniedError(QuillpostError):
    """403: the token lacks the scope."""


class NotFoundError(QuillpostError):
    """404: there is no such thing, or it is another account's."""


class ConflictError(QuillpostError):
    """409: the idempotency key was used with another body, or another call was in the way all the time."""


class ValidationError(QuillpostError):
    """422: `errors` has all errors by the dotted path of their field; `ignored_fields` the unknown fields."""

    errors: Mapping[str, Sequence[str]] = {}
    ignored_fields: Sequence[str] = ()

    def __str__(self) -> str:
        unknown = f" Not known there: {', '.join(self.ignored_fields)}." if self.ignored_fields else ""
        return super().__str__() + unknown


class RateLimitError(QuillpostError):
    """429: too many calls, even after the retries."""


class ServerError(QuillpostError):
    """5xx: the service's own fault; quote the request id."""


class UnavailableError(ServerError):
    """503: storage or database out of its reach; nothing was half-written."""


class SignatureError(QuillpostError):
    """A delivery that this subscription's secret did not sign, or not just now."""


TOO_MANY = 429

BY_STATUS: Mapping[int, type[QuillpostError]] = {
    400: BadRequestError,
    401: AuthenticationError,
    402: PaymentRequiredError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    422: ValidationError,
    429: RateLimitError,
    503: UnavailableError,
}


def error_of(response: httpx2.Response) -> QuillpostError:
    status, body = response.status_code, _read_body(response)
    kind = BY_STATUS.get(status, ServerError if status >= 500 else QuillpostError)
    error = kind(
        str(body.get("message") or response.reason_phrase or "The call failed."),
        status=status,
        request_id=response.headers.get("x-request-id"),
        retry_after=retry_after(status, response.headers, now=datetime.now(UTC)),
    )
    if isinstance(error, ValidationError):
        error.errors = body.get("errors") or {}
        error.ignored_fields = listed(response.headers.get("x-ignored-fields"), ", ")
    return error


def listed(header: str | None, separator: str) -> tuple[str, ...]:
    return tuple(header.split(separator)) if header else ()


def _read_body(response: httpx2.Response) -> Mapping[str, Any]:
    """A proxy in between may answer with anything."""
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def retry_after(status: int, headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Seconds to wait, from a number or a date. The reset of the rate limit matters only once it is reached."""
    reset = headers.get("ratelimit-reset") if status == TOO_MANY else None
    for value in (headers.get("retry-after"), reset):
        if value is None:
            continue
        if value.strip().isascii() and value.strip().isdigit():
            return float(value)
        try:
            until = parsedate_to_datetime(value)
        except ValueError:
            continue
        # "-0000" is read as a time without a zone, and means UTC.
        return max(0.0, (until.replace(tzinfo=until.tzinfo or UTC) - now).total_seconds())
    return None
