"""Saved images for fronts."""

from typing import Annotated, Any, get_args

from fastapi import Path, Request, Response

from quillpost.accounts.sub_accounts.queries import require_sub_account
from quillpost.client import templates as wire
from quillpost.client.templates import ImageTemplateType
from quillpost.client.types import MessageResponse
from quillpost.core.database import Tenant
from quillpost.core.text import format_time
from quillpost.orders.templates import service as template_service
from quillpost.orders.templates.images import FetchedPicture
from quillpost.orders.templates.models import ImageTemplate
from quillpost.web.api.dependencies import (
    ApiCaller,
    PageQuery,
    PathId,
    RequestTransaction,
    RequestUnitOfWork,
    SearchQuery,
    SubAccountFilter,
)
from quillpost.web.api.orders.search import TemplateTypesQuery
from quillpost.web.api.responses import json_response, page_of, page_response, to_wire
from quillpost.web.api.routes import ApiRouter, UploadRoute
from quillpost.web.api.schemas import MULTIPART
from quillpost.web.api.templates.schemas import (
    DESIGN_TOOL_DESCRIPTION,
    SUB_ACCOUNT_DESCRIPTION,
    ImageTemplateChanges,
    NewImageTemplate,
    to_image_source,
)
from quillpost.web.dependencies import Services, base_url

router = ApiRouter("Image templates", resource="templates", route_class=UploadRoute)

TemplateId = Annotated[PathId, Path(description="The template's id.")]


def _describe_upload_form(example: dict[str, Any], *, required: list[str]) -> dict[str, Any]:
    form = {
        "type": "object",
        "required": required,
        "properties": {
            "type": {"type": "string", "enum": list(get_args(ImageTemplateType))},
            "name": {"type": "string", "maxLength": 255},
            "image": {"type": "string", "format": "binary", "description": "A PNG or JPEG."},
            "design_tool_id": {"type": "string", "maxLength": 255, "description": DESIGN_TOOL_DESCRIPTION},
            "sub_account_id": {"type": "integer", "minimum": 1, "description": SUB_ACCOUNT_DESCRIPTION},
        },
    }
    return {"requestBody": {"content": {MULTIPART: {"schema": form, "example": example}}}}


def serialize_image_template(request: Request, container: Services, template: ImageTemplate) -> wire.ImageTemplate:
    return to_wire(
        wire.ImageTemplate,
        template,
        user_id=template.account_id,
        image=base_url(request) + container.storage.permanent_path(template.image_file_id),
        created_at=format_time(template.created_at),
        updated_at=format_time(template.updated_at),
    )


def _image_warnings(picture: FetchedPicture | None) -> list[str]:
    return [f"image: {note}" for note in picture.notes] if picture is not None else []


@router.post(
    "/image-templates",
    wire.ImageTemplate,
    status_code=201,
    openapi_extra=_describe_upload_form(
        {"type": "postcard", "name": "Spring sale", "image": "(the bytes of spring.png)"},
        required=["type", "name", "image"],
    ),
    summary="Save an image",
)
def create_image_template(
    request: Request, body: NewImageTemplate, caller: ApiCaller, container: Services, unit_of_work: RequestUnitOfWork
) -> Response:
    """The image comes by its URL, or as a file of a form; it is checked, and kept as it will print."""
    template, picture = template_service.create_image_template(
        container.orders, lambda: unit_of_work.tx, caller, body.column_values(), to_image_source(body.image)
    )
    return json_response(
        serialize_image_template(request, container, template), status=201, warnings=_image_warnings(picture)
    )


@router.get("/image-templates", page_of(wire.ImageTemplate), summary="List saved images, newest first")
def list_image_templates(
    request: Request,
    tx: RequestTransaction,
    container: Services,
    page_request: PageQuery,
    sub_account_id: SubAccountFilter,
    types: TemplateTypesQuery,
    search: SearchQuery,
) -> Response:
    """Filter by type and sub account; `search` looks at names."""
    require_sub_account(tx, sub_account_id)
    page = template_service.IMAGE_TEMPLATES.list(
        tx, page_request, sub_account_id=sub_account_id, types=types, search=search
    )
    return page_response(request, page, lambda template: serialize_image_template(request, container, template))


@router.get("/image-templates/{template_id}", wire.ImageTemplate, summary="Read a saved image")
def read_image_template(
    request: Request, template_id: TemplateId, tx: RequestTransaction, container: Services
) -> Response:
    """`image` is a URL that needs no token, and stays the same until the image is changed."""
    return json_response(
        serialize_image_template(request, container, template_service.IMAGE_TEMPLATES.read(tx, template_id))
    )


@router.put(
    "/image-templates/{template_id}",
    wire.ImageTemplate,
    openapi_extra=_describe_upload_form({"image": "(the bytes of summer.png)"}, required=[]),
    summary="Change a saved image",
)
def update_image_template(
    request: Request,
    template_id: TemplateId,
    body: ImageTemplateChanges,
    caller: ApiCaller,
    container: Services,
    unit_of_work: RequestUnitOfWork,
) -> Response:
    """What is not named stays. Orders that were made with the earlier image keep it."""
    template, picture = template_service.change_image_template(
        container.orders,
        lambda: unit_of_work.tx,
        caller,
        template_id,
        body.column_values(),
        None if body.image is None else to_image_source(body.image),
    )
    return json_response(serialize_image_template(request, container, template), warnings=_image_warnings(picture))


@router.delete("/image-templates/{template_id}", MessageResponse, errors=[400], summary="Delete a saved image")
def delete_image_template(template_id: TemplateId, caller: ApiCaller, container: Services) -> Response:
    """Not while an order that is reviewing or paused uses it, be it a test order or a live one."""
    with container.db.transaction(Tenant(caller.account_id, caller.sub_account_id)) as tx:
        template_service.IMAGE_TEMPLATES.delete(tx, template_id)
    return json_response({"message": "success"})
