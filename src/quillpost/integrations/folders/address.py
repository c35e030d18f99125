"""Where a place is, as a setting says it: file:///path or sftp://user@host:port/path."""

from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from quillpost.core.errors import NotReady
from quillpost.integrations.folders.local import LocalFolder
from quillpost.integrations.folders.models import RemoteFolder, SftpCredentials

DEFAULT_SSH_PORT = 22


def build_folder(url: str, *, credentials: SftpCredentials, setting: str) -> RemoteFolder:
    """The place, or `NotReady` with a sentence that names the setting. Nobody is called yet."""
    try:
        parsed = urlsplit(url)
        port = parsed.port
    except ValueError:
        raise NotReady(f"{setting} is not an address that we can read.") from None
    if parsed.query or parsed.fragment:
        raise NotReady(f"{setting} must end with the path of a folder.")
    match parsed.scheme:
        case "file":
            return _build_local_folder(parsed, setting)
        case "sftp":
            return _build_sftp_folder(parsed, port or DEFAULT_SSH_PORT, credentials, setting)
    raise NotReady(f"{setting} must be file:///path or sftp://user@host:port/path.")


def _build_local_folder(parsed: SplitResult, setting: str) -> RemoteFolder:
    path = Path(unquote(parsed.path))
    if parsed.netloc or not path.is_absolute():
        raise NotReady(f"{setting} must name a folder by its whole path: file:///path.")
    return LocalFolder(path)


def _build_sftp_folder(parsed: SplitResult, port: int, credentials: SftpCredentials, setting: str) -> RemoteFolder:
    if parsed.password is not None:
        raise NotReady(f"{setting} must not hold a password: set QUILLPOST_SFTP_PASSWORD.")
    if not (parsed.hostname and parsed.username):
        raise NotReady(f"{setting} must name a user and a machine: sftp://user@host:port/path.")
    # Here and nowhere else: Paramiko is for whoever has such a place, and every other start goes without it.
    from quillpost.integrations.folders.sftp import SftpFolder  # noqa: PLC0415

    # As curl has it: /~/jobs is in the user's home.
    folder = unquote(parsed.path).removeprefix("/~/") or "/"
    sftp_folder = SftpFolder(
        parsed.hostname, user=unquote(parsed.username), folder=folder, credentials=credentials, port=port
    )
    sftp_folder.check()
    return sftp_folder
