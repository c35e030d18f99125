"""In which zone its reader lives. A script of ours says it once, in a cookie; until then it is UTC."""

from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from fastapi import Request

COOKIE: Final = "quillpost_zone"
UTC: Final = ZoneInfo("UTC")


def zone_of(request: Request) -> ZoneInfo:
    return known_zone(request.cookies.get(COOKIE, "")) or UTC


def known_zone(name: str) -> ZoneInfo | None:
    """The zone of this name; nothing where there is none. What others write is looked up among the names that
    there are, opens no file, and is kept nowhere."""
    return ZoneInfo(name) if name in _names() else None


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    return frozenset(available_timezones())
