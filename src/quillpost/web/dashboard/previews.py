"""Pictures of pages. Those that are drawn as a user types: a few at a time for each user, and only the newest waits."""

import hashlib
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from fastapi import Response

from quillpost import __version__
from quillpost.orders.templates.images import limit_heavy_work
from quillpost.rendering.models import INCH, Copy, Design
from quillpost.rendering.service import Renderer

MAX_CONCURRENT_PREVIEWS: Final = 2


class PreviewSuperseded(Exception):
    pass


@dataclass(slots=True)
class _PreviewQueue:
    running_count: int = 0
    waiting_count: int = 0
    newest_request: object = None


class PreviewLimiter:
    """Of each user only the newest request waits; older ones are dropped."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._queues: dict[Hashable, _PreviewQueue] = {}

    @contextmanager
    def slot(self, reader: Hashable) -> Iterator[None]:
        """`PreviewSuperseded` by a newer request."""
        with self._condition:
            queue = self._queues.setdefault(reader, _PreviewQueue())
            try:
                self._wait_for_slot(queue)
                queue.running_count += 1
            finally:
                self._remove_if_idle(reader, queue)
        try:
            yield
        finally:
            with self._condition:
                queue.running_count -= 1
                self._condition.notify_all()
                self._remove_if_idle(reader, queue)

    def count_waiting(self, reader: Hashable) -> int:
        queue = self._queues.get(reader)
        return 0 if queue is None else queue.waiting_count

    def _wait_for_slot(self, queue: _PreviewQueue) -> None:
        request = queue.newest_request = object()
        self._condition.notify_all()
        queue.waiting_count += 1
        try:
            while queue.running_count >= MAX_CONCURRENT_PREVIEWS:
                if queue.newest_request is not request:
                    raise PreviewSuperseded
                self._condition.wait()
        finally:
            queue.waiting_count -= 1

    def _remove_if_idle(self, reader: Hashable, queue: _PreviewQueue) -> None:
        if not queue.running_count and not queue.waiting_count:
            self._queues.pop(reader, None)


preview_limiter: Final = PreviewLimiter()


def draw_latest(reader: Hashable, draw: Callable[[], Response]) -> Response:
    """204 if a newer request superseded it: the browser keeps what it shows."""
    try:
        with preview_limiter.slot(reader):
            return draw()
    except PreviewSuperseded:
        return Response(status_code=204, headers={"Cache-Control": "no-store"})


def digest_values(*values: object) -> str:
    """Of all that decides how a picture looks, our release too."""
    return hashlib.sha256(repr((__version__, *values)).encode(errors="replace")).hexdigest()[:32]


def draw_side(renderer: Renderer, design: Design, copy: Copy, side_name: str, *, width: int) -> bytes:
    """One side of the piece, `width` pixels wide."""
    layout = renderer.products[design.product]
    inches = layout.find_side(layout.previews[side_name]).preview_area.width / INCH
    with limit_heavy_work():
        return renderer.preview(design, copy, dpi=round(width / inches), only_preview=side_name).sides[side_name]
