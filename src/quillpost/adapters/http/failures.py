"""What went wrong on the way to another server, as a sentence for whoever named that server."""

import aiohttp
from yarl import URL

from quillpost.adapters.http.guard import AddressRefused

# Every way that a request through the guarded session can fail because of the other side.
FAILURES = (aiohttp.ClientError, TimeoutError, ValueError, OSError)


def sentence(failure: Exception, url: str, *, seconds: float) -> str:
    """Names the server and what happened, never an address that a name led to."""
    host = _host(url)
    match failure:
        case aiohttp.ClientConnectorError(os_error=AddressRefused()):
            return f"{host} is not a public address."
        case aiohttp.ClientConnectorDNSError():
            return f"The server {host} could not be found."
        case aiohttp.ClientConnectorCertificateError():
            return f"The certificate of {host} could not be verified."
        case aiohttp.ClientSSLError():
            return f"No secure connection to {host} could be made."
        case TimeoutError():
            return f"{host} did not answer within {seconds:g} seconds."
        case aiohttp.ClientConnectorError():
            return f"{host} could not be reached."
        case aiohttp.ClientPayloadError():
            return f"{host} broke off in the middle of its answer."
        case aiohttp.ServerDisconnectedError() | OSError():
            return f"{host} closed the connection without an answer."
        case aiohttp.ClientResponseError():
            return f"{host} gave an answer that is not HTTP."
        case _:
            return f"{host} could not be asked: the request is not valid."


def _host(url: str) -> str:
    try:
        return URL(url).host or "The server"
    except ValueError:
        return "The server"
