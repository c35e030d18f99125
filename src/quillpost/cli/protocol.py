"""What the server says to bytes that are no HTTP: the one shape of all failures, and an id to quote. And how
it stops: streams that would stay open are ended."""

from uuid import uuid4

import orjson
import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

log = structlog.get_logger(__name__)

UNREADABLE_MESSAGE = "This is not HTTP as we read it: the method, the address or a header is malformed or too long."


class QuillpostProtocol(HttpToolsProtocol):
    """uvicorn's own, but for the answer to what its parser refuses: no application sees those requests."""

    def shutdown(self) -> None:
        """The server stops, and waits for what is still being answered: a stream would never be."""
        if (shutdown := self.app_state.get("shutdown")) is not None:
            shutdown.begin()
        super().shutdown()

    def send_400_response(self, msg: str) -> None:
        request_id, body = uuid4().hex, orjson.dumps({"message": UNREADABLE_MESSAGE})
        log.warning("requests.malformed", request_id=request_id, reason=msg)
        headers = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "x-request-id": request_id,
            "connection": "close",
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.transport.write(f"HTTP/1.1 400 Bad Request\r\n{head}\r\n".encode() + body)
        self.transport.close()
