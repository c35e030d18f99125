"""Which addresses our own requests may go to, as the settings say it."""

import re
from contextlib import suppress
from pathlib import Path

from quillpost.app.runtime import get_own_address
from quillpost.core.errors import NotReady
from quillpost.core.settings import Settings
from quillpost.integrations.http.guard import OutboundGuard

HOST_PATTERN = re.compile(r"[\w.-]+|\[[0-9A-Fa-f:.]+\]")


def build_outbound_guard(settings: Settings) -> OutboundGuard:
    """Every address that callers name is guarded, but our own receiver page and what the operator lists."""
    receiver_addresses = read_receiver_addresses(settings)
    return OutboundGuard(
        allow_private=settings.allow_private_urls,
        allow=frozenset(receiver_addresses | read_allowed_addresses(settings)),
    )


def read_receiver_addresses(settings: Settings) -> set[tuple[str, int]]:
    """Where our own receiver page is: here, or where the `serve --welcome` beside us has noted that it is."""
    if settings.receiver:
        return {get_own_address(settings)}
    try:
        host, port = _get_receiver_file(settings).read_text().split()
        return {(host, int(port))}
    except (OSError, ValueError):
        return set()


def publish_receiver_address(settings: Settings) -> None:
    """Let those who deliver in other processes find the receiver page; where none is served, no longer."""
    file = _get_receiver_file(settings)
    if not settings.receiver:
        with suppress(OSError):  # a home that cannot be used is told of by whoever needs it
            file.unlink(missing_ok=True)
        return
    host, port = get_own_address(settings)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{host} {port}\n")
    except OSError as error:
        raise NotReady(f"The home folder {file.parent} cannot be used: {error.strerror}.") from None


def _get_receiver_file(settings: Settings) -> Path:
    return settings.home.absolute() / "receiver-place"


def read_allowed_addresses(settings: Settings) -> set[tuple[str, int]]:
    """The operator's exceptions, each a host and a port."""
    addresses = set()
    for text in filter(None, map(str.strip, (settings.allowed_hosts or "").split(","))):
        host, _, port = text.rpartition(":")
        is_port = port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65_536
        if not HOST_PATTERN.fullmatch(host) or not is_port:
            raise NotReady(
                f"QUILLPOST_ALLOWED_HOSTS names no host and port: {text}. "
                "Write each as localhost:3000, without http:// and without a path."
            )
        addresses.add((host.strip("[]").lower(), int(port)))
    return addresses
