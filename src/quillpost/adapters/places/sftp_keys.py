"""The keys that it takes to get in over SFTP, read from their files: our own, and those we believe."""

import io
from pathlib import Path

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

from quillpost.adapters.places.place import PlaceDown
from quillpost.adapters.places.sftp_access import SftpKeys as SftpKeys

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
