"""The API's description as a page, at /docs and, with a token, at /api/v2/docs."""

from functools import cache

from fastapi import FastAPI, Request, Response

from quillpost import pages
from quillpost.api.docs import EXPLAINED
from quillpost.pages import manual
from quillpost.parts import Parts
from quillpost.reception.show import show_drawn
from quillpost.reception.visits import MaybeReader


def add_docs_page(app: FastAPI, parts: Parts) -> None:
    """Serve the page; it is drawn when first asked for, and once. For whoever is signed in, its head is drawn
    anew: the rest is the same for all."""

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
            who=None,
        )

    def show(request: Request, who: MaybeReader) -> Response:
        return pages.page(drawn()) if who is None else show_drawn(request, drawn(), who)

    def show_to_programs() -> Response:
        return pages.page(drawn())

    app.add_api_route("/docs", show, include_in_schema=False)
    app.add_api_route("/api/v2/docs", show_to_programs, include_in_schema=False)
