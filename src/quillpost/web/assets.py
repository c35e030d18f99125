"""The styles, scripts and the mark that pages use: our own from the package itself, others' from npm's."""

import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final, Self

from fastapi import APIRouter, Response

from quillpost.core.errors import NotFound

router = APIRouter(include_in_schema=False)

FOR_EVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Asset:
    name: str
    body: bytes
    media_type: str
    path: str
    """Names the content too: browsers keep it for ever and still see every change."""

    @classmethod
    def of(cls, name: str, body: bytes) -> Self:
        kind, _ = mimetypes.guess_type(name)
        path = f"/assets/{name}?v={hashlib.sha256(body).hexdigest()[:12]}"
        return cls(name, body, kind or "application/octet-stream", path)


ASSETS: Mapping[str, Asset] = {
    entry.name: Asset.of(entry.name, entry.read_bytes())
    for entry in files(__package__).joinpath("static").iterdir()
    if entry.is_file()
}

PACKAGED: Final[Mapping[str, str]] = {
    "htmx.js": "htmx.org/dist/htmx.min.js",
    "sse.js": "htmx-ext-sse/dist/sse.min.js",
    "uplot.js": "uplot/dist/uPlot.iife.min.js",
    "uplot.css": "uplot/dist/uPlot.min.css",
}
"""What we call them, and where they are in a `node_modules` folder."""

_found: dict[str, Asset] = {}


@cache
def _packaged(node_modules: Path) -> Mapping[str, Asset]:
    present = {
        name: node_modules / place for name, place in PACKAGED.items() if (node_modules / place).is_file()
    }
    return {name: Asset.of(name, file.read_bytes()) for name, file in present.items()}


def find_packages(node_modules: Path) -> None:
    """From here on pages use the packages of this folder. Without one, they do without: forms are sent, and
    pages loaded, as a whole."""
    _found.clear()
    _found.update(_packaged(node_modules))


def missing_packages(node_modules: Path) -> list[str]:
    """Those that are not in this folder, by their names at npm."""
    return sorted(
        {place.split("/")[0] for place in PACKAGED.values() if not (node_modules / place).is_file()}
    )


def has_packages() -> bool:
    return len(_found) == len(PACKAGED)


def asset(name: str) -> str:
    """The path of an asset, for templates."""
    return (ASSETS.get(name) or _found[name]).path


@router.get("/assets/{name}")
def open_asset(name: str) -> Response:
    found = ASSETS.get(name) or _found.get(name)
    if found is None:
        raise NotFound
    return Response(found.body, media_type=found.media_type, headers={"Cache-Control": FOR_EVER})
