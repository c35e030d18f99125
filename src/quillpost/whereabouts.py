"""Where we are: as the world calls it, and as this machine does."""

from quillpost.settings import Settings


def public_base(settings: Settings) -> str:
    return (settings.base_url or f"http://{_shown(settings.host)}:{settings.port}").rstrip("/")


def own_place(settings: Settings) -> tuple[str, int]:
    """The host and the port under which this machine reaches us."""
    return _shown(settings.host), settings.port


def _shown(host: str) -> str:
    return "127.0.0.1" if host in ("0.0.0.0", "::", "localhost") else host  # noqa: S104
