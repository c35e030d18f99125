"""The API's description as a page, at /docs and, with a token, at /api/v2/docs."""

from functools import cache

from fastapi import FastAPI, Response

from quillpost import pages
from quillpost.api.docs import EXPLAINED
from quillpost.pages import manual
from quillpost.parts import Parts


def add_docs_page(app: FastAPI, parts: Parts) -> None:
    """Serve the page; it is drawn when first asked for, and once."""

    @cache
    def drawn() -> str:
        description = app.openapi()
        return pages.text_of(
            "docs.html",
            title=description["info"]["title"],
            version=description["info"]["version"],
            lead=description["info"]["description"].partition("\n\n")[0],
            sections=manual.read(description, base_url=parts.base_url),
            events=manual.read_events(description),
            failures={status: meaning for status, (meaning, _) in EXPLAINED.items()},
            limits=parts.limits,
            base_url=parts.base_url,
            release=app.state.release,
        )

    def show() -> Response:
        return pages.page(drawn())

    for path in ("/docs", "/api/v2/docs"):
        app.add_api_route(path, show, include_in_schema=False)
