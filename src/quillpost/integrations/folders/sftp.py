"""A folder on another machine, over SFTP. The machine is identified by a known_hosts file."""

import errno
import io
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    SSHPrivateKeyTypes,
    load_pem_private_key,
    load_ssh_private_key,
)

from quillpost.core.errors import NotReady
from quillpost.core.ports import FileMissing
from quillpost.integrations.folders import models

KEY_CLASSES: dict[type, type[paramiko.PKey]] = {
    Ed25519PrivateKey: paramiko.Ed25519Key,
    EllipticCurvePrivateKey: paramiko.ECDSAKey,
    RSAPrivateKey: paramiko.RSAKey,
}


def check_known_hosts(credentials: models.SftpCredentials) -> Path:
    if credentials.known_hosts is None:
        raise models.FolderDown("QUILLPOST_SFTP_KNOWN_HOSTS is not set: no machine can prove who it is.")
    try:
        paramiko.HostKeys(str(credentials.known_hosts))
    except (OSError, paramiko.SSHException, UnicodeDecodeError):
        raise models.FolderDown(
            f"QUILLPOST_SFTP_KNOWN_HOSTS names {credentials.known_hosts}, which is not a known_hosts file that we"
            " can read."
        ) from None
    return credentials.known_hosts


def load_private_key(credentials: models.SftpCredentials) -> paramiko.PKey | None:
    if credentials.key is None:
        if credentials.password is None:
            raise models.FolderDown("Neither QUILLPOST_SFTP_KEY nor QUILLPOST_SFTP_PASSWORD is set.")
        return None
    try:
        return _convert_private_key(credentials.key.read_bytes(), credentials.password)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm, paramiko.SSHException):
        raise models.FolderDown(
            f"QUILLPOST_SFTP_KEY names {credentials.key}, which is not a private key that we can open; its"
            " passphrase, if it has one, is QUILLPOST_SFTP_PASSWORD."
        ) from None


def _convert_private_key(data: bytes, passphrase: str | None) -> paramiko.PKey:
    """Paramiko reads only some key formats: it is given a plain one."""
    try:
        key = _parse_private_key(data, passphrase)
    except TypeError:  # the key needs no passphrase
        key = _parse_private_key(data, None)
    key_class = next((key_class for key_type, key_class in KEY_CLASSES.items() if isinstance(key, key_type)), None)
    if key_class is None:
        raise TypeError("Not a kind of key that SSH still uses.")
    key_bytes = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    return key_class.from_private_key(io.StringIO(key_bytes.decode()))


def _parse_private_key(data: bytes, passphrase: str | None) -> SSHPrivateKeyTypes | PrivateKeyTypes:
    password = None if passphrase is None else passphrase.encode()
    try:
        return load_ssh_private_key(data, password)
    except ValueError:
        return load_pem_private_key(data, password)


MISSING_ERRORS = {errno.ENOENT, errno.ENOTDIR}
PERMISSION_ERRORS = {errno.EACCES, errno.EPERM}
CHUNK_BYTES = 1 << 20


class SftpFolder:
    """Without a leading slash, `folder` is in the user's home."""

    def __init__(
        self,
        host: str,
        *,
        user: str,
        folder: str,
        credentials: models.SftpCredentials,
        port: int = 22,
        seconds: float = 30.0,
    ) -> None:
        self._host, self._port, self._user = host, port, user
        self._folder = PurePosixPath(folder)
        self._credentials = credentials
        self._seconds = seconds

    @property
    def label(self) -> str:
        return f"{self._folder} on {self._host}"

    def check(self) -> None:
        """Check the local files that it needs, or `NotReady`."""
        try:
            check_known_hosts(self._credentials)
            load_private_key(self._credentials)
        except models.FolderDown as error:
            raise NotReady(str(error)) from None

    @contextmanager
    def open(self) -> Iterator[models.OpenFolder]:
        key = load_private_key(self._credentials)
        known_hosts_file = check_known_hosts(self._credentials)
        with paramiko.SSHClient() as client:
            client.load_system_host_keys(str(known_hosts_file))
            client.set_missing_host_key_policy(_RejectUnknownHosts())
            with _translate_errors(self._host, self._user, self._seconds):
                client.connect(
                    self._host,
                    self._port,
                    self._user,
                    password=self._credentials.password if key is None else None,
                    pkey=key,
                    timeout=self._seconds,
                    banner_timeout=self._seconds,
                    auth_timeout=self._seconds,
                    channel_timeout=self._seconds,
                    # Only the service's own settings identify it.
                    allow_agent=False,
                    look_for_keys=False,
                )
                sftp = client.open_sftp()
                channel = sftp.get_channel()
                if channel is not None:
                    channel.settimeout(self._seconds)
            open_folder = _SftpVisit(sftp, self._folder, self)
            open_folder.require_root()
            yield open_folder

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        with _translate_errors(self._host, self._user, self._seconds):
            yield


