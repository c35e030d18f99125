"""Folders of prepared hands as a test wants them: real where they are read, quick stand-ins elsewhere."""

from collections.abc import Collection
from pathlib import Path

from quillpost.app import bootstrap
from quillpost.core.settings import Settings
from quillpost.rendering.handwriting.models import (
    DEFAULT_STYLE,
    FALLBACK_FACES,
    HELPER_FACE,
    PLAIN_FACE,
    STYLES,
    FaceRecipe,
)
from quillpost.rendering.handwriting.service import FontSources, Hands, recipe_key

NO_PACKAGES = Path("/nonexistent")
PYTHONS_OWN = FontSources(NO_PACKAGES)


def hands_in(folder: Path) -> Hands:
    """Those whose fonts come from Python packages, kept in this folder."""
    chosen = {"faces_folder": folder, "font_packages": NO_PACKAGES}
    return bootstrap.build_hands(Settings.model_validate(chosen))


def file_of(face: FaceRecipe, folder: Path) -> Path:
    raw = PYTHONS_OWN.read_font(face)
    assert raw is not None
    return folder / recipe_key(face, raw)


def stock(folder: Path, *, without: Collection[FaceRecipe]) -> None:
    """Every face but some. The plain one and the first hand are real; the others stand-ins."""
    folder.mkdir(parents=True)
    kept = bootstrap.build_hands(Settings())
    for face in (PLAIN_FACE, *STYLES, HELPER_FACE, *FALLBACK_FACES):
        if face in without or PYTHONS_OWN.read_font(face) is None:
            continue
        is_read = face in (PLAIN_FACE, DEFAULT_STYLE)
        file_of(face, folder).write_bytes(kept.prepare_face(face).to_bytes() if is_read else b"a stand-in")
