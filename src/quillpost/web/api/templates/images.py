"""Saved images for fronts."""

from typing import Annotated, Any, cast, get_args

from fastapi import Depends, Path, Request, Response
from pydantic import AliasChoices, Field, PlainValidator

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.accounts.sub_accounts.queries import require_sub_account
from quillpost.app.container import Container
from quillpost.client import templates as wire
from quillpost.client.templates import ImageTemplateType
from quillpost.client.types import MessageResponse
from quillpost.core.database import Tenant
from quillpost.core.errors import Conflict, Invalid
from quillpost.core.text import format_time
from quillpost.orders.templates import service as template_service
from quillpost.orders.templates.images import (
    FetchedPicture,
    FileToFetch,
    fetch_images,
    read_image,
    read_uploaded_image,
    record_image,
    store_image,
)
from quillpost.orders.templates.rules import MAX_URL_LENGTH
from quillpost.orders.templates.service import ImageTemplate
from quillpost.web.api.dependencies import (
    PageQuery,
    PathId,
    RequestTransaction,
    RequestUnitOfWork,
    SearchQuery,
    SubAccountFilter,
    require_scope,
)
from quillpost.web.api.errors import BODY_ERRORS
from quillpost.web.api.orders.search import TemplateTypesQuery
from quillpost.web.api.responses import json_response, page_of, page_response
from quillpost.web.api.routes import ApiRouter, UploadRoute
from quillpost.web.api.schemas import MULTIPART, Body, FormFile, Id, accepts
from quillpost.web.api.templates.schemas import NOT_NULL, Name, OptionalText
from quillpost.web.dependencies import Services, UnitOfWork, base_url

router = ApiRouter("Image templates", UploadRoute)

CanWrite = Annotated[Caller, Depends(require_scope("templates:write"))]
TemplateId = Annotated[PathId, Path(description="The template's id.")]


def _check_image_value(value: object) -> str | FormFile:
    if isinstance(value, FormFile):
        return value
    if isinstance(value, str) and value.strip():
        return str(value).strip()
    raise ValueError(f"Give the URL of a PNG or JPEG, or upload one as {MULTIPART}.")


ImageUrlText = Annotated[str, Field(max_length=MAX_URL_LENGTH)]
ImageInput = Annotated[str | FormFile, PlainValidator(_check_image_value, json_schema_input_type=ImageUrlText)]
OptionalImageInput = Annotated[
    str | FormFile | None, PlainValidator(_check_image_value, json_schema_input_type=ImageUrlText)
]
IMAGE_DESCRIPTION = "The URL of a PNG or JPEG; or, in a form with files, the file itself."
DESIGN_TOOL_DESCRIPTION = "Its identifier in a design tool of yours."
SUB_ACCOUNT_DESCRIPTION = "The sub account that it belongs to."


@accepts(wire.ImageTemplateUpdate)
class NewImageTemplate(Body):
    type: ImageTemplateType = Field(description="The piece that it is the front of.")
    name: Name = Field(description="Yours; it is not printed.")
    image: ImageInput = Field(validation_alias=AliasChoices("image", "image_url"), description=IMAGE_DESCRIPTION)
    design_tool_id: OptionalText = Field(None, description=DESIGN_TOOL_DESCRIPTION)
    sub_account_id: Id | None = Field(
        None, validation_alias=AliasChoices("sub_account_id", "sub_account"), description=SUB_ACCOUNT_DESCRIPTION
    )


@accepts(wire.ImageTemplateUpdate)
class ImageTemplateChanges(Body):
    """What is not named stays."""

    type: Annotated[ImageTemplateType, NOT_NULL] = Field(
        default_factory=lambda: "postcard",  # stands for "stays"
        description="The piece that it is the front of.",
    )
    name: Annotated[Name, NOT_NULL] = Field(default_factory=str, description="Yours; not printed.")
    image: OptionalImageInput = Field(
        None, validation_alias=AliasChoices("image", "image_url"), description=IMAGE_DESCRIPTION
    )
    design_tool_id: OptionalText = Field(None, description=DESIGN_TOOL_DESCRIPTION)
    sub_account_id: Id | None = Field(
        None, validation_alias=AliasChoices("sub_account_id", "sub_account"), description=SUB_ACCOUNT_DESCRIPTION
    )


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
    return {
        "id": template.id,
        "user_id": template.account_id,
        "sub_account_id": template.sub_account_id,
        "type": cast(ImageTemplateType, template.type),
        "name": template.name,
        "image": base_url(request) + container.storage.permanent_path(template.image_file_id),
        "design_tool_id": template.design_tool_id,
        "created_at": format_time(template.created_at),
        "updated_at": format_time(template.updated_at),
    }


def _fetch_image(container: Container, source: str | FormFile) -> FetchedPicture:
    if isinstance(source, FormFile):
        return read_uploaded_image(source.body, field="image")
    error = container.check_url(source)
    if error is not None:
        raise Invalid({"image": [error]})
    return fetch_images(container.fetcher, [FileToFetch(source, "image")])[0]


def _image_warnings(picture: FetchedPicture | None) -> list[str]:
    return [f"image: {note}" for note in picture.notes] if picture is not None else []


