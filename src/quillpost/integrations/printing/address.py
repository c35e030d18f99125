"""Which print partner a setting asks for."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from quillpost.core.errors import NotReady
from quillpost.core.ports import FileStore
from quillpost.fulfillment.ports import PrintPartner
from quillpost.integrations.folders.address import build_folder
from quillpost.integrations.folders.models import SftpCredentials
from quillpost.integrations.printing.folder import FolderPartner, HotFolder
from quillpost.integrations.printing.http import HttpPartner

SETTING = "QUILLPOST_PRINT_PARTNER"
EMBEDDED_PARTNER = "folder"


def build_partner(
    address: str, *, store: FileStore, folder: str, secrets: Sequence[str], credentials: SftpCredentials
) -> PrintPartner:
    """The partner, or `NotReady` with a sentence on what does not fit together. Nobody is called yet."""
    if address == EMBEDDED_PARTNER:
        return FolderPartner(store, folder)
    scheme = address.partition(":")[0].lower()
    if scheme in ("file", "sftp"):
        return HotFolder(build_folder(address, credentials=credentials, setting=SETTING))
    if scheme in ("http", "https"):
        return HttpPartner(_check_url(address), secrets=_require_secrets(secrets))
    raise NotReady(f"{SETTING} must be folder, file:///path, sftp://user@host:port/path or https://host/path.")


def _check_url(url: str) -> str:
    try:
        parsed = urlsplit(url)
        is_plain = bool(parsed.hostname) and parsed.port != 0 and not (parsed.query or parsed.fragment)
    except ValueError:
        raise NotReady(f"{SETTING} is not an address that we can read.") from None
    if parsed.username is not None or parsed.password is not None:
        raise NotReady(f"{SETTING} must not hold a user or a password: requests are signed instead.")
    if not is_plain or not url.isprintable() or " " in url:
        raise NotReady(f"{SETTING} must be an address such as https://host/path.")
    return url


def _require_secrets(secrets: Sequence[str]) -> Sequence[str]:
    if not secrets:
        raise NotReady(f"{SETTING} is an address on the web: QUILLPOST_PRINT_SECRET must be set, to sign with.")
    return secrets
