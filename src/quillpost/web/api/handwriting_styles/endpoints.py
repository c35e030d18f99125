"""Handwriting styles."""

from typing import Literal

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from quillpost.rendering.samples import sample_version
from quillpost.web.api.dependencies import require_scope
from quillpost.web.api.errors import error_responses
from quillpost.web.api.orders.responses import base_url
from quillpost.web.api.responses import json_response
from quillpost.web.api.routes import PREFIX, V2Route
from quillpost.web.dependencies import Services


class HandwritingStyle(BaseModel):
    handwriting_style_id: int = Field(examples=[1])
    name: str = Field(examples=["Zeyada"])
    sample: str = Field(
        description="A PNG of one line in this hand.", examples=["https://mail.example.com/hands/1.png?v=0f3c5d7e9b1a"]
    )
    type: Literal["Realistic", "Bold", "International", "AI"] = Field(
        description="Those of type AI never write a letter twice alike.", examples=["AI"]
    )


class HandwritingStyles(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "data": [
                        {
                            "handwriting_style_id": 1,
                            "name": "Zeyada",
                            "sample": "https://mail.example.com/hands/1.png?v=0f3c5d7e9b1a",
                            "type": "AI",
                        }
                    ]
                }
            ]
        }
    )

    data: list[HandwritingStyle]


router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Handwriting"])


@router.get(
    "/handwriting-styles",
    response_model=HandwritingStyles,
    responses=error_responses(),
    dependencies=[Depends(require_scope("templates:read"))],
    summary="List the hands",
)
def list_handwriting_styles(request: Request, container: Services) -> Response:
    """Give a send one of these ids as `handwriting_style`. The samples need no token."""
    base = base_url(request)
    return json_response(
        {
            "data": [
                {
                    "handwriting_style_id": style.number,
                    "name": style.name,
                    "sample": f"{base}/hands/{style.number}.png?v={sample_version(style)}",
                    "type": style.kind,
                }
                for style in container.renderer.hands.styles.values()
            ]
        }
    )
