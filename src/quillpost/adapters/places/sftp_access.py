"""What it takes to get in over SFTP, as the settings say it."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SftpKeys:
    """How we prove who we are, and whom we believe. With a key file, the password is its passphrase."""

    key: Path | None = None
    password: str | None = field(default=None, repr=False)
    known_hosts: Path | None = None
