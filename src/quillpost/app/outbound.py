"""Which addresses our own requests may go to, as the settings say it."""

import re
from contextlib import suppress
from pathlib import Path

from quillpost.app.runtime import own_place
from quillpost.core.errors import NotReady
from quillpost.core.settings import Settings
from quillpost.integrations.http.guard import OutboundGuard

HOST = re.compile(r"[\w.-]+|\[[0-9A-Fa-f:.]+\]")


def outbound_guard(settings: Settings) -> OutboundGuard:
    """Every address that callers name is guarded, but our own receiver page and what the operator lists."""
    own = receiver_places(settings)
    return OutboundGuard(
        allow_private=settings.allow_private_urls, allow=frozenset(own | allowed_places(settings))
    )


def receiver_places(settings: Settings) -> set[tuple[str, int]]:
    """Where our own receiver page is: here, or where the `serve --welcome` beside us has noted that it is."""
    if settings.receiver:
        return {own_place(settings)}
    try:
        host, port = _receiver_note(settings).read_text().split()
        return {(host, int(port))}
    except (OSError, ValueError):
        return set()


def note_receiver(settings: Settings) -> None:
    """Let those who deliver in other processes find the receiver page; where none is served, no longer."""
    note = _receiver_note(settings)
    if not settings.receiver:
        with suppress(OSError):  # a home that cannot be used is told of by whoever needs it
            note.unlink(missing_ok=True)
        return
    host, port = own_place(settings)
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(f"{host} {port}\n")
    except OSError as refused:
        raise NotReady(f"The home folder {note.parent} cannot be used: {refused.strerror}.") from None


def _receiver_note(settings: Settings) -> Path:
    return settings.home.absolute() / "receiver-place"


def allowed_places(settings: Settings) -> set[tuple[str, int]]:
    """The operator's exceptions, each a host and a port."""
    places = set()
    for written in filter(None, map(str.strip, (settings.allowed_hosts or "").split(","))):
        host, _, port = written.rpartition(":")
        is_port = port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65_536
        if not HOST.fullmatch(host) or not is_port:
            raise NotReady(
                f"QUILLPOST_ALLOWED_HOSTS names no host and port: {written}. "
                "Write each as localhost:3000, without http:// and without a path."
            )
        places.add((host.strip("[]").lower(), int(port)))
    return places
