"""What comes in: JSON to the letter, a form of single values or, where a route says so, one with files."""

import asyncio
import re
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
)
from pydantic_core import CoreSchema, PydanticUseDefault, core_schema
from python_multipart.multipart import parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from quillpost.api.errors import WrongBody
from quillpost.kit import exact_json
from quillpost.kit.errors import Invalid

LARGEST_ID = 2**63 - 1
BEYOND_IDS = LARGEST_ID + 1
HALF_A_CHARACTER = re.compile("[\ud800-\udfff]")


LARGE_BODY = 50_000

MULTIPART = "multipart/form-data"
MOST_FIELDS = 100
MOST_FILES = 4
LONGEST_FIELD = 100_000
BOUNDARY = re.compile(rb"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")
AT_A_TIME = 250_000
"""Bytes of a form that are read before the loop turns to others."""

Given = TypeVar("Given")

NO_NUL = r"^[^\u0000]*$"
NOT_BLANK = r"^[^\u0000]*[^\s\u0000][^\u0000]*$"
"""For the description alone: whoever is refused is told in better words than a pattern."""


class FormText(str):
    """A form's value: always text, so numbers and flags are read out of it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Upload:
    """A file of a form. Which name and type its sender gave it is forgotten: its bytes say what it is."""

    body: bytes


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


def said(text: str | None) -> str | None:
    """What a text says: a blank one is as good as none."""
    return (text or "").strip() or None


class _NullIsLeftOut:
    """Of a field with a default: null stands for that. Typed clients write what nobody has set as null."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._read, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [handler(schema), {"type": "null"}]}

    def _read(self, value: object) -> object:
        if value is None:
            raise PydanticUseDefault
        return value


# Bounds stand before the reader: behind it the description would not show them. And they are whole in the
# floating point in which a description has them.
DIGITS = BeforeValidator(_number)
Id = Annotated[int, Field(ge=1, lt=BEYOND_IDS), DIGITS]
Whole = Annotated[int, DIGITS]
Flag = Annotated[bool, BeforeValidator(_flag)]
NULL_IS_LEFT_OUT = _NullIsLeftOut()
Switch = Annotated[Flag, NULL_IS_LEFT_OUT]
Text = Annotated[str, BeforeValidator(_text)]
SoughtText = Annotated[Text, Field(json_schema_extra={"pattern": NO_NUL})]


class Body(BaseModel):
    """A JSON object or a form that a caller sends. What it holds beyond our fields changes nothing."""

    model_config = ConfigDict(strict=True, extra="allow", populate_by_name=True)

    def given(self) -> dict[str, Any]:
        """Our fields that the caller named, by our names; what was left out is not in it."""
        return {
            name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set
        }

    @classmethod
    def ignored_in(cls, sent: Any) -> set[str]:
        """Names in what a caller sent that mean nothing to us: a typo, or a second spelling of a field."""
        if not isinstance(sent, Mapping):
            return set()
        return sent.keys() - {_spelled(spellings, sent) for spellings in _spellings(cls).values()}

    @classmethod
    def spelled(cls, names: Iterable[str], sent: Mapping[str, Any]) -> set[str]:
        """Fields of ours as the caller spelled them."""
        return {_spelled(_spellings(cls)[name], sent) or name for name in names}


def ignored_in_rows(sent: Any, field: str, known: Callable[[Mapping[str, Any]], Set[str]]) -> set[str]:
    """The same within the rows of a field, each name once, whichever rows it was in."""
    rows = sent.get(field) if isinstance(sent, Mapping) else None
    if not isinstance(rows, list):
        return set()
    return {f"{field}.*.{name}" for row in rows if isinstance(row, dict) for name in row.keys() - known(row)}


@cache
def _spellings(body: type[Body]) -> Mapping[str, Sequence[str]]:
    """Each field's names on the wire, the one that counts first."""
    found = {}
    for name, field in body.model_fields.items():
        alias = field.validation_alias
        choices = [str(choice) for choice in alias.choices] if isinstance(alias, AliasChoices) else []
        found[name] = list(dict.fromkeys([*choices, name]))
    return found


def _spelled(spellings: Sequence[str], sent: Mapping[str, Any]) -> str | None:
    """The one that the caller used."""
    return next((spelling for spelling in spellings if spelling in sent), None)


class ReadRequest(Request):
    """A request whose body has been read and understood already; `raw` is what came."""

    understood: Any = None
    raw: bytes = b""

    async def json(self) -> Any:
        return self.understood


