"""Forms of our pages, protected against requests from other sites."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, TypeVar

from fastapi import Depends, Request

from quillpost.accounts.users.sessions import SignedInUser
from quillpost.core.errors import Conflict, Invalid
from quillpost.core.exact_json import BodyLimits, parse_form
from quillpost.web.api.arrival import read_whole_body
from quillpost.web.api.errors import RequestAborted, UnreadableBody
from quillpost.web.dependencies import MAX_ID, get_container, parse_digits
from quillpost.web.security import NO_CONTEXT, ONE_TIME_FIELD, PageContext, require_own_site, verify_csrf_token
from quillpost.web.sessions import OptionalUser

MAX_FORM_BYTES = 50_000
MAX_LARGE_FORM_BYTES = 3_000_000
"""Of a form with some thousands of pasted people."""
MAX_INLINE_BYTES = 8_000
"""A longer form is parsed in a thread."""
MAX_FIELDS = 200
CSRF_FIELD = "csrf"
CSRF_HEADER = "X-CSRF-Token"
FORM_TYPE = "application/x-www-form-urlencoded"

WRONG_TYPE = f"Send a form, as {FORM_TYPE}."
OTHER_ACCOUNT = (
    "You have gone on to another account meanwhile, in another tab perhaps, or are no longer in the one that "
    "this page was for. Nothing was done. Open the page anew: it is then about the account that you are in."
)
OTHER_MODE = (
    "This page was opened in {} mode, and you have gone on to {} mode meanwhile, in another tab perhaps. "
    "Nothing was done. Open the page anew: it is then about the mode that you are in."
)
PRESERVED_FIELDS: Final = ("message", "content", "people", "rows", "disclaimer")
"""What takes a while to write is not lost with a refused page."""
INVALID_CHARACTER = "This holds a letter that cannot be stored. Type it anew."
INVALID_CHOICE = "Choose one that is on the list."
CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")

_READERS: Final = ThreadPoolExecutor(2, "forms")
"""However many long forms come, pages have the other threads."""


Cached = TypeVar("Cached")


@dataclass(frozen=True, slots=True)
class Form:
    """Its fields, and which account and mode its page was about."""

    fields: Mapping[str, Sequence[str]]
    page_context: PageContext = NO_CONTEXT
    _cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def cached(self, name: str, make: Callable[[], Cached]) -> Cached:
        """Computed once for each form."""
        if name not in self._cache:
            self._cache[name] = make()
        value: Cached = self._cache[name]
        return value

    def text(self, name: str, *, max_length: int = 300) -> str:
        """The field without spaces around it; "" if it is missing. Longer than `max_length`: `Invalid`."""
        return _check_text(name, self._first(name).strip(), max_length)

    def secret(self, name: str, *, max_length: int = 1_000) -> str:
        """Exactly as typed: spaces count in a password."""
        return _check_text(name, self._first(name), max_length)

    def values(self, name: str, *, max_count: int = 100) -> list[str]:
        values = self.fields.get(name, ())
        if len(values) > max_count:
            raise Invalid({name: [f"At most {max_count}, please."]})
        return [_check_text(name, value.strip(), 300) for value in values]

    def number(self, name: str) -> int | None:
        """An id; None if nothing is chosen. Anything else: `Invalid`."""
        text = self.text(name)
        if not text:
            return None
        parsed = parse_digits(text)
        if not parsed or parsed > MAX_ID:
            raise Invalid({name: [INVALID_CHOICE]})
        return parsed

    @property
    def one_time_key(self) -> str:
        return self.text(ONE_TIME_FIELD)

    def _first(self, name: str) -> str:
        return next(iter(self.fields.get(name, ())), "")


class AccountSwitched(Conflict):
    """The reader has gone on to another account, or only to another `mode`, since the page was opened.
    `unsaved_text` is shown again."""

    def __init__(self, form: Form | None = None, *, mode: str | None = None) -> None:
        former_mode = None if form is None else form.page_context.mode
        super().__init__(OTHER_ACCOUNT if mode is None else OTHER_MODE.format(former_mode, mode))
        self.mode = mode
        fields = {} if form is None else form.fields
        self.unsaved_text = {name: [*filter(str.strip, fields.get(name, ()))] for name in PRESERVED_FIELDS}


async def read_posted_form(request: Request, user: OptionalUser) -> Form:
    """`AccountSwitched` if its page was about another account or mode."""
    return _require_same_page(await read_form_of_any_account(request), user)


async def read_posted_large_form(request: Request, user: OptionalUser) -> Form:
    return _require_same_page(await _read_own_form(request, max_bytes=MAX_LARGE_FORM_BYTES), user)


async def read_form_of_any_account(request: Request) -> Form:
    """Whichever account its page was about: signing out, say, is never refused for that. `Forbidden` unless the Origin
    (or Sec-Fetch-Site) is ours, and the `csrf` field or header fits the cookie."""
    return await _read_own_form(request, max_bytes=MAX_FORM_BYTES)


async def read_form_with_key(request: Request) -> Form:
    """Of a page without cookies: the key in its address is what no other site knows. It may be long."""
    if not has_form_body(request):
        raise UnreadableBody(415, WRONG_TYPE)
    return Form(await _read_fields(request, max_bytes=MAX_LARGE_FORM_BYTES))


def _require_same_page(form: Form, user: SignedInUser | None) -> Form:
    if user is None or form.page_context == PageContext.from_user(user):
        return form
    is_same_account = form.page_context.membership_id == user.here.membership_id
    raise AccountSwitched(form, mode=user.mode if is_same_account else None)


async def _read_own_form(request: Request, *, max_bytes: int) -> Form:
    require_own_site(request)
    if not has_form_body(request):
        raise UnreadableBody(415, WRONG_TYPE)
    form = Form(await _read_fields(request, max_bytes=max_bytes))
    token = request.headers.get(CSRF_HEADER) or form.secret(CSRF_FIELD)
    return replace(form, page_context=verify_csrf_token(request, token))


PostedForm = Annotated[Form, Depends(read_posted_form)]
PostedLargeForm = Annotated[Form, Depends(read_posted_large_form)]
FormOfAnyAccount = Annotated[Form, Depends(read_form_of_any_account)]


def has_form_body(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM_TYPE


async def read_form_body(request: Request, *, max_bytes: int = MAX_FORM_BYTES) -> bytes:
    try:
        return await read_whole_body(request.scope, request.receive, max_bytes=max_bytes, report_size=lambda _: None)
    except RequestAborted:  # the client has disconnected
        raise Invalid({"body": ["The form breaks off: send it whole."]}) from None


async def _read_fields(request: Request, *, max_bytes: int) -> Mapping[str, Sequence[str]]:
    body = await read_form_body(request, max_bytes=max_bytes)
    bounds = get_container(request).limits.bounds
    if len(body) <= MAX_INLINE_BYTES:
        return _parse_fields(body, bounds)
    return await asyncio.get_running_loop().run_in_executor(_READERS, _parse_fields, body, bounds)


def _parse_fields(body: bytes, bounds: BodyLimits) -> Mapping[str, Sequence[str]]:
    values_by_name: dict[str, list[str]] = {}
    try:
        pairs = parse_form(body, max_fields=MAX_FIELDS, limits=bounds)
    except ValueError:  # letters that are none
        raise Invalid({"body": [f"Send at most {MAX_FIELDS} fields, in UTF-8."]}) from None
    for name, value in pairs:
        values_by_name.setdefault(name, []).append(value)
    return values_by_name


def _check_text(name: str, value: str, max_length: int) -> str:
    if len(value) > max_length:
        raise Invalid({name: [f"At most {max_length:,} characters, please."]})
    if CONTROL_CHARACTER.search(value):
        raise Invalid({name: [INVALID_CHARACTER]})
    return value
