"""Who runs the embedded PostgreSQL, which refuses root, and what that account can reach."""

import os
import pwd
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypedDict

from quillpost.core.database.embedded.binaries import Binaries
from quillpost.core.errors import NotReady

UNPRIVILEGED = ("quillpost", "nobody")  # the first that this machine knows


class Identity(TypedDict, total=False):
    """The arguments with which `subprocess` becomes someone else; empty for ourselves."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    """An account of the operating system."""

    name: str
    uid: int
    gid: int

    @classmethod
    def of_uid(cls, uid: int) -> Self:
        """The account with this number; PostgreSQL refuses to run for a number without a name."""
        try:
            entry = pwd.getpwuid(uid)
        except KeyError:
            raise NotReady(
                f"The user id {uid} has no name on this machine, and PostgreSQL needs one: "
                "add it to /etc/passwd, or set QUILLPOST_DATABASE_URL."
            ) from None
        return cls(entry.pw_name, entry.pw_uid, entry.pw_gid)

    def identity(self) -> Identity:
        """How a child process becomes this account."""
        if self.uid == os.geteuid():
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        """Make this account the owner of what we have just written for it."""
        if self.uid != os.geteuid():
            os.chown(path, self.uid, self.gid)

    def closed_parent(self, path: Path) -> Path | None:
        """The outermost parent folder that this account cannot pass through, if any."""
        if self.uid == os.geteuid():
            return None  # the system itself will tell, with access lists and groups considered
        for parent in reversed(path.parents):
            if parent.exists() and not self._can_pass(parent.stat()):
                return parent
        return None

    def _can_pass(self, folder: os.stat_result) -> bool:
        if folder.st_uid == self.uid:
            return bool(folder.st_mode & stat.S_IXUSR)
        if folder.st_gid == self.gid:
            return bool(folder.st_mode & stat.S_IXGRP)
        return bool(folder.st_mode & stat.S_IXOTH)


def server_account(place: Path) -> Account:
    """Ourselves; for root the place's owner, and where that is root an unprivileged account."""
    if os.geteuid() != 0:
        return Account.of_uid(os.geteuid())
    owner = place.stat().st_uid
    if owner != 0:
        return Account.of_uid(owner)
    for name in UNPRIVILEGED:
        try:
            return Account.of_uid(pwd.getpwnam(name).pw_uid)
        except KeyError:
            continue
    raise NotReady(
        "PostgreSQL does not run as root, and this machine has no account "
        f"{' or '.join(UNPRIVILEGED)}: start Quillpost as an ordinary user."
    )


def sheltered_binaries(binaries: Binaries, account: Account, shelter: Path) -> Binaries:
    """The same programs where the account can reach them: copied to the shelter if need be."""
    if account.closed_parent(binaries.folder / "postgres") is None:
        return binaries
    copy = shelter / f"postgresql-{binaries.version}"
    if not copy.exists():
        _open_folder(shelter, account)
        half = Path(tempfile.mkdtemp(prefix="copying-", dir=shelter))
        half.chmod(0o755)
        binaries.copy_to(half)
        half.rename(copy)
    return binaries.moved_to(copy)


def sheltered_folder(wished: Path, account: Account, shelter: Path) -> Path:
    """A folder that the account can reach: the wished one, or a link there into the shelter.

    A checkout below /root is closed to every other account, and it is where many a container
    starts: the cluster then lives in the shelter, and the link shows where.
    """
    if wished.is_symlink() and not wished.exists():
        raise NotReady(f"The database is gone: {wished} points to {wished.readlink()}.")
    if wished.exists():
        wished = wished.resolve()
    elif account.closed_parent(wished) is not None:
        _open_folder(shelter, account)
        target = Path(tempfile.mkdtemp(prefix="cluster-", dir=shelter))
        wished.symlink_to(target)
        wished = target
    closed = account.closed_parent(wished)
    if closed is not None:
        raise NotReady(
            f"PostgreSQL runs as {account.name}, who cannot pass through {closed}: "
            f"open that folder (chmod a+x), or choose another QUILLPOST_HOME."
        )
    wished.mkdir(exist_ok=True)
    return wished


def _open_folder(shelter: Path, account: Account) -> None:
    shelter.mkdir(mode=0o755, parents=True, exist_ok=True)
    closed = account.closed_parent(shelter / "any")
    if closed is not None:
        raise NotReady(
            f"PostgreSQL runs as {account.name}, who cannot pass through {closed}: "
            "open that folder (chmod a+x), or start Quillpost as an ordinary user."
        )
