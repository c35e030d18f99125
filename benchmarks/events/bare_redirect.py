"""A redirect as Starlette alone answers it, under the same server.

`python -m benchmarks.events.bare_redirect PORT`
"""

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.routing import Route

from quillpost.cli.server import QuillpostProtocol

DESTINATION = "https://shop.example.com/hi?n=Jane&no=4711"


async def lead_on(_request: Request) -> RedirectResponse:
    return RedirectResponse(DESTINATION, 302)


if __name__ == "__main__":
    uvicorn.Server(
        uvicorn.Config(
            Starlette(routes=[Route("/q/{code}", lead_on)]),
            port=int(sys.argv[1]),
            http=QuillpostProtocol,
            log_config=None,
            access_log=False,
            server_header=False,
            forwarded_allow_ips="127.0.0.1",
        )
    ).run()
