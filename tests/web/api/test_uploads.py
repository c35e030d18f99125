"""Forms with files: taken where a route says so, bounded, and refused in plain words."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from httpx2 import Response

from quillpost.app.container import Container
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.web.api.requests import MAX_FIELD_BYTES, MAX_FIELDS, MAX_FILES
from quillpost.web.application import create_app
from support.factories import Account, make_account
from support.shared_service import shared_service
from support.test_client import TestClient
from support.traces import traces
from support.uploads import form_of, png

TYPE, NAME = ('name="type"', b"postcard"), ('name="name"', b"Spring")
IMAGE = ('name="image"; filename="a.png"', png())
WHOLE = form_of("b", TYPE, NAME, IMAGE)
FORM = "multipart/form-data; boundary=b"
TOO_MANY_FIELDS = [(f'name="f{n}"', b"") for n in range(MAX_FIELDS + 1)]
TOO_MANY_FILES = [(f'name="f{n}"; filename="f"', b"") for n in range(MAX_FILES + 1)]


@pytest.fixture(scope="module")
def service(postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    home: Path = tmp_path_factory.mktemp("uploads")
    with shared_service(postgres, template, home) as parts:
        yield parts


@pytest.fixture(scope="module")
def sender(service: Container) -> Iterator[Account]:
    with TestClient(create_app(service), raise_server_exceptions=False) as http:
        yield make_account(service, http, "sender@example.com")


def post(account: Account, body: bytes, kind: str = FORM, *, path: str = "/image-templates") -> Response:
    return account.call("POST", path, content=body, headers={"Content-Type": kind})


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (WHOLE, "multipart/form-data"),
        (WHOLE, "multipart/form-data; boundary="),
        (WHOLE, "multipart/form-data; boundary=" + "b" * 71),
        (WHOLE, 'multipart/form-data; boundary="b\\"c"'),
        (WHOLE, "multipart/form-data; boundary=other"),
        (WHOLE[:-30], FORM),
        (b"nothing of the kind", FORM),
        (b"--b\r\n" + b"x" * 9_000 + b"\r\n--b--", FORM),
        (form_of("b", ("filename=x", b"")), FORM),
        (form_of("b", ('name="name"', b"\xff\xfe")), FORM),
        (form_of("b", ('name="name"', b"x" * (MAX_FIELD_BYTES + 1))), FORM),
        (form_of("b", *TOO_MANY_FIELDS), FORM),
        (form_of("b", *TOO_MANY_FILES), FORM),
    ],
    ids=[
        "no boundary", "an empty boundary", "a long boundary", "an odd boundary", "another boundary",
        "cut off", "no form", "a long header", "no name", "no utf-8", "a long field", "many fields",
        "many files",
    ],
)  # fmt: skip
def test_a_form_that_cannot_be_read_is_refused(sender: Account, service: Container, body: bytes, kind: str) -> None:
    before = traces(service)
    refused = post(sender, body, kind)
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["body"]), refused.text
    assert traces(service) == before


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        ((TYPE, NAME), "image"),
        ((TYPE, NAME, ('name="image"', b"")), "image"),
        ((TYPE, NAME, ('name="image"; filename=""', b"")), "image"),
        ((TYPE, NAME, NAME, IMAGE), "name"),
        ((TYPE, NAME, IMAGE, IMAGE), "image"),
        ((TYPE, ('name="name"; filename="n"', b"Spring"), IMAGE), "name"),
        ((TYPE, NAME, IMAGE, ('name="sub_account_id"', b"one")), "sub_account_id"),
    ],
)
def test_a_part_that_is_wrong_is_named(
    sender: Account, service: Container, parts: tuple[tuple[str, bytes], ...], field: str
) -> None:
    before = traces(service)
    refused = post(sender, form_of("b", *parts))
    assert (refused.status_code, list(refused.json()["errors"])) == (422, [field]), refused.text
    assert traces(service) == before


@pytest.mark.parametrize("path", ["/message-templates", "/webhooks", "/send/postcard"])
def test_elsewhere_no_files_are_taken(sender: Account, service: Container, path: str) -> None:
    before = traces(service)
    refused = post(sender, WHOLE, path=path)
    assert refused.status_code == 415
    assert "No files are taken here" in refused.json()["message"]
    assert traces(service) == before


def test_whatever_its_letters_a_form_s_words_are_utf_8(sender: Account) -> None:
    body = form_of("b", TYPE, ('name="name"', "Frühling 漢".encode()), IMAGE)
    for kind in ("multipart/form-data; boundary=b; charset=UTF-8", 'Multipart/Form-Data; boundary="b"'):
        made = post(sender, body, kind)
        assert (made.status_code, made.json()["name"]) == (201, "Frühling 漢"), made.text
        sender.call("DELETE", f"/image-templates/{made.json()['id']}")