async def understand(request: Request, *, takes_files: bool = False) -> Request:
    """The request with its body parsed, or a clear refusal."""
    body = await request.body()
    if not body.strip():
        request._body = b""
        return request
    kind = _kind(request)
    if kind == "application/json" or kind.endswith("+json"):
        value = await _apart(len(body), _json, body)
    elif kind == "application/x-www-form-urlencoded":
        value = await _apart(len(body), _form, body)
    elif kind == MULTIPART and takes_files:
        value = await _form_with_files(body, _boundary(request))
    elif kind == MULTIPART:
        raise WrongBody(415, f"No files are taken here, so {MULTIPART} is not read: send application/json.")
    else:
        raise WrongBody(415)
    scope = dict(request.scope)
    headers = [(k, v) for k, v in request.scope["headers"] if k != b"content-type"]
    scope["headers"] = [*headers, (b"content-type", b"application/json")]
    understood = ReadRequest(scope, request.receive)
    understood._body = understood.raw = body
    understood.understood = value
    return understood


async def ignored_by(body: type[Body], request: Request) -> set[str]:
    """Names in the request that mean nothing to whoever reads this body of it."""
    if not isinstance(request, ReadRequest):
        return set()
    return await _apart(len(request.raw), body.ignored_in, request.understood)


async def _apart(size: int, read: Callable[[Any], Given], what: Any) -> Given:
    """A large body takes its time; the loop has others to serve."""
    return await run_in_threadpool(read, what) if size > LARGE_BODY else read(what)


async def essence(request: Request) -> bytes:
    """What is the same when a call is repeated: a form with files is divided by other signs each time."""
    body = await request.body()
    if _kind(request) != MULTIPART:
        return body
    return body.replace(b"--" + _boundary(request), b"--")


def understand_again(raw: bytes) -> Any:
    """What a request without files said, from its body alone: an object in JSON, or else a form."""
    return _json(raw) if raw.lstrip()[:1] == b"{" else _form(raw)


def _kind(request: Request) -> str:
    return request.headers.get("content-type", "").split(";")[0].strip().lower()


def _boundary(request: Request) -> bytes:
    """What stands between the parts of a form with files."""
    _, options = parse_options_header(request.headers["content-type"])
    boundary = options.get(b"boundary", b"")
    if not BOUNDARY.fullmatch(boundary):
        raise Invalid({"body": [f"The form cannot be read: its {MULTIPART} names no boundary."]})
    return boundary


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
    return {name: FormText(value) for name, value in _once_each(pairs).items()}


def _once_each(pairs: Sequence[tuple[str, Given]]) -> dict[str, Given]:
    times = Counter(name for name, _ in pairs)
    twice = next((name for name, count in times.items() if count > 1), None)
    if twice is not None:
        raise Invalid({twice: ["This field is given twice."]})
    return dict(pairs)


class _InMemory(MultiPartParser):
    """The body is in memory, and bounded: a copy on disk would help nobody."""

    spool_max_size = sys.maxsize


async def _form_with_files(body: bytes, boundary: bytes) -> dict[str, FormText | Upload]:
    # Read as Latin-1 every byte is a letter, and comes back as it was: what is no UTF-8 can be told.
    kind = f'{MULTIPART}; boundary="{boundary.decode()}"; charset=latin-1'
    parser = _InMemory(
        Headers({"content-type": kind}),
        _piecemeal(body),
        max_files=MOST_FILES,
        max_fields=MOST_FIELDS,
        max_part_size=LONGEST_FIELD,
    )
    if b"--" + boundary + b"--" not in body:
        raise Invalid({"body": ["The form cannot be read: it ends too early."]})
    try:
        form = await parser.parse()
        try:
            return _once_each([(_utf8(name), await _part(value)) for name, value in form.multi_items()])
        finally:
            await form.close()
    except (MultiPartException, UnicodeDecodeError):
        raise Invalid(
            {
                "body": [
                    f"The form cannot be read. It may have {MOST_FIELDS} fields of {LONGEST_FIELD:,} bytes in"
                    f" UTF-8, and {MOST_FILES} files."
                ]
            }
        ) from None


async def _piecemeal(body: bytes) -> AsyncGenerator[bytes, None]:
    for start in range(0, len(body), AT_A_TIME):
        yield body[start : start + AT_A_TIME]
        await asyncio.sleep(0)


async def _part(value: str | UploadFile) -> FormText | Upload:
    return FormText(_utf8(value)) if isinstance(value, str) else Upload(await value.read())


def _utf8(text: str) -> str:
    return text.encode("latin-1").decode()
