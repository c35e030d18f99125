"""From a request that went wrong back to a page that can be opened."""

from fastapi import Request

from quillpost.api.allowed import Paths
from quillpost.reception.show import own_path
from quillpost.reception.visits import came_from


def way_back(request: Request) -> str:
    """The page on which the form stands that was sent here: the one that the browser says it comes from, or
    this very path, or the nearest above it that is a page. To open it is to get a fresh form, which loading
    the answer again is not."""
    paths = Paths.of(request.app.routes)
    said = own_path(came_from(request)) if request.method == "POST" else "/"
    if said != "/" and _is_page(paths, said.partition("?")[0]):
        return said
    here = own_path(request.url.path)
    while here and not _is_page(paths, here):
        here = here.rpartition("/")[0]
    return here or "/"


def _is_page(paths: Paths, path: str) -> bool:
    return "GET" in paths.taken_at(path)
