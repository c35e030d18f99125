"""A client of the API, which knows nothing of the service but what its description says."""

from quillpost.client.clients import AsyncQuillpost, Quillpost
from quillpost.client.errors import (
    AuthenticationError,
    BadRequestError,
    ConflictError,
    NotFoundError,
    PaymentRequiredError,
    PermissionDeniedError,
    QuillpostError,
    RateLimitError,
    ServerError,
    SignatureError,
    UnavailableError,
    UnreachableError,
    ValidationError,
)
from quillpost.client.events import Event, verify_webhook
from quillpost.client.responses import AsyncPages, Pages, ResponseArray, ResponseInfo, ResponseObject, about

__all__ = [
    "AsyncPages",
    "AsyncQuillpost",
    "AuthenticationError",
    "BadRequestError",
    "ConflictError",
    "Event",
    "NotFoundError",
    "Pages",
    "PaymentRequiredError",
    "PermissionDeniedError",
    "Quillpost",
    "QuillpostError",
    "RateLimitError",
    "ResponseArray",
    "ResponseInfo",
    "ResponseObject",
    "ServerError",
    "SignatureError",
    "UnavailableError",
    "UnreachableError",
    "ValidationError",
    "about",
    "verify_webhook",
]
