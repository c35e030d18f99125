"""What comes in: JSON to the letter, or a form of single values."""

import re
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from quillpost.api.errors import WrongBody
from quillpost.kit import exact_json
from quillpost.kit.errors import Invalid

LARGEST_ID = 2**63 - 1
BEYOND_IDS = LARGEST_ID + 1
HALF_A_CHARACTER = re.compile("[\ud800-\udfff]")


LARGE_BODY = 50_000


class FormText(str):
    """A form's value: always text, so numbers and flags are read out of it."""

    __slots__ = ()


def whole_number(text: str) -> int | None:
    """The number that these digits write, or None. Whatever no id can be is `BEYOND_IDS`, however long."""
    if not (text.isascii() and text.isdigit()):
        return None
    return min(int(text), BEYOND_IDS) if len(text) <= len(str(BEYOND_IDS)) else BEYOND_IDS


def _number(value: object) -> object:
    """Ids may be strings of digits; any other string is left to be refused."""
    number = whole_number(value) if isinstance(value, str) else None
    return value if number is None else number


def _flag(value: object) -> object:
    if isinstance(value, FormText) and value.lower() in ("true", "false", "1", "0"):
        return value.lower() in ("true", "1")
    return value


def _text(value: object) -> object:
    if isinstance(value, str):
        if "\x00" in value:
            raise ValueError("This text holds a NUL character, which cannot be printed or stored.")
        if not value.isascii() and HALF_A_CHARACTER.search(value):
            raise ValueError("This text holds a character that does not exist (a lone surrogate).")
    return str(value) if isinstance(value, FormText) else value


Id = Annotated[int, BeforeValidator(_number), Field(ge=1, le=LARGEST_ID)]
Whole = Annotated[int, BeforeValidator(_number)]
Flag = Annotated[bool, BeforeValidator(_flag)]
Text = Annotated[str, BeforeValidator(_text)]


class Body(BaseModel):
    """A JSON object or a form that a caller sends. What it holds beyond our fields changes nothing."""

    model_config = ConfigDict(strict=True, extra="allow", populate_by_name=True)

    def given(self) -> dict[str, Any]:
        """Our fields that the caller named, by our names; what was left out is not in it."""
        return {
            name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set
        }

    def notices(self) -> dict[str, str]:
        """The header that names what was ignored, so that a typo does not go unnoticed."""
        return {"X-Ignored-Fields": ", ".join(sorted(self.model_extra))} if self.model_extra else {}


class ReadRequest(Request):
    """A request whose body has been read and understood already."""

    understood: Any = None

    async def json(self) -> Any:
        return self.understood


async def understand(request: Request) -> Request:
    """The request with its body parsed, or a clear refusal."""
    body = await request.body()
    if not body.strip():
        request._body = b""
        return request
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        # A large body takes its time; the loop has others to serve.
        value = await run_in_threadpool(_json, body) if len(body) > LARGE_BODY else _json(body)
    elif kind == "application/x-www-form-urlencoded":
        value = _form(body)
    else:
        raise WrongBody(415)
    scope = dict(request.scope)
    headers = [(k, v) for k, v in request.scope["headers"] if k != b"content-type"]
    scope["headers"] = [*headers, (b"content-type", b"application/json")]
    understood = ReadRequest(scope, request.receive)
    understood._body = body
    understood.understood = value
    return understood


def _json(body: bytes) -> Any:
    try:
        return exact_json.read(body)
    except exact_json.NotJson as bad:
        raise Invalid({"body": [_sayable(str(bad))]}) from None


def _sayable(text: str) -> str:
    """A sentence may quote the body, and a body may hold half a character."""
    return text.encode(errors="backslashreplace").decode()


def _form(body: bytes) -> dict[str, FormText]:
    if body.lstrip()[:1] in (b"{", b"["):
        raise WrongBody(
            415, "The body looks like JSON but is labelled as a form: send Content-Type: application/json."
        )
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=1_000
        )
    except ValueError:
        raise Invalid({"body": ["The form cannot be read."]}) from None
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Invalid({twice: ["This field is given twice."]})
    return {name: FormText(value) for name, value in pairs}
