"""Whom somebody is on their way to when they are asked to sign in first."""

from urllib.parse import parse_qs, urlsplit
from uuid import UUID

from quillpost.accounts import clients
from quillpost.parts import Parts

CONSENT = "/oauth/authorize"


def app_awaiting(parts: Parts, wanted: str) -> str | None:
    """The name of the app that asks for leave on the page that comes next; None: it is another page, or we
    know no such app."""
    page = urlsplit(wanted)
    if page.path != CONSENT:
        return None
    try:
        [client_id] = parse_qs(page.query, max_num_fields=100).get("client_id", [])
        UUID(client_id)
    except ValueError:  # none, several, too much, or no id of ours
        return None
    with parts.db.work() as tx:
        client = clients.by_client_id(tx, client_id)
    return None if client is None else client.name
