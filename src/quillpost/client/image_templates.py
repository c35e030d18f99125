"""Saved fronts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from quillpost.client.requests import Files, Id, Kind, Request, Resource, listing, operation
from quillpost.client.responses import Message

ImageTemplateType = Literal["postcard", "letter", "notecard", "giftcard", "windowlessletter"]
Image = str | bytes | Path
"""A picture by its URL, by what is in its file, or by the file's path."""


class ImageTemplate(TypedDict):
    id: int
    user_id: int
    sub_account_id: int | None
    type: str
    name: str
    image: str
    design_tool_id: str | None
    created_at: str
    updated_at: str


class ImageTemplateFilter(TypedDict, total=False):
    items_per_page: int
    page: int
    search: str
    type: str
    sub_account_id: Id


class ImageTemplateFields(TypedDict, total=False):
    sub_account_id: Id | None
    design_tool_id: str | None


class ImageTemplateChanges(ImageTemplateFields, total=False):
    type: ImageTemplateType
    name: str
    image: Image


class ImageTemplates(Resource[Kind]):
    @listing("/image-templates")
    def list(self, **only: Unpack[ImageTemplateFilter]) -> Request[ImageTemplate]:
        """Templates, newest first."""
        return Request(query=only)

    @operation("POST /image-templates")
    def create(
        self,
        type: ImageTemplateType,  # noqa: A002
        name: str,
        image: Image,
        *,
        idempotency_key: str | None = None,
        **fields: Unpack[ImageTemplateFields],
    ) -> Request[ImageTemplate]:
        """Save a PNG or JPEG: from a URL (str), from a file (Path), or from memory (bytes)."""
        body, files = _split({"type": type, "name": name, "image": image, **fields})
        return Request(body=body, files=files, idempotency_key=idempotency_key)

    @operation("GET /image-templates/{image_template_id}")
    def read(self, image_template_id: Id) -> Request[ImageTemplate]:
        """One template."""
        return Request(image_template_id)

    @operation("PUT /image-templates/{image_template_id}")
    def update(self, image_template_id: Id, **changes: Unpack[ImageTemplateChanges]) -> Request[ImageTemplate]:
        """Change what is named; the rest stays."""
        body, files = _split(changes)
        return Request(image_template_id, body=body, files=files)

    @operation("DELETE /image-templates/{image_template_id}")
    def delete(self, image_template_id: Id) -> Request[Message]:
        """Delete a template that nothing waits for."""
        return Request(image_template_id)


def _split(fields: Mapping[str, Any]) -> tuple[dict[str, Any], Files | None]:
    """The fields and, where the image is not a URL, the file that goes with them."""
    image = fields.get("image")
    others = {name: value for name, value in fields.items() if name != "image"}
    if isinstance(image, Path):
        return others, {"image": (image.name, image.read_bytes())}
    if isinstance(image, bytes):
        return others, {"image": ("image", image)}
    return dict(fields), None
