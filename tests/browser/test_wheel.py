"""Our wheel, installed where there is no checkout: it is the whole product."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import expect
from test_first_card import joins

from quillpost.rendering.handwriting.models import FALLBACK_FACES, STYLES
from quillpost.web.assets import PACKAGE_FILES
from support.bare_service import bare_service, find_join_link
from support.chromium import new_page

ROOT = Path(__file__).parents[2]
BUNDLED = "quillpost/node_modules/"
FACES = {f"{face.source.package}/{face.source.path}" for face in (*STYLES, *FALLBACK_FACES) if face.source.is_from_npm}
LICENSED_INSIDE = "@expo-google-fonts/waiting-for-the-sunrise"
"""Its package has no file of the license: the whole text is in the typeface's own table of names."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, ROOT / "tools" / "bootstrap.py", "wheel", folder)
    [built] = folder.glob("*.whl")
    return built


def test_it_carries_every_script_and_typeface_with_its_license(wheel: Path) -> None:
    names = {name.removeprefix(BUNDLED) for name in zipfile.ZipFile(wheel).namelist() if BUNDLED in name}
    assert {*PACKAGE_FILES.values(), *FACES} <= names
    packages = set(json.loads((ROOT / "package.json").read_text())["dependencies"])
    licensed = {name.rpartition("/")[0] for name in names if name.rpartition("/")[2].startswith("LICENSE")}
    assert packages - licensed == {LICENSED_INSIDE}
    assert {f"{face.rpartition('/400Regular')[0]}/LICENSE_FONT" for face in FACES if "/400Regular/" in face} <= names


@pytest.mark.timeout(600)  # all that it depends on is installed
def test_it_is_the_whole_product_outside_any_checkout(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    install(wheel, environment)
    with bare_service(tmp_path, program=[str(environment / "bin" / "quillpost")]) as service, new_page() as page:
        for name in PACKAGE_FILES:
            assert httpx2.get(f"{service.url}/assets/{name}").status_code == 200
        page.goto(find_join_link(service))
        joins(page)
        expect(page.get_by_role("group", name="Sent, delivered and scans")).to_be_visible()  # drawn by uPlot
        assert page.evaluate("htmx.version")
    listed = run(environment / "bin" / "quillpost", "hands", cwd=tmp_path)
    assert [style.name for style in STYLES if style.name not in listed] == []


def install(wheel: Path, environment: Path) -> None:
    """With just what the wheel asks for, in the versions that we test with."""
    uv = ROOT / ".tools" / "uv" / "bin" / "uv"
    python = environment / "bin" / "python"
    run(uv, "venv", "--python", sys.executable, environment)
    constraints = ("--constraints", ROOT / "requirements" / "run.txt")
    run(uv, "pip", "install", "--compile-bytecode", "--python", python, *constraints, wheel)


def run(*command: object, cwd: Path | None = None) -> str:
    """What it printed; started from a folder that is in no checkout."""
    unlike_ours = {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    done = subprocess.run(
        [str(word) for word in command],
        env=unlike_ours,
        cwd=cwd or Path("/"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
