"""Forms of our pages, and only of them: each carries a word that no other site can know."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, TypeVar

from fastapi import Depends, Request

from quillpost.accounts.users.sessions import SignedIn
from quillpost.core.body_limits import Bounds, read_form
from quillpost.core.errors import Conflict, Invalid
from quillpost.web.api.arrival import whole_body
from quillpost.web.api.bodies import LARGEST_ID, whole_number
from quillpost.web.api.dependencies import parts_of
from quillpost.web.api.errors import HungUp, WrongBody
from quillpost.web.cookies import require_own_site
from quillpost.web.csrf import NOBODYS, About, about
from quillpost.web.sessions import MaybeReader

LARGEST_FORM = 50_000
LARGEST_PASTED = 3_000_000
"""Of a form into which one may paste some thousands of people."""
READ_AT_ONCE = 8_000
"""Bytes of a form that are read before the loop turns to others: a longer one is read apart from it."""
MOST_FIELDS = 200
FIELD = "csrf"
HEADER = "X-CSRF-Token"
FORM_TYPE = "application/x-www-form-urlencoded"

WRONG_TYPE = f"Send a form, as {FORM_TYPE}."
MOVED_ON = (
    "You have gone on to another account meanwhile, in another tab perhaps, or are no longer in the one that "
    "this page was for. Nothing was done. Open the page anew: it is then about the account that you are in."
)
OTHER_MODE = (
    "This page was opened in {} mode, and you have gone on to {} mode meanwhile, in another tab perhaps. "
    "Nothing was done. Open the page anew: it is then about the mode that you are in."
)
WRITTEN: Final = ("message", "content", "people", "rows", "disclaimer")
"""What takes somebody a while to write: it is not lost with a page that was refused."""
ODD_LETTERS = "This holds a letter that cannot be stored. Type it anew."
NO_CHOICE = "Choose one that is on the list."
ODD_LETTER = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")

_READERS: Final = ThreadPoolExecutor(2, "forms")
"""Long forms are read by these alone: however many come, pages have the other threads."""


Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Form:
    """What was filled in, and which account and mode of its reader's the page was about."""

    fields: Mapping[str, Sequence[str]]
    about: About = NOBODYS
    _made: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, name: str, make: Callable[[], Made]) -> Made:
        """What takes a while to make of it: made once, however many parts of a page ask for it."""
        if name not in self._made:
            self._made[name] = make()
        made: Made = self._made[name]
        return made

    def text(self, name: str, *, most: int = 300) -> str:
        """The field without spaces around it; "" if it is missing. Longer than `most`: `Invalid`."""
        return _good(name, self._first(name).strip(), most)

    def secret(self, name: str, *, most: int = 1_000) -> str:
        """The same to the letter: spaces count in a password."""
        return _good(name, self._first(name), most)

    def many(self, name: str, *, most: int = 100) -> list[str]:
        """Every value of a field that may be ticked several times."""
        values = self.fields.get(name, ())
        if len(values) > most:
            raise Invalid({name: [f"At most {most}, please."]})
        return [_good(name, value.strip(), 300) for value in values]

    def number(self, name: str) -> int | None:
        """An id; None if nothing is chosen. Anything else: `Invalid`."""
        written = self.text(name)
        if not written:
            return None
        number = whole_number(written)
        if not number or number > LARGEST_ID:
            raise Invalid({name: [NO_CHOICE]})
        return number

    def _first(self, name: str) -> str:
        return next(iter(self.fields.get(name, ())), "")


class MovedOn(Conflict):
    """A form of a page about one of the reader's accounts, or about one mode of it, sent when they look at
    another: `mode`, if that alone is another. `written` of it is theirs to keep."""

    def __init__(self, form: Form | None = None, *, mode: str | None = None) -> None:
        was = None if form is None else form.about.mode
        super().__init__(MOVED_ON if mode is None else OTHER_MODE.format(was, mode))
        self.mode = mode
        fields = {} if form is None else form.fields
        self.written = {name: [*filter(str.strip, fields.get(name, ()))] for name in WRITTEN}


async def posted_form(request: Request, who: MaybeReader) -> Form:
    """A form of ours that acts in the account and mode that its page was about. `MovedOn` if the reader looks
    at another by now."""
    return _of_this_page(await form_of_any_account(request), who)


async def posted_large_form(request: Request, who: MaybeReader) -> Form:
    """The same where it may be long."""
    return _of_this_page(await _own_form(request, largest=LARGEST_PASTED), who)


async def form_of_any_account(request: Request) -> Form:
    """A form of ours that says by itself which account it is for, or is for none: signing out, say, is never
    refused because somebody looks at another account. `Forbidden` unless its Origin (or Sec-Fetch-Site) is
    our own, where a browser says it, and its `csrf` field or header fits the cookie."""
    return await _own_form(request, largest=LARGEST_FORM)


async def form_with_key(request: Request) -> Form:
    """A form of a page that knows nobody by a cookie: what lets it in is in its own address, so that no other
    site can make a browser send it. Whoever asks for it has looked at that before: it may be long."""
    if not is_form(request):
        raise WrongBody(415, WRONG_TYPE)
    return Form(await _read(request, largest=LARGEST_PASTED))


def _of_this_page(form: Form, who: SignedIn | None) -> Form:
    if who is None or form.about == About.of(who):
        return form
    is_here = form.about.membership_id == who.here.membership_id
    raise MovedOn(form, mode=who.mode if is_here else None)


async def _own_form(request: Request, *, largest: int) -> Form:
    require_own_site(request)
    if not is_form(request):
        raise WrongBody(415, WRONG_TYPE)
    form = Form(await _read(request, largest=largest))
    word = request.headers.get(HEADER) or form.secret(FIELD)
    return replace(form, about=about(request, word))


PostedForm = Annotated[Form, Depends(posted_form)]
PostedLargeForm = Annotated[Form, Depends(posted_large_form)]
FormOfAnyAccount = Annotated[Form, Depends(form_of_any_account)]


def is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM_TYPE


async def whole_form(request: Request, *, largest: int = LARGEST_FORM) -> bytes:
    """What was sent, not endless."""
    try:
        return await whole_body(request.scope, request.receive, largest=largest, grow=lambda _: None)
    except HungUp:  # nobody is there to be told
        raise Invalid({"body": ["The form breaks off: send it whole."]}) from None


async def _read(request: Request, *, largest: int) -> Mapping[str, Sequence[str]]:
    body = await whole_form(request, largest=largest)
    bounds = parts_of(request).limits.bounds
    if len(body) <= READ_AT_ONCE:
        return _fields(body, bounds)
    return await asyncio.get_running_loop().run_in_executor(_READERS, _fields, body, bounds)


def _fields(body: bytes, bounds: Bounds) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    try:
        pairs = read_form(body, fields=MOST_FIELDS, bounds=bounds)
    except ValueError:  # letters that are none
        raise Invalid({"body": [f"Send at most {MOST_FIELDS} fields, in UTF-8."]}) from None
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def _good(name: str, value: str, most: int) -> str:
    if len(value) > most:
        raise Invalid({name: [f"At most {most:,} characters, please."]})
    if ODD_LETTER.search(value):
        raise Invalid({name: [ODD_LETTERS]})
    return value