class _SftpVisit:
    def __init__(self, sftp: paramiko.SFTPClient, root: PurePosixPath, folder: SftpFolder) -> None:
        self._sftp, self._root, self._folder = sftp, root, folder

    def require_root(self) -> None:
        with self._folder.translate_errors():
            if not self._is_folder(str(self._root)):
                raise models.FolderDown(f"There is no folder {self._folder.label}: ask for it to be made.")

    def put(self, name: str, data: bytes, *, is_secret: bool = False) -> None:
        path = self._path(name)
        draft_path = str(PurePosixPath(path).with_name(f".{secrets.token_hex(8)}.tmp"))
        with self._folder.translate_errors():
            self._make_folders(name, mode=0o750 if is_secret else 0o777)
            # It would check the size that arrived, and fail on another.
            self._sftp.putfo(io.BytesIO(data), draft_path, file_size=len(data))
            if self._stat(path) is None:
                self._sftp.rename(draft_path, path)
            else:
                self._sftp.posix_rename(draft_path, path)

    def get(self, name: str, *, max_bytes: int | None = None) -> bytes:
        with self._folder.translate_errors():
            try:
                with self._sftp.open(self._path(name), "rb") as file:
                    data = _read_bounded(file, max_bytes)
            except OSError as error:
                if error.errno in MISSING_ERRORS:
                    raise FileMissing(name) from None
                if error.errno in PERMISSION_ERRORS:
                    raise models.UnreadableFile(
                        f"{self._path(name)} cannot be read: {_describe_error(error)}."
                    ) from error
                raise
        if max_bytes is not None and len(data) > max_bytes:
            raise models.build_too_large_error(name, max_bytes)
        return data

    def exists(self, name: str) -> bool:
        with self._folder.translate_errors():
            return self._stat(self._path(name)) is not None

    def size(self, name: str) -> int | None:
        with self._folder.translate_errors():
            file_status = self._stat(self._path(name))
        return file_status.st_size if file_status is not None and stat.S_ISREG(file_status.st_mode or 0) else None

    def names(self, folder: str) -> list[str]:
        with self._folder.translate_errors():
            path = self._path(folder)
            return sorted(filter(models.is_usable_name, self._sftp.listdir(path))) if self._is_folder(path) else []

    def rename(self, old: str, new: str) -> bool:
        with self._folder.translate_errors():
            if self._stat(self._path(old)) is None:
                raise FileMissing(old)
            self._make_folders(new)
            try:
                # This form fails if the name exists; `posix_rename` does not.
                self._sftp.rename(self._path(old), self._path(new))
            except OSError:
                if self._stat(self._path(new)) is None:
                    raise
                return False
        return True

    def delete(self, name: str) -> None:
        with self._folder.translate_errors():
            self._delete(self._path(name))

    def _delete(self, path: str) -> None:
        file_status = self._stat(path)
        if file_status is None:
            return
        if not stat.S_ISDIR(file_status.st_mode or 0):
            self._sftp.remove(path)
            return
        for entry_name in self._sftp.listdir(path):
            self._delete(f"{path}/{entry_name}")
        self._sftp.rmdir(path)

    def _make_folders(self, name: str, *, mode: int = 0o777) -> None:
        for parent in reversed(PurePosixPath(models.check_path(name)).parents[:-1]):
            path = str(self._root / parent)
            if not self._is_folder(path):
                try:
                    self._sftp.mkdir(path, mode)
                except OSError:  # another may have made it
                    if not self._is_folder(path):
                        raise

    def _is_folder(self, path: str) -> bool:
        file_status = self._stat(path, follow=True)
        return file_status is not None and stat.S_ISDIR(file_status.st_mode or 0)

    def _stat(self, path: str, *, follow: bool = False) -> paramiko.SFTPAttributes | None:
        try:
            return self._sftp.stat(path) if follow else self._sftp.lstat(path)
        except OSError as error:
            if error.errno in MISSING_ERRORS:
                return None
            raise

    def _path(self, name: str) -> str:
        return str(self._root / models.check_path(name)) if name else str(self._root)


class _RejectUnknownHosts(paramiko.MissingHostKeyPolicy):
    def missing_host_key(self, client: object, hostname: str, key: object) -> None:  # noqa: ARG002
        raise models.FolderDown(f"{hostname} is not in QUILLPOST_SFTP_KNOWN_HOSTS: add the host key that it told you.")


@contextmanager
def _translate_errors(host: str, user: str, seconds: float) -> Iterator[None]:
    try:
        yield
    except paramiko.BadHostKeyException:
        raise models.FolderDown(
            f"The host key of {host} is not the one in QUILLPOST_SFTP_KNOWN_HOSTS. Nothing was sent: ask its"
            " owner whether the key was changed."
        ) from None
    except paramiko.AuthenticationException:
        raise models.FolderDown(
            f"{host} does not let {user} in: look at QUILLPOST_SFTP_KEY and QUILLPOST_SFTP_PASSWORD."
        ) from None
    except TimeoutError as error:
        raise models.FolderDown(f"{host} did not answer within {seconds:g} seconds.") from error
    except (paramiko.SSHException, EOFError, ConnectionError) as error:
        raise models.FolderDown(f"{host} closed the connection, or does not speak SFTP.") from error
    except OSError as error:
        if isinstance(error, paramiko.ssh_exception.NoValidConnectionsError) or error.errno is None:
            raise models.FolderDown(f"{host} could not be reached, or refused: {_describe_error(error)}.") from error
        raise models.FolderDown(f"{host} refused: {_describe_error(error)}.") from error


def _describe_error(error: OSError) -> str:
    """On one short line: some are the other side's own text."""
    text = " ".join((error.strerror or str(error) or type(error).__name__).split())
    return text[:200].rstrip(".")


def _read_bounded(file: paramiko.SFTPFile, max_bytes: int | None) -> bytes:
    """At most one byte more than allowed."""
    max_read = max_bytes + 1 if max_bytes is not None else None
    data = bytearray()
    while chunk := file.read(CHUNK_BYTES if max_read is None else min(CHUNK_BYTES, max_read - len(data))):
        data += chunk
    return bytes(data)
