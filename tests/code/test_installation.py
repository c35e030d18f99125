"""The installation works from the package index that a machine names, and names none itself; scripts and typefaces come
from npm, the machine's or ours, and where neither can be had the setup goes on."""

import hashlib
import importlib
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest
from node_packages import NodePackages

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "tools"
LOCKED = sorted((ROOT / "requirements").glob("*.txt"))

# In two parts each: this file is searched as well.
REGISTRIES = [
    ("pypi", r"\.org"), ("pythonhosted", r"\.org"), ("npmjs", r"\.(org|com)"), ("yarnpkg", r"\.com"),
    ("debian", r"\.org"), ("ubuntu", r"\.com"),
]  # fmt: skip


@pytest.fixture
def package_index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The module as it is on a machine where nothing is configured."""
    monkeypatch.syspath_prepend(str(TOOLS))
    module = importlib.import_module("package_index")
    for name in [*module.UV_VARIABLES, "config-file"]:
        monkeypatch.delenv("PIP_" + name.upper().replace("-", "_"), raising=False)
    for variable, _ in module.UV_VARIABLES.values():
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.delenv("UV_INDEX_URL", raising=False)
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(module, "_pip_files", lambda: [tmp_path / "pip.conf"])
    return module


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """A package index on loopback with two files in it."""
    page = tmp_path / "simple" / "pip"
    page.mkdir(parents=True)
    (page / "index.html").write_text(
        '<a href="pip-1.0-py3-none-any.whl#sha256=0">one</a><a href="../../far/pip-1.1.zip">two</a>'
    )
    (page / "pip-1.0-py3-none-any.whl").write_bytes(b"a wheel")
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "pip-1.1.zip").write_bytes(b"an archive")
    handler = partial(_QuietHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/simple"
        server.shutdown()
        thread.join()


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def test_no_package_registry_is_named_in_the_repository() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    hosts = re.compile("|".join(name + ending for name, ending in REGISTRIES).encode(), re.I)
    files = [ROOT / name for name in tracked.stdout.decode().split("\0") if name]
    assert files
    assert [str(file) for file in files if file.is_file() and hosts.search(file.read_bytes())] == []


ONLY_A_WHEEL = "fontpkg-"
"""Typefaces as packages: each is one wheel that fits everywhere."""


def test_each_environment_has_a_lock_with_the_hashes_of_every_file_and_no_address() -> None:
    """One hash is one wheel, which fits one kind of machine; everywhere else the installation fails."""
    assert {file.name for file in LOCKED} >= {"run.txt", "dev.txt", "s3.txt", "uv.txt", "build.txt"}
    for file in LOCKED:
        text = file.read_text()
        pinned = re.findall(r"^(\S+)==.*\n((?:    --hash=sha256:.*\n)+)", text, re.MULTILINE)
        assert len(pinned) == len(re.findall(r"^\S+==", text, re.MULTILINE)) > 0, file.name
        single = [name for name, hashes in pinned if hashes.count("--hash") < 2]
        assert [name for name in single if not name.startswith(ONLY_A_WHEEL)] == [], file.name
        assert [words for words in ("://", "--index", "--find-links") if words in text] == [], file.name


def test_the_settings_of_pip_are_passed_to_uv_and_those_made_for_uv_itself_stay(
    package_index: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://mirror.test/simple\nfind-links =\n  /one\n  /two\n"
    )
    variables = package_index.variables_for_uv()
    assert variables["UV_DEFAULT_INDEX"] == "https://mirror.test/simple"
    assert variables["UV_FIND_LINKS"] == "/one,/two"
    monkeypatch.setenv("PIP_INDEX_URL", "https://nearer.test/simple")
    assert package_index.variables_for_uv()["UV_DEFAULT_INDEX"] == "https://nearer.test/simple"
    monkeypatch.setenv("UV_INDEX_URL", "https://other.test/simple")
    assert "UV_DEFAULT_INDEX" not in package_index.variables_for_uv()


def test_a_file_is_of_the_named_index(package_index: ModuleType, index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match="no package index is named"):
        package_index.fetch("pip", "pip-1.0-py3-none-any.whl")
    monkeypatch.setenv("PIP_INDEX_URL", index)
    assert package_index.fetch("pip", "pip-1.0-py3-none-any.whl") == b"a wheel"
    assert package_index.fetch("pip", "pip-1.1.zip") == b"an archive"
    with pytest.raises(OSError, match=r"has no pip-2\.0"):
        package_index.fetch("pip", "pip-2.0-py3-none-any.whl")


def test_a_fetched_pip_is_used_only_if_its_hash_is_pinned(
    package_index: ModuleType, index: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", index)
    first_installer = importlib.import_module("first_installer")
    pins, wheel = tmp_path / "pins.txt", tmp_path / "pip-1.0-py3-none-any.whl"
    for pinned, ways in ((b"another wheel", []), (b"a wheel", [[sys.executable, str(wheel / "pip"), "install"]])):
        pins.write_text(f"pip==1.0 \\\n    --hash=sha256:{hashlib.sha256(pinned).hexdigest()}\n    # via us\n")
        assert list(first_installer._pip_from_the_index(pins, tmp_path)) == ways


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
    assert "Japanese and Chinese letters and emoji are left out" in output
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
