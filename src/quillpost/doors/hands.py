"""A line in each hand, for whoever chooses one. No token needed: the hands are the same for everyone."""

import hashlib
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request, Response

from quillpost.api.needs import id_in_path, parts_of
from quillpost.composition.samples import sample, sample_version
from quillpost.composition.studio import Studio
from quillpost.doors.drawn_once import DrawnOnce
from quillpost.kit.errors import NotFound
from quillpost.parts import Parts

router = APIRouter(include_in_schema=False)

FOR_EVER = "public, max-age=31536000, immutable"
AN_HOUR = "public, max-age=3600"


def remembered_samples(studio: Studio) -> DrawnOnce[int]:
    return DrawnOnce(lambda number: sample(studio, number))


def samples_of(request: Request) -> DrawnOnce[int]:
    samples: DrawnOnce[int] = request.app.state.samples
    return samples


@router.get("/hands/{number}.png")
def show_sample(
    number: str,
    parts: Annotated[Parts, Depends(parts_of)],
    samples: Annotated[DrawnOnce[int], Depends(samples_of)],
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
