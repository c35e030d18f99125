"""The style, the script and the mark that pages use, served from the package itself."""

import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Self

from fastapi import APIRouter, Response

from quillpost.kit.errors import NotFound

router = APIRouter(include_in_schema=False)

FOR_EVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Asset:
    name: str
    body: bytes
    media_type: str

    @classmethod
    def of(cls, name: str, body: bytes) -> Self:
        kind, _ = mimetypes.guess_type(name)
        return cls(name, body, kind or "application/octet-stream")

    @property
    def path(self) -> str:
        """Names the content too: browsers keep it for ever and still see every change."""
        return f"/assets/{self.name}?v={hashlib.sha256(self.body).hexdigest()[:12]}"


ASSETS: Mapping[str, Asset] = {
    entry.name: Asset.of(entry.name, entry.read_bytes())
    for entry in files(__package__).joinpath("assets").iterdir()
    if entry.is_file()
}


def asset(name: str) -> str:
    """The path of an asset, for templates."""
    return ASSETS[name].path


@router.get("/assets/{name}")
def open_asset(name: str) -> Response:
    if name not in ASSETS:
        raise NotFound
    found = ASSETS[name]
    return Response(found.body, media_type=found.media_type, headers={"Cache-Control": FOR_EVER})
