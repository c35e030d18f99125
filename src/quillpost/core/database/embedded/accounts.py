"""Who runs the embedded PostgreSQL, which refuses root, and what that account can reach."""

import os
import pwd
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypedDict

from quillpost.core.database.embedded.binaries import PostgresBinaries
from quillpost.core.errors import NotReady

UNPRIVILEGED_ACCOUNTS = ("quillpost", "nobody")  # the first that this machine knows


class ProcessIdentity(TypedDict, total=False):
    """The arguments with which `subprocess` becomes someone else; empty for ourselves."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class SystemAccount:
    """An account of the operating system."""

    name: str
    uid: int
    gid: int

    @classmethod
    def from_uid(cls, uid: int) -> Self:
        """The account with this number; PostgreSQL refuses to run for a number without a name."""
        try:
            entry = pwd.getpwuid(uid)
        except KeyError:
            raise NotReady(
                f"The user id {uid} has no name on this machine, and PostgreSQL needs one: "
                "add it to /etc/passwd, or set QUILLPOST_DATABASE_URL."
            ) from None
        return cls(entry.pw_name, entry.pw_uid, entry.pw_gid)

    def process_identity(self) -> ProcessIdentity:
        """How a child process becomes this account."""
        if self.uid == os.geteuid():
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def take_ownership(self, path: Path) -> None:
        """Make this account the owner of what we have just written for it."""
        if self.uid != os.geteuid():
            os.chown(path, self.uid, self.gid)

    def find_closed_parent(self, path: Path) -> Path | None:
        """The outermost parent folder that this account cannot pass through, if any."""
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
    """Ourselves; for root the place's owner, and where that is root an unprivileged account."""
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
    """The same programs where the account can reach them: copied to the shelter if need be."""
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
    """A folder that the account can reach: the wished one, or a link there into the shelter.

    A checkout below /root is closed to every other account, and it is where many a container
    starts: the cluster then lives in the shelter, and the link shows where.
    """
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
