"""Forms of our pages, and only of them: each carries a word that no other site can know."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import Depends, Request

from quillpost.api.arrival import HungUp, whole_body
from quillpost.api.bodies import LARGEST_ID, whole_number
from quillpost.api.errors import WrongBody
from quillpost.kit.errors import Conflict, Invalid
from quillpost.reception.csrf import membership_of
from quillpost.reception.origins import require_own_site
from quillpost.reception.visits import MaybeReader

LARGEST_FORM = 50_000
MOST_FIELDS = 200
FIELD = "csrf"
HEADER = "X-CSRF-Token"
FORM_TYPE = "application/x-www-form-urlencoded"

WRONG_TYPE = f"Send a form, as {FORM_TYPE}."
MOVED_ON = (
    "You have gone on to another account meanwhile, in another tab perhaps, or are no longer in the one that "
    "this page was for. Nothing was done. Open the page anew: it is then about the account that you are in."
)
ODD_LETTERS = "This holds a letter that cannot be stored. Type it anew."
NO_CHOICE = "Choose one that is on the list."
KEPT_CONTROLS = "\t\r\n"


@dataclass(frozen=True, slots=True)
class Form:
    """What was filled in, and which membership of its reader's the page was about."""

    fields: Mapping[str, Sequence[str]]
    membership_id: int | None = None

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
    """A form of a page about one of the reader's accounts, sent when they look at another."""

    def __init__(self) -> None:
        super().__init__(MOVED_ON)


async def posted_form(request: Request, who: MaybeReader) -> Form:
    """A form of ours that acts in the account that its page was about. `MovedOn` if the reader looks at
    another by now."""
    form = await form_of_any_account(request)
    if who is not None and form.membership_id != who.here.membership_id:
        raise MovedOn
    return form


async def form_of_any_account(request: Request) -> Form:
    """A form of ours that says by itself which account it is for, or is for none: signing out, say, is never
    refused because somebody looks at another account. `Forbidden` unless its Origin (or Sec-Fetch-Site) is
    our own, where a browser says it, and its `csrf` field or header fits the cookie."""
    require_own_site(request)
    if not is_form(request):
        raise WrongBody(415, WRONG_TYPE)
    form = Form(_fields(await whole_form(request)))
    word = request.headers.get(HEADER) or form.secret(FIELD)
    return replace(form, membership_id=membership_of(request, word))


PostedForm = Annotated[Form, Depends(posted_form)]
FormOfAnyAccount = Annotated[Form, Depends(form_of_any_account)]


def is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM_TYPE


async def whole_form(request: Request) -> bytes:
    """What was sent, not endless."""
    try:
        return await whole_body(request.scope, request.receive, largest=LARGEST_FORM, grow=lambda _: None)
    except HungUp:  # nobody is there to be told
        raise Invalid({"body": ["The form breaks off: send it whole."]}) from None


def _fields(body: bytes) -> Mapping[str, Sequence[str]]:
    try:
        return parse_qs(
            body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS
        )
    except ValueError:  # letters that are none, or too many fields
        raise Invalid({"body": [f"Send at most {MOST_FIELDS} fields, in UTF-8."]}) from None


def _good(name: str, value: str, most: int) -> str:
    if len(value) > most:
        raise Invalid({name: [f"At most {most:,} characters, please."]})
    if any(letter < " " and letter not in KEPT_CONTROLS for letter in value):
        raise Invalid({name: [ODD_LETTERS]})
    return value