@router.post(
    "/image-templates",
    wire.ImageTemplate,
    status_code=201,
    errors=[*BODY_ERRORS],
    openapi_extra=_describe_upload_form(
        {"type": "postcard", "name": "Spring sale", "image": "(the bytes of spring.png)"},
        required=["type", "name", "image"],
    ),
    summary="Save an image",
)
def create_image_template(
    request: Request, body: NewImageTemplate, caller: CanWrite, container: Services, unit_of_work: RequestUnitOfWork
) -> Response:
    """The image comes by its URL, or as a file of a form; it is checked, and kept as it will print."""
    template, picture = save_new_image_template(body, caller, container, unit_of_work)
    return json_response(
        serialize_image_template(request, container, template), status=201, warnings=_image_warnings(picture)
    )


def save_new_image_template(
    body: NewImageTemplate, caller: Caller, container: Container, unit_of_work: UnitOfWork
) -> tuple[ImageTemplate, FetchedPicture]:
    """The template, and its picture as it came. Nothing is fetched while the unit's transaction is open."""
    now = container.clock()
    with container.db.transaction(build_tenant(caller)) as tx:
        sub_account_id = template_service.choose_sub_account(tx, caller, body.sub_account_id)
    picture = _fetch_image(container, body.image)
    image = store_image(container.db, container.storage, Tenant(caller.account_id, sub_account_id), picture, now=now)
    # The sub account may have gone meanwhile; from here on it stays.
    template_service.choose_sub_account(unit_of_work.tx, caller, body.sub_account_id)
    record_image(unit_of_work.tx, container.storage, image, now=now)
    template = template_service.IMAGE_TEMPLATES.insert(
        unit_of_work.tx,
        {
            "account_id": caller.account_id,
            "sub_account_id": sub_account_id,
            "type": body.type,
            "name": body.name,
            "image_file_id": image.id,
            "design_tool_id": body.design_tool_id,
        },
        now=now,
    )
    return template, picture


@router.get(
    "/image-templates",
    page_of(wire.ImageTemplate),
    errors=[400, 422],
    scope="templates:read",
    summary="List saved images, newest first",
)
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
    if sub_account_id is not None:
        require_sub_account(tx, sub_account_id)
    page = template_service.IMAGE_TEMPLATES.list(
        tx, page_request, sub_account_id=sub_account_id, types=types, search=search
    )
    return page_response(request, page, lambda template: serialize_image_template(request, container, template))


@router.get(
    "/image-templates/{template_id}",
    wire.ImageTemplate,
    errors=[404],
    scope="templates:read",
    summary="Read a saved image",
)
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
    errors=[404, *BODY_ERRORS],
    openapi_extra=_describe_upload_form({"image": "(the bytes of summer.png)"}, required=[]),
    summary="Change a saved image",
)
def update_image_template(
    request: Request,
    template_id: TemplateId,
    body: ImageTemplateChanges,
    caller: CanWrite,
    container: Services,
    unit_of_work: RequestUnitOfWork,
) -> Response:
    """What is not named stays. Orders that were made with the earlier image keep it."""
    template, picture = save_changed_image_template(template_id, body, caller, container, unit_of_work)
    return json_response(serialize_image_template(request, container, template), warnings=_image_warnings(picture))


def save_changed_image_template(
    template_id: int, body: ImageTemplateChanges, caller: Caller, container: Container, unit_of_work: UnitOfWork
) -> tuple[ImageTemplate, FetchedPicture | None]:
    now = container.clock()
    changes = body.provided_fields()
    with container.db.transaction(build_tenant(caller)) as tx:
        before = template_service.IMAGE_TEMPLATES.read(tx, template_id)
        sub_account_id = before.sub_account_id
        if "sub_account_id" in changes:
            sub_account_id = changes["sub_account_id"] = template_service.choose_sub_account(
                tx, caller, body.sub_account_id
            )
    source = changes.pop("image", None)
    picture = None if source is None else _fetch_image(container, source)
    image = None
    if picture is not None or sub_account_id != before.sub_account_id:
        image = store_image(
            container.db,
            container.storage,
            Tenant(caller.account_id, sub_account_id),
            picture or read_image(container.db, container.storage, build_tenant(caller), before.image_file_id),
            now=now,
        )
    # What was looked up may be otherwise by now; from here on it stays.
    if "sub_account_id" in changes:
        template_service.choose_sub_account(unit_of_work.tx, caller, body.sub_account_id)
    current = template_service.IMAGE_TEMPLATES.read(unit_of_work.tx, template_id, locked=True)
    if image is not None:
        _require_unchanged(before, current, copies_image=picture is None)
        record_image(unit_of_work.tx, container.storage, image, now=now)
        changes["image_file_id"] = image.id
    return template_service.IMAGE_TEMPLATES.update(unit_of_work.tx, template_id, changes, now=now), picture


def _require_unchanged(before: ImageTemplate, current: ImageTemplate, *, copies_image: bool) -> None:
    """The image was stored for the sub account that the template had, and may be a copy of its image."""
    has_moved = current.sub_account_id != before.sub_account_id
    if has_moved or (copies_image and current.image_file_id != before.image_file_id):
        raise Conflict("Another call changed this template meanwhile: try again.", retry_after=1)


@router.delete("/image-templates/{template_id}", MessageResponse, errors=[400, 404], summary="Delete a saved image")
def delete_image_template(template_id: TemplateId, caller: CanWrite, container: Services) -> Response:
    """Not while an order that is reviewing or paused uses it, be it a test order or a live one."""
    with container.db.transaction(Tenant(caller.account_id, caller.sub_account_id)) as tx:
        template_service.IMAGE_TEMPLATES.delete(tx, template_id)
    return json_response({"message": "success"})
