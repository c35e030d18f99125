"""Scopes: what a token or an app may do, and how they are described."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from quillpost.accounts.models import Role

SCOPE_LABELS: Final[Mapping[str, str]] = {
    "send:read": "See your automations and what they would send",
    "send:write": "Send mail, by itself or by automations, and pay for it from your credit",
    "orders:read": "See your orders, whom they went to and how far each piece has come",
    "orders:write": "Change and cancel your orders while they can still be changed",
    "lists:read": "See your mailing lists and everyone on them, and download them",
    "lists:write": "Add, change, import, buy and erase people on your mailing lists",
    "templates:read": "See your pictures and messages, and the handwriting that there is",
    "templates:write": "Add, change and delete your pictures and messages",
    "webhooks:read": "See where your events are sent, and what was sent there",
    "webhooks:write": "Have your events sent to addresses of its choice",
    "account:read": "See your account, its credit and its sub accounts",
    "account:write": "Make, change and delete your sub accounts",
}
SCOPES = tuple(SCOPE_LABELS)

ALL_SCOPES_LABEL = "Everything that this account can do by the API"


def describe_scopes(scopes: Collection[str] | None) -> list[str]:
    return [ALL_SCOPES_LABEL] if scopes is None else [SCOPE_LABELS[scope] for scope in sort_scopes(scopes)]


def sort_scopes(scopes: Collection[str]) -> list[str]:
    """The known ones, once each, in the order of `SCOPES`."""
    return [scope for scope in SCOPES if scope in scopes]


def format_scopes(scopes: Sequence[str] | None) -> str:
    return "everything" if scopes is None else ", ".join(sort_scopes(scopes))


OWNER_ONLY_SCOPES = frozenset({"account:write"})


def get_role_scopes(role: Role) -> frozenset[str] | None:
    """The most that this role may do, or grant to an app; None means everything."""
    return None if role == "owner" else frozenset(SCOPES) - OWNER_ONLY_SCOPES


def intersect_scopes(*scope_sets: frozenset[str] | None) -> frozenset[str] | None:
    """What all of these allow; None allows everything."""
    limits = [scopes for scopes in scope_sets if scopes is not None]
    return frozenset.intersection(*limits) if limits else None


def find_scope_error(scopes: Iterable[str] | None) -> str | None:
    unknown = next((scope for scope in scopes or () if scope not in SCOPES), None)
    return None if unknown is None else f"Unknown scope {unknown}. Known scopes: {', '.join(SCOPES)}."
