"""A folder on another machine, over SFTP. The machine proves who it is by a key in a known_hosts file."""

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
from quillpost.integrations.folders.models import (
    Barred,
    OpenPlace,
    PlaceDown,
    SftpKeys,
    check_path,
    is_usable,
    too_large,
)

KEY_KINDS: dict[type, type[paramiko.PKey]] = {
    Ed25519PrivateKey: paramiko.Ed25519Key,
    EllipticCurvePrivateKey: paramiko.ECDSAKey,
    RSAPrivateKey: paramiko.RSAKey,
}


def known_hosts(keys: SftpKeys) -> Path:
    if keys.known_hosts is None:
        raise PlaceDown("QUILLPOST_SFTP_KNOWN_HOSTS is not set: no machine can prove who it is.")
    try:
        paramiko.HostKeys(str(keys.known_hosts))
    except (OSError, paramiko.SSHException, UnicodeDecodeError):
        raise PlaceDown(
            f"QUILLPOST_SFTP_KNOWN_HOSTS names {keys.known_hosts}, which is not a known_hosts file that we"
            " can read."
        ) from None
    return keys.known_hosts


def private_key(keys: SftpKeys) -> paramiko.PKey | None:
    if keys.key is None:
        if keys.password is None:
            raise PlaceDown("Neither QUILLPOST_SFTP_KEY nor QUILLPOST_SFTP_PASSWORD is set.")
        return None
    try:
        return _loaded(keys.key.read_bytes(), keys.password)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm, paramiko.SSHException):
        raise PlaceDown(
            f"QUILLPOST_SFTP_KEY names {keys.key}, which is not a private key that we can open; its"
            " passphrase, if it has one, is QUILLPOST_SFTP_PASSWORD."
        ) from None


def _loaded(data: bytes, passphrase: str | None) -> paramiko.PKey:
    """Paramiko reads but some forms of keys, and of some only every other one: it is given a plain one."""
    try:
        key = _opened(data, passphrase)
    except TypeError:  # the key needs no passphrase
        key = _opened(data, None)
    kind = next((kind for form, kind in KEY_KINDS.items() if isinstance(key, form)), None)
    if kind is None:
        raise TypeError("Not a kind of key that SSH still uses.")
    plain = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    return kind.from_private_key(io.StringIO(plain.decode()))


def _opened(data: bytes, passphrase: str | None) -> SSHPrivateKeyTypes | PrivateKeyTypes:
    password = None if passphrase is None else passphrase.encode()
    try:
        return load_ssh_private_key(data, password)
    except ValueError:
        return load_pem_private_key(data, password)


MISSING = {errno.ENOENT, errno.ENOTDIR}
NOT_ALLOWED = {errno.EACCES, errno.EPERM}
CHUNK = 1 << 20


class SftpPlace:
    """`folder` is as the other machine spells it; without a leading slash it is in the user's home."""

    def __init__(
        self, host: str, *, user: str, folder: str, keys: SftpKeys, port: int = 22, seconds: float = 30.0
    ) -> None:
        self._host, self._port, self._user = host, port, user
        self._folder = PurePosixPath(folder)
        self._keys = keys
        self._seconds = seconds

    @property
    def shown(self) -> str:
        return f"{self._folder} on {self._host}"

    def check(self) -> None:
        """Look at the files of this machine that it takes to get in, or `NotReady`."""
        try:
            known_hosts(self._keys)
            private_key(self._keys)
        except PlaceDown as fault:
            raise NotReady(str(fault)) from None

    @contextmanager
    def open(self) -> Iterator[OpenPlace]:
        key = private_key(self._keys)
        believed = known_hosts(self._keys)
        with paramiko.SSHClient() as client:
            client.load_system_host_keys(str(believed))
            client.set_missing_host_key_policy(_NoStrangers())
            with _speaking(self._host, self._user, self._seconds):
                client.connect(
                    self._host,
                    self._port,
                    self._user,
                    password=self._keys.password if key is None else None,
                    pkey=key,
                    timeout=self._seconds,
                    banner_timeout=self._seconds,
                    auth_timeout=self._seconds,
                    channel_timeout=self._seconds,
                    # The service's own settings alone say who it is.
                    allow_agent=False,
                    look_for_keys=False,
                )
                files = client.open_sftp()
                channel = files.get_channel()
                if channel is not None:
                    channel.settimeout(self._seconds)
            visit = _Visit(files, self._folder, self)
            visit.find_root()
            yield visit

    @contextmanager
    def speaking(self) -> Iterator[None]:
        with _speaking(self._host, self._user, self._seconds):
            yield


