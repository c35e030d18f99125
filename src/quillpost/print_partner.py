"""The print partner that the settings ask for; a part of the wiring."""

from quillpost.adapters.places.sftp_access import SftpKeys
from quillpost.adapters.printing.address import EMBEDDED, partner_at
from quillpost.adapters.printing.jobs import JobFolders
from quillpost.fulfilment.partner_names import partner_name
from quillpost.kit import standard_webhooks
from quillpost.kit.errors import NotReady
from quillpost.ports.files import FileStore
from quillpost.ports.printing import PrintPartner
from quillpost.settings import Settings


def live_printer(settings: Settings, store: FileStore) -> PrintPartner:
    """Without a partner nothing is handed over, which is a gap; the embedded one knows what it once got."""
    return partner_at(
        _address(settings),
        store=store,
        folder="print-jobs/live",
        secrets=_secrets(settings),
        keys=sftp_keys(settings),
    )


def reach(settings: Settings, store: FileStore) -> str:
    """Knock at the partner's, where that is possible without a job; what it is called, or `PartnerDown`."""
    partner = live_printer(settings, store)
    if isinstance(partner, JobFolders):
        with partner.visiting():
            return partner.shown
    return _address(settings)


def partner_shown(settings: Settings) -> str:
    """Who it is, for batches to remember: the address without a password."""
    return partner_name(_address(settings))


def hook_secrets(settings: Settings) -> dict[str, list[str]]:
    """Who may call back, and how it is known: nobody without a secret."""
    secrets = _secrets(settings)
    return {settings.print_partner_name: secrets} if settings.print_partner and secrets else {}


def sftp_keys(settings: Settings) -> SftpKeys:
    password = settings.sftp_password
    return SftpKeys(
        settings.sftp_key, password.get_secret_value() if password else None, settings.sftp_known_hosts
    )


def _address(settings: Settings) -> str:
    return EMBEDDED if settings.print_partner is None else settings.print_partner


def _secrets(settings: Settings) -> list[str]:
    given = settings.print_secret.get_secret_value().split() if settings.print_secret else []
    if not all(map(standard_webhooks.is_secret, given)):
        raise NotReady("QUILLPOST_PRINT_SECRET must be whsec_ and 24 to 64 bytes as base64.")
    return given
