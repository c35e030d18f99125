"""The hands that there are."""

from typing import Literal, TypedDict

from quillpost.client.requests import Kind, Request, Resource, listing


class HandwritingStyle(TypedDict):
    handwriting_style_id: int
    name: str
    sample: str
    type: Literal["Realistic", "Bold", "International", "AI"]


class HandwritingStyles(Resource[Kind]):
    @listing("/handwriting-styles")
    def list(self) -> Request[HandwritingStyle]:
        """Every hand, with a picture of one line."""
        return Request()
