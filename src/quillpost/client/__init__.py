"""A client of the API, which knows nothing of the service but what its description says."""

from quillpost.client.clients import AsyncQuillpost, Quillpost
from quillpost.client.errors import (
    Conflict,
    Forbidden,
    NotFound,
    QuillpostError,
    RateLimited,
    Refused,
    ServiceFailed,
    Unauthenticated,
    Unavailable,
    Unpaid,
    Unreachable,
    ValidationFailed,
    WrongSignature,
)
from quillpost.client.events import Event, verify_webhook
from quillpost.client.responses import AsyncPages, Pages, ResponseArray, ResponseInfo, ResponseObject, about

__all__ = [
    "AsyncPages",
    "AsyncQuillpost",
    "Conflict",
    "Event",
    "Forbidden",
    "NotFound",
    "Pages",
    "Quillpost",
    "QuillpostError",
    "RateLimited",
    "Refused",
    "ResponseArray",
    "ResponseInfo",
    "ResponseObject",
    "ServiceFailed",
    "Unauthenticated",
    "Unavailable",
    "Unpaid",
    "Unreachable",
    "ValidationFailed",
    "WrongSignature",
    "about",
    "verify_webhook",
]
