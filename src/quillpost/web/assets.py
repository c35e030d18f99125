"""Styles, scripts and the logo that pages use: our own from the package, others from npm."""

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

IMMUTABLE_CACHE = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Asset:
    name: str
    body: bytes
    media_type: str
    path: str  # with a digest of the content: browsers keep it for ever and still see every change

    @classmethod
    def from_content(cls, name: str, body: bytes) -> Self:
        media_type, _ = mimetypes.guess_type(name)
        path = f"/assets/{name}?v={hashlib.sha256(body).hexdigest()[:12]}"
        return cls(name, body, media_type or "application/octet-stream", path)


ASSETS: Mapping[str, Asset] = {
    entry.name: Asset.from_content(entry.name, entry.read_bytes())
    for entry in files(__package__).joinpath("static").iterdir()
    if entry.is_file()
}

PACKAGE_FILES: Final[Mapping[str, str]] = {
    "htmx.js": "htmx.org/dist/htmx.min.js",
    "sse.js": "htmx-ext-sse/dist/sse.min.js",
    "uplot.js": "uplot/dist/uPlot.iife.min.js",
    "uplot.css": "uplot/dist/uPlot.min.css",
}
"""By our name: the path in a `node_modules` folder."""

_package_assets: dict[str, Asset] = {}


@cache
def _read_packages(node_modules: Path) -> Mapping[str, Asset]:
    files_by_name = {
        name: node_modules / relative_path
        for name, relative_path in PACKAGE_FILES.items()
        if (node_modules / relative_path).is_file()
    }
    return {name: Asset.from_content(name, file.read_bytes()) for name, file in files_by_name.items()}


def load_packages(node_modules: Path) -> None:
    """Serve the packages of this folder. Without them, forms are sent and pages loaded as a whole."""
    _package_assets.clear()
    _package_assets.update(_read_packages(node_modules))


def missing_packages(node_modules: Path) -> list[str]:
    """The npm names of packages that this folder lacks."""
    return sorted(
        {
            relative_path.split("/")[0]
            for relative_path in PACKAGE_FILES.values()
            if not (node_modules / relative_path).is_file()
        }
    )


def has_packages() -> bool:
    return len(_package_assets) == len(PACKAGE_FILES)


def asset_path(name: str) -> str:
    return (ASSETS.get(name) or _package_assets[name]).path


@router.get("/assets/{name}")
def open_asset(name: str) -> Response:
    match = ASSETS.get(name) or _package_assets.get(name)
    if match is None:
        raise NotFound
    return Response(match.body, media_type=match.media_type, headers={"Cache-Control": IMMUTABLE_CACHE})
