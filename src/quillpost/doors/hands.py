"""A line in each hand, for whoever chooses one. No token needed: the hands are the same for everyone."""

import hashlib
from threading import BoundedSemaphore, Lock
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request, Response

from quillpost.api.needs import id_in_path, parts_of
from quillpost.composition.samples import sample, sample_version
from quillpost.composition.studio import Studio
from quillpost.kit.errors import NotFound, Unavailable
from quillpost.parts import Parts

router = APIRouter(include_in_schema=False)

FOR_EVER = "public, max-age=31536000, immutable"
AN_HOUR = "public, max-age=3600"

WAITING_AT_ONCE = 8
"""A hand that is not ready takes seconds: so few wait for it that other callers still find a thread."""


class Samples:
    """The lines that were drawn, each once."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio
        self._drawn: dict[int, bytes] = {}
        self._places = BoundedSemaphore(WAITING_AT_ONCE)
        self._pen = Lock()

    def of(self, number: int) -> bytes:
        return self._drawn.get(number) or self._draw(number)

    def _draw(self, number: int) -> bytes:
        if not self._places.acquire(blocking=False):
            raise Unavailable("The hands are being made ready. Try again shortly.")
        try:
            with self._pen:
                if number not in self._drawn:
                    self._drawn[number] = sample(self._studio, number)
                return self._drawn[number]
        finally:
            self._places.release()


def samples_of(request: Request) -> Samples:
    samples: Samples = request.app.state.samples
    return samples


@router.get("/hands/{number}.png")
def show_sample(
    number: str,
    parts: Annotated[Parts, Depends(parts_of)],
    samples: Annotated[Samples, Depends(samples_of)],
    v: str = "",
    if_none_match: Annotated[str, Header()] = "",
) -> Response:
    """The address with the right `v` names what it shows, so that it can be kept for ever."""
    style = parts.studio.hands.styles.get(id_in_path(number))
    if style is None:
        raise NotFound
    picture = samples.of(style.number)
    tag = f'"{hashlib.sha256(picture).hexdigest()[:24]}"'
    headers = {"Cache-Control": FOR_EVER if v == sample_version(style) else AN_HOUR, "ETag": tag}
    if tag in if_none_match or if_none_match.strip() == "*":
        return Response(status_code=304, headers=headers)
    return Response(picture, media_type="image/png", headers=headers)
