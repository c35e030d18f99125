"""Another site than ours in the same browser, with whatever pages a test writes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from support.fake_server import FakeRequest, FakeResponse, FakeServer, respond


@dataclass(frozen=True)
class SiteResponse:
    """A page, or where to go on."""

    text: str = ""
    media_type: str = "text/html"
    location: str | None = None


Answer = Callable[[str, bytes], SiteResponse]
"""Of a path with its query, and the body."""


class _Site(FakeServer):
    def __init__(self, answer: Answer, host: str) -> None:
        super().__init__(host=host)
        self._answer = answer

    def handle(self, request: FakeRequest) -> FakeResponse:
        is_icon = request.path == "/favicon.ico"
        page = SiteResponse() if is_icon else self._answer(request.target, request.body)
        where = {"Location": page.location} if page.location else {}
        kind = f"{page.media_type}; charset=utf-8"
        return respond(303 if page.location else 200, page.text.encode(), Content_Type=kind, **where)


@contextmanager
def other_site(answer: Answer, *, host: str = "localhost") -> Iterator[str]:
    """Its address. For a browser `localhost` is another site than 127.0.0.1; another port is the same site."""
    with _Site(answer, host) as site:
        yield site.url()
