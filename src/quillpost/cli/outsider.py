"""A caller of the HTTP API that knows an address, a token and nothing else."""

import urllib.request

import httpx2

from quillpost.client import Quillpost

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Past any proxy of the environment, which could not reach a service on this machine."""


def outsider(base_url: str, token: str) -> Quillpost:
    """Past any proxy too; close it, or use it with `with`."""
    return Quillpost(token, base_url, transport=httpx2.HTTPTransport())