class _Visit:
    def __init__(self, files: paramiko.SFTPClient, root: PurePosixPath, place: SftpPlace) -> None:
        self._files = files
        self._root = root
        self._place = place

    def find_root(self) -> None:
        with self._place.speaking():
            if not self._is_folder(str(self._root)):
                raise PlaceDown(f"There is no folder {self._place.shown}: ask for it to be made.")

    def put(self, name: str, data: bytes, *, is_secret: bool = False) -> None:
        path = self._path(name)
        draft = str(PurePosixPath(path).with_name(f".{secrets.token_hex(8)}.tmp"))
        with self._place.speaking():
            self._make_folders(name, mode=0o750 if is_secret else 0o777)
            # It asks for the size that has arrived, and complains of another.
            self._files.putfo(io.BytesIO(data), draft, file_size=len(data))
            if self._stat(path) is None:
                self._files.rename(draft, path)
            else:
                self._files.posix_rename(draft, path)

    def get(self, name: str, *, most_bytes: int | None = None) -> bytes:
        with self._place.speaking():
            try:
                with self._files.open(self._path(name), "rb") as file:
                    data = _read(file, most_bytes)
            except OSError as fault:
                if fault.errno in MISSING:
                    raise FileMissing(name) from None
                if fault.errno in NOT_ALLOWED:
                    raise Barred(f"{self._path(name)} cannot be read: {_words(fault)}.") from fault
                raise
        if most_bytes is not None and len(data) > most_bytes:
            raise too_large(name, most_bytes)
        return data

    def exists(self, name: str) -> bool:
        with self._place.speaking():
            return self._stat(self._path(name)) is not None

    def size(self, name: str) -> int | None:
        with self._place.speaking():
            found = self._stat(self._path(name))
        return found.st_size if found is not None and stat.S_ISREG(found.st_mode or 0) else None

    def names(self, folder: str) -> list[str]:
        with self._place.speaking():
            path = self._path(folder)
            return sorted(filter(is_usable, self._files.listdir(path))) if self._is_folder(path) else []

    def rename(self, old: str, new: str) -> bool:
        with self._place.speaking():
            if self._stat(self._path(old)) is None:
                raise FileMissing(old)
            self._make_folders(new)
            try:
                # This form refuses a name that is taken; the other, posix_rename, does not.
                self._files.rename(self._path(old), self._path(new))
            except OSError:
                if self._stat(self._path(new)) is None:
                    raise
                return False
        return True

    def delete(self, name: str) -> None:
        with self._place.speaking():
            self._delete(self._path(name))

    def _delete(self, path: str) -> None:
        found = self._stat(path)
        if found is None:
            return
        if not stat.S_ISDIR(found.st_mode or 0):
            self._files.remove(path)
            return
        for inside in self._files.listdir(path):
            self._delete(f"{path}/{inside}")
        self._files.rmdir(path)

    def _make_folders(self, name: str, *, mode: int = 0o777) -> None:
        """Above the file, below the root."""
        for parent in reversed(PurePosixPath(check_path(name)).parents[:-1]):
            path = str(self._root / parent)
            if not self._is_folder(path):
                try:
                    self._files.mkdir(path, mode)
                except OSError:  # another may have made it
                    if not self._is_folder(path):
                        raise

    def _is_folder(self, path: str) -> bool:
        found = self._stat(path, follow=True)
        return found is not None and stat.S_ISDIR(found.st_mode or 0)

    def _stat(self, path: str, *, follow: bool = False) -> paramiko.SFTPAttributes | None:
        try:
            return self._files.stat(path) if follow else self._files.lstat(path)
        except OSError as fault:
            if fault.errno in MISSING:
                return None
            raise

    def _path(self, name: str) -> str:
        return str(self._root / check_path(name)) if name else str(self._root)


class _NoStrangers(paramiko.MissingHostKeyPolicy):
    def missing_host_key(self, client: object, hostname: str, key: object) -> None:  # noqa: ARG002
        raise PlaceDown(
            f"{hostname} is not in QUILLPOST_SFTP_KNOWN_HOSTS: add the host key that it told you."
        )


@contextmanager
def _speaking(host: str, user: str, seconds: float) -> Iterator[None]:
    try:
        yield
    except paramiko.BadHostKeyException:
        raise PlaceDown(
            f"The host key of {host} is not the one in QUILLPOST_SFTP_KNOWN_HOSTS. Nothing was sent: ask its"
            " owner whether the key was changed."
        ) from None
    except paramiko.AuthenticationException:
        raise PlaceDown(
            f"{host} does not let {user} in: look at QUILLPOST_SFTP_KEY and QUILLPOST_SFTP_PASSWORD."
        ) from None
    except TimeoutError as fault:
        raise PlaceDown(f"{host} did not answer within {seconds:g} seconds.") from fault
    except (paramiko.SSHException, EOFError, ConnectionError) as fault:
        raise PlaceDown(f"{host} closed the connection, or does not speak SFTP.") from fault
    except OSError as fault:
        if isinstance(fault, paramiko.ssh_exception.NoValidConnectionsError) or fault.errno is None:
            raise PlaceDown(f"{host} could not be reached, or refused: {_words(fault)}.") from fault
        raise PlaceDown(f"{host} refused: {_words(fault)}.") from fault


def _words(fault: OSError) -> str:
    """On one line, not endless: some of them are the other side's own."""
    text = " ".join((fault.strerror or str(fault) or type(fault).__name__).split())
    return text[:200].rstrip(".")


def _read(file: paramiko.SFTPFile, most_bytes: int | None) -> bytes:
    """No more than one byte too many."""
    left = most_bytes + 1 if most_bytes is not None else None
    data = bytearray()
    while chunk := file.read(CHUNK if left is None else min(CHUNK, left - len(data))):
        data += chunk
    return bytes(data)
