"""The receiver that comes with the service: a place to watch events without one of one's own."""

from fastapi import Request

from quillpost.kit.hosts import is_this_machine
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn


def receiver_address(request: Request, who: SignedIn, parts: Parts) -> str | None:
    """Where it is, for whoever runs the service and sits at its machine: the address is its key, and it shows
    the events of all who subscribe it."""
    if parts.receiver_key is None or not who.is_operator or request.client is None:
        return None
    is_here = is_this_machine(request.client.host) and is_this_machine(request.url.hostname or "")
    return f"{parts.base_url}/receiver/{parts.receiver_key}" if is_here else None
