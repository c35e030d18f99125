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
        super().__init__()
        self._answer, self.host = answer, host

    def handle(self, request: FakeRequest) -> FakeResponse:
        is_icon = request.path == "/favicon.ico"
        page = SiteResponse() if is_icon else self._answer(request.target, request.body)
        headers = {"Content_Type": f"{page.media_type}; charset=utf-8"}
        if page.location:
            return respond(303, page.text.encode(), Location=page.location, **headers)
        return respond(200, page.text.encode(), **headers)


@contextmanager
def other_site(answer: Answer, *, host: str = "localhost") -> Iterator[str]:
    """Its address. For a browser `localhost` is another site than 127.0.0.1; another port is the same site."""
    with _Site(answer, host) as site:
        yield site.url
