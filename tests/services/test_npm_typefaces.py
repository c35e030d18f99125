"""Typefaces come from npm where there is one; where there is none, or it fails, the setup goes on."""

import importlib
import os
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from quillpost.composition.hands.catalogue import STYLES

ROOT = Path(__file__).parents[2]

NPM_THAT_INSTALLS = "mkdir -p node_modules; echo x >> calls; echo $@ > asked"
NPM_THAT_FAILS = (
    "echo x >> calls; echo 'npm error code ENOTFOUND' >&2; echo 'npm error network far' >&2; exit 1"
)


@pytest.fixture
def typefaces(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("typefaces")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / ".tools").mkdir(parents=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An otherwise empty PATH with the shell's few helpers."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("sh", "mkdir"):
        found = shutil.which(name)
        assert found
        (folder / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def put_npm(programs: Path, script: str) -> None:
    npm = programs / "npm"
    npm.write_text(f"#!{programs / 'sh'}\n{script}\n")
    npm.chmod(0o755)


def calls(checkout: Path) -> int:
    return (checkout / "calls").read_text().count("x")


def test_npm_installs_what_is_locked_once_and_runs_no_scripts(
    typefaces: ModuleType, checkout: Path, programs: Path
) -> None:
    put_npm(programs, NPM_THAT_INSTALLS)
    faces = typefaces.Typefaces(checkout, checkout / ".tools")
    assert faces.are_wanted()
    faces.install()
    faces.install()
    assert not faces.are_wanted()
    assert calls(checkout) == 1
    asked = (checkout / "asked").read_text().split()
    assert asked[0] == "ci"
    assert {"--ignore-scripts", "--no-audit", "--no-fund"} <= set(asked)


def test_a_changed_lock_is_installed_again(typefaces: ModuleType, checkout: Path, programs: Path) -> None:
    put_npm(programs, NPM_THAT_INSTALLS)
    faces = typefaces.Typefaces(checkout, checkout / ".tools")
    faces.install()
    with (checkout / "package-lock.json").open("a") as lock:
        lock.write("\n")
    assert faces.are_wanted()
    faces.install()
    assert calls(checkout) == 2


def test_without_npm_one_sentence_says_what_is_missing(
    typefaces: ModuleType, checkout: Path, programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faces = typefaces.Typefaces(checkout, checkout / ".tools")
    faces.install()
    faces.install()
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert "install Node.js" in said
    assert [style.name for style in STYLES if style.source.is_from_npm and style.name not in said] == []


def test_npm_that_appears_is_used_at_once(typefaces: ModuleType, checkout: Path, programs: Path) -> None:
    faces = typefaces.Typefaces(checkout, checkout / ".tools")
    faces.install()
    assert not faces.are_wanted()
    put_npm(programs, NPM_THAT_INSTALLS)
    assert faces.are_wanted()


def test_a_failure_is_told_and_not_repeated_within_the_hour(
    typefaces: ModuleType, checkout: Path, programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_npm(programs, NPM_THAT_FAILS)
    faces = typefaces.Typefaces(checkout, checkout / ".tools")
    faces.install()
    faces.install()
    assert calls(checkout) == 1
    assert "code ENOTFOUND" in capsys.readouterr().out
    note = checkout / ".tools" / "typefaces-tried"
    os.utime(note, (0, 0))
    assert faces.are_wanted()


def test_the_setup_asks_for_typefaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    bootstrap = importlib.import_module("bootstrap")
    asked = []
    monkeypatch.setattr(bootstrap, "TOOLS", tmp_path)
    monkeypatch.setattr(bootstrap, "_missing", lambda kind: [])
    monkeypatch.setattr(bootstrap.TYPEFACES, "are_wanted", lambda: True)
    monkeypatch.setattr(bootstrap.TYPEFACES, "install", lambda: asked.append("typefaces"))
    bootstrap.main("run")
    assert asked == ["typefaces"]
