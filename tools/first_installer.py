"""Ways to a first installer, on a machine that may have no pip at all.

Every way ends in the same step: some pip puts uv, pinned by hash, into a folder of ours. That
folder is no environment of any Python, so an externally managed one has no objection either.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import package_index

WHEELS_OF_THE_SYSTEM = Path("/usr/share/python-wheels")

WHAT_TO_INSTALL = (
    "No pip was found on this machine, nor a way to fetch one: install it (on Debian and Ubuntu "
    "`apt install python3-venv`), or name your package index in PIP_INDEX_URL, and try again."
)


def install_uv(requirements: Path, folder: Path) -> None:
    """Put uv into the folder by the first way that works; SystemExit when none does."""
    error = ""
    with tempfile.TemporaryDirectory(prefix="first-", dir=folder.parent) as scratch:
        half = Path(scratch) / "half"
        options = ["--quiet", "--require-hashes", "--only-binary=:all:", "--target", str(half)]
        for install in _ways(requirements, Path(scratch)):
            shutil.rmtree(half, ignore_errors=True)
            error = _run([*install, *options, "-r", str(requirements)]) or error
            if (half / "bin" / "uv").exists():
                shutil.rmtree(folder, ignore_errors=True)
                half.rename(folder)
                return
    sys.exit(f"{error}\nThe installer could not be fetched." if error else WHAT_TO_INSTALL)


def _ways(requirements: Path, scratch: Path) -> Iterator[list[str]]:
    yield from _pip_of_this_python()
    yield from _pip_wheels(WHEELS_OF_THE_SYSTEM)
    yield from _installers_on_path(scratch)
    yield from _pip_from_the_index(requirements, scratch)
    yield from _pip_from_debian(scratch)


def _pip_of_this_python() -> Iterator[list[str]]:
    if not _run([sys.executable, "-m", "pip", "--version"]):
        yield [sys.executable, "-m", "pip", "install"]


def _pip_wheels(system: Path) -> Iterator[list[str]]:
    """pip runs from its wheel; ensurepip brings one, and distributions keep one for their venv."""
    bundled = Path(sysconfig.get_path("stdlib")) / "ensurepip" / "_bundled"
    named = sysconfig.get_config_var("WHEEL_PKG_DIR")
    for folder in [bundled, *([Path(named)] if named else []), system]:
        for wheel in sorted(folder.glob("pip-*.whl"), reverse=True):
            yield [sys.executable, str(wheel / "pip"), "install"]


def _installers_on_path(scratch: Path) -> Iterator[list[str]]:
    """Whatever Python they belong to: uv is a program, the same for all of them."""
    for name in ("uv", "pip3", "pip", "virtualenv"):
        program = shutil.which(name)
        if program is None:
            continue
        if name == "uv":
            yield [program, "pip", "install", "--python", sys.executable]
        elif name == "virtualenv":
            _run([program, "--clear", "--no-download", str(scratch / "first")])
            yield [str(scratch / "first" / "bin" / "python"), "-m", "pip", "install"]
        else:
            yield [program, "install"]


def _pip_from_the_index(requirements: Path, scratch: Path) -> Iterator[list[str]]:
    version, hashes = _pinned("pip", requirements)
    wheel = scratch / f"pip-{version}-py3-none-any.whl"
    try:
        content = package_index.fetch("pip", wheel.name)
    except (OSError, ValueError):
        return
    if hashlib.sha256(content).hexdigest() in hashes:
        wheel.write_bytes(content)
        yield [sys.executable, str(wheel / "pip"), "install"]


def _pip_from_debian(scratch: Path) -> Iterator[list[str]]:
    """apt and dpkg work without root, and without touching the system, in folders of their own."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        return
    apt = scratch / "apt"
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (apt / folder).mkdir(parents=True, exist_ok=True)
    options = [
        f"-oDir::State={apt / 'state'}",
        f"-oDir::Cache={apt / 'cache'}",
        "-oDir::State::status=/var/lib/dpkg/status",
        "-oAPT::Sandbox::User=root",  # as root, apt would become a user who cannot write here
        "-oAPT::Update::Post-Invoke::=",
        "-oAPT::Update::Post-Invoke-Success::=",
    ]
    _run(["apt-get", "-qq", *options, "update"])
    _run(["apt-get", "-qq", *options, "download", "python3-pip-whl"], cwd=apt)
    for package in apt.glob("python3-pip-whl_*.deb"):
        _run(["dpkg-deb", "-x", str(package), str(apt / "unpacked")])
    yield from _pip_wheels(apt / "unpacked" / WHEELS_OF_THE_SYSTEM.relative_to("/"))


def _pinned(package: str, requirements: Path) -> tuple[str, set[str]]:
    """The version and the hashes that a requirements file allows for one package."""
    found = re.search(rf"^{package}==(\S+)((?:\s+\\\n\s+--hash=sha256:\w+)+)", requirements.read_text(), re.M)
    if found is None:
        sys.exit(f"{requirements} does not pin {package}: run `make lock` where pip is installed.")
    return found[1], set(re.findall(r"sha256:(\w+)", found[2]))


def _run(command: list[str], cwd: Path | None = None) -> str:
    """Run quietly; return what went wrong, or nothing."""
    environment = {
        **os.environ,
        **package_index.variables_for_uv(),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
        "PIP_USER": "0",
    }
    try:
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return "" if done.returncode == 0 else done.stderr.strip() or f"{command[0]} failed"
