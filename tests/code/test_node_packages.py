"""Scripts and typefaces come from npm, the machine's or ours; where neither can be had, the setup goes on."""

import importlib
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from node_packages import NodePackages

from quillpost.rendering.handwriting.models import STYLES

ROOT = Path(__file__).parents[2]

NPM_THAT_INSTALLS = "mkdir -p node_modules; echo x >> calls; echo $@ > asked"
NPM_THAT_FAILS = "echo x >> calls; echo 'npm error code ENOTFOUND' >&2; echo 'npm error network far' >&2; exit 1"


def no_npm() -> list[str]:
    raise OSError("the index is far")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / ".tools").mkdir(parents=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture
def packages(checkout: Path) -> NodePackages:
    """Of the checkout, where npm is not to be had."""
    return NodePackages(checkout, checkout / ".tools", no_npm)


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


def test_npm_installs_what_is_locked_once_and_what_has_changed_again_and_runs_no_scripts(
    packages: NodePackages, checkout: Path, programs: Path
) -> None:
    put_npm(programs, NPM_THAT_INSTALLS)
    assert packages.are_missing()
    packages.install()
    packages.install()
    assert not packages.are_missing()
    assert calls(checkout) == 1
    arguments = (checkout / "asked").read_text().split()
    assert arguments[0] == "ci"
    assert {"--ignore-scripts", "--no-audit", "--no-fund"} <= set(arguments)
    with (checkout / "package-lock.json").open("a") as lock:
        lock.write("\n")
    assert packages.are_missing()
    packages.install()
    assert calls(checkout) == 2


def test_without_any_npm_one_sentence_says_what_is_missing_and_one_that_appears_is_used_at_once(
    packages: NodePackages, checkout: Path, programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packages.install()
    packages.install()
    output = capsys.readouterr().out
    assert output.count("\n") == 1
    assert "Install Node.js" in output
    assert "the index is far" in output
    assert "Pages are without their scripts" in output
    assert [style.name for style in STYLES if style.source.is_from_npm and style.name not in output] == []
    assert not packages.are_missing()
    put_npm(programs, NPM_THAT_INSTALLS)
    assert packages.are_missing()


def test_a_failed_install_is_reported_and_not_repeated_within_the_hour(
    packages: NodePackages, checkout: Path, programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_npm(programs, NPM_THAT_FAILS)
    packages.install()
    packages.install()
    assert calls(checkout) == 1
    assert "code ENOTFOUND" in capsys.readouterr().out
    note = checkout / ".tools" / "node-packages-tried"
    os.utime(note, (0, 0))
    assert packages.are_missing()


def test_without_an_npm_ours_is_used(checkout: Path, programs: Path) -> None:
    put_npm(programs, NPM_THAT_INSTALLS)
    ours = (programs / "npm").rename(programs / "our-npm")
    packages = NodePackages(checkout, checkout / ".tools", lambda: [str(ours), "cli"])
    packages.install()
    assert not packages.are_missing()
    assert (checkout / "asked").read_text().split()[:2] == ["cli", "ci"]


def test_an_npm_of_ours_that_cannot_be_installed_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    bootstrap = importlib.import_module("bootstrap")

    def fail() -> Path:
        raise SystemExit("No route to the index\nThe installation failed; it can be started again.")

    monkeypatch.setattr(bootstrap, "_uv", fail)
    monkeypatch.setattr(bootstrap, "NODE", replace(bootstrap.NODE, folder=tmp_path / "node"))
    with pytest.raises(OSError, match=r"^No route to the index$"):
        bootstrap._own_npm()


def test_the_setup_asks_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    bootstrap = importlib.import_module("bootstrap")
    installed = []
    monkeypatch.setattr(bootstrap, "TOOLS", tmp_path)
    monkeypatch.setattr(bootstrap, "_missing", lambda kind: [])
    monkeypatch.setattr(bootstrap.NODE_PACKAGES, "are_missing", lambda: True)
    monkeypatch.setattr(bootstrap.NODE_PACKAGES, "install", lambda: installed.append("packages"))
    bootstrap.main("run")
    assert installed == ["packages"]
