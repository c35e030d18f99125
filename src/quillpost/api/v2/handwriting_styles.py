"""The hands that a message can be written in."""

from fastapi import APIRouter, Depends, Request, Response

from quillpost.api.answers import answer
from quillpost.api.docs import errors
from quillpost.api.needs import Parts, may
from quillpost.api.route import PREFIX, V2Route
from quillpost.api.v2.schemas import hands as schemas
from quillpost.api.v2.shapes import base_of
from quillpost.composition.samples import sample_version

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Handwriting"])


@router.get(
    "/handwriting-styles",
    response_model=schemas.HandwritingStyles,
    responses=errors(),
    dependencies=[Depends(may("templates:read"))],
    summary="List the hands",
)
def list_handwriting_styles(request: Request, parts: Parts) -> Response:
    """Give a send one of these ids as `handwriting_style`. The samples need no token."""
    base = base_of(request)
    return answer(
        {
            "data": [
                {
                    "handwriting_style_id": style.number,
                    "name": style.name,
                    "sample": f"{base}/hands/{style.number}.png?v={sample_version(style)}",
                    "type": style.kind,
                }
                for style in parts.studio.hands.styles.values()
            ]
        }
    )
