"""Saved images for fronts."""

from typing import Annotated, Any, get_args

from fastapi import APIRouter, Depends, Path, Request, Response
from pydantic import AliasChoices, ConfigDict, Field, PlainValidator

from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.app.container import Parts as ServiceParts
from quillpost.core.clock import plain_time
from quillpost.core.database import Tenant
from quillpost.core.errors import Conflict, Invalid
from quillpost.orders.templates import service as template_service
from quillpost.orders.templates.images import (
    FetchedPicture,
    Wanted,
    fetch_images,
    keep_image,
    read_image,
    record_image,
    uploaded_image,
)
from quillpost.orders.templates.rules import LONGEST_URL
from quillpost.orders.templates.service import ImageTemplate
from quillpost.web.api.bodies import MULTIPART, Body, Id, Upload
from quillpost.web.api.dependencies import (
    AskedPage,
    AskedSearch,
    InTx,
    OneUnit,
    Services,
    SubAccountFilter,
    Unit,
    id_in_path,
    may,
)
from quillpost.web.api.errors import BODY_ERRORS, errors
from quillpost.web.api.image_templates import schemas as schemas
from quillpost.web.api.image_templates.schemas import NOT_NULL, ImageType, MaybeText, Name
from quillpost.web.api.orders.filters import WantedTypes
from quillpost.web.api.orders.responses import base_of
from quillpost.web.api.orders.schemas import Message
from quillpost.web.api.responses import answer, linked, warning_header
from quillpost.web.api.routes import PREFIX, UploadRoute

router = APIRouter(prefix=PREFIX, route_class=UploadRoute, tags=["Image templates"])

MAY_READ = [Depends(may("templates:read"))]
MayWrite = Annotated[Caller, Depends(may("templates:write"))]
TemplateId = Annotated[str, Path(description="The template's id.", json_schema_extra={"type": "integer"})]


def _picture(value: object) -> str | Upload:
    if isinstance(value, Upload):
        return value
    if isinstance(value, str) and value.strip():
        return str(value).strip()
    raise ValueError(f"Give the URL of a PNG or JPEG, or upload one as {MULTIPART}.")


AsText = Annotated[str, Field(max_length=LONGEST_URL)]
Picture = Annotated[str | Upload, PlainValidator(_picture, json_schema_input_type=AsText)]
MaybePicture = Annotated[str | Upload | None, PlainValidator(_picture, json_schema_input_type=AsText)]
IMAGE = "The URL of a PNG or JPEG; or, in a form with files, the file itself."
DESIGN_TOOL = "Its identifier in a design tool of yours."
SUB_ACCOUNT = "The sub account that it belongs to."


class NewImageTemplate(Body):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"type": "postcard", "name": "Spring sale", "image": "https://example.com/spring.png"}
            ]
        }
    )

    type: ImageType = Field(description="The piece that it is the front of.")
    name: Name = Field(description="Yours; it is not printed.")
    image: Picture = Field(validation_alias=AliasChoices("image", "image_url"), description=IMAGE)
    design_tool_id: MaybeText = Field(None, description=DESIGN_TOOL)
    sub_account_id: Id | None = Field(
        None, validation_alias=AliasChoices("sub_account_id", "sub_account"), description=SUB_ACCOUNT
    )


class ImageTemplateChanges(Body):
    """What is not named stays."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "Summer sale"}]})

    type: Annotated[ImageType, NOT_NULL] = Field(
        default_factory=lambda: "postcard",  # stands for "stays"
        description="The piece that it is the front of.",
    )
    name: Annotated[Name, NOT_NULL] = Field(default_factory=str, description="Yours; not printed.")
    image: MaybePicture = Field(None, validation_alias=AliasChoices("image", "image_url"), description=IMAGE)
    design_tool_id: MaybeText = Field(None, description=DESIGN_TOOL)
    sub_account_id: Id | None = Field(
        None, validation_alias=AliasChoices("sub_account_id", "sub_account"), description=SUB_ACCOUNT
    )


def _with_files(example: dict[str, Any], *, required: list[str]) -> dict[str, Any]:
    """How the description shows the form that brings the file."""
    form = {
        "type": "object",
        "required": required,
        "properties": {
            "type": {"type": "string", "enum": list(get_args(ImageType))},
            "name": {"type": "string", "maxLength": 255},
            "image": {"type": "string", "format": "binary", "description": "A PNG or JPEG."},
            "design_tool_id": {"type": "string", "maxLength": 255, "description": DESIGN_TOOL},
            "sub_account_id": {"type": "integer", "minimum": 1, "description": SUB_ACCOUNT},
        },
    }
    return {"requestBody": {"content": {MULTIPART: {"schema": form, "example": example}}}}


def shape(request: Request, parts: Services, template: ImageTemplate) -> dict[str, Any]:
    return {
        "id": template.id,
        "user_id": template.account_id,
        "sub_account_id": template.sub_account_id,
        "type": template.type,
        "name": template.name,
        "image": base_of(request) + parts.shelf.lasting_path(template.image_file_id),
        "design_tool_id": template.design_tool_id,
        "created_at": plain_time(template.created_at),
        "updated_at": plain_time(template.updated_at),
    }


def _fetched(parts: ServiceParts, given: str | Upload) -> FetchedPicture:
    if isinstance(given, Upload):
        return uploaded_image(given.body, field="image")
    wrong = parts.check_url(given)
    if wrong is not None:
        raise Invalid({"image": [wrong]})
    return fetch_images(parts.fetcher, [Wanted(given, "image")])[0]


def _warnings(picture: FetchedPicture | None) -> dict[str, str]:
    notes = picture.notes if picture is not None else ()
    return warning_header([f"image: {note}" for note in notes])


@router.post(
    "/image-templates",
    status_code=201,
    response_model=schemas.ImageTemplateShape,
    responses=errors(*BODY_ERRORS),
    openapi_extra=_with_files(
        {"type": "postcard", "name": "Spring sale", "image": "(the bytes of spring.png)"},
        required=["type", "name", "image"],
    ),
    summary="Save an image",
)
def create_image_template(
    request: Request, body: NewImageTemplate, who: MayWrite, parts: Services, unit: OneUnit
) -> Response:
    """The image comes by its URL, or as a file of a form; it is checked, and kept as it will print."""
    template, picture = save_new_image(body, who, parts, unit)
    return answer(shape(request, parts, template), status=201, headers=_warnings(picture))


def save_new_image(
    body: NewImageTemplate, who: Caller, parts: ServiceParts, unit: Unit
) -> tuple[ImageTemplate, FetchedPicture]:
    """The template, and its picture as it came. Nothing is fetched while the unit's transaction is open."""
    now = parts.clock()
    with parts.db.transaction(tenant(who)) as tx:
        home = template_service.home_of(tx, who, body.sub_account_id)
    picture = _fetched(parts, body.image)
    image = keep_image(parts.db, parts.shelf, Tenant(who.account_id, home), picture, now=now)
    # The sub account may have gone meanwhile; from here on it stays.
    template_service.home_of(unit.tx, who, body.sub_account_id)
    record_image(unit.tx, parts.shelf, image, now=now)
    template = template_service.insert_image_template(
        unit.tx,
        {
            "account_id": who.account_id,
            "sub_account_id": home,
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
    response_model=schemas.ImageTemplatePage,
    responses=errors(400, 422),
    dependencies=MAY_READ,
    summary="List saved images, newest first",
)
def list_image_templates(
    request: Request,
    tx: InTx,
    parts: Services,
    asked: AskedPage,
    sub_account_id: SubAccountFilter,
    types: WantedTypes,
    search: AskedSearch,
) -> Response:
    """Filter by type and sub account; `search` looks at names."""
    if sub_account_id is not None:
        require_sub_account(tx, sub_account_id)
    page = template_service.list_image_templates(
        tx, asked, sub_account_id=sub_account_id, types=types, search=search
    )
    return linked(request, page, lambda template: shape(request, parts, template))


@router.get(
    "/image-templates/{template_id}",
    response_model=schemas.ImageTemplateShape,
    responses=errors(404),
    dependencies=MAY_READ,
    summary="Read a saved image",
)
def read_image_template(request: Request, template_id: TemplateId, tx: InTx, parts: Services) -> Response:
    """`image` is a URL that needs no token, and stays the same until the image is changed."""
    return answer(shape(request, parts, template_service.read_image_template(tx, id_in_path(template_id))))


@router.put(
    "/image-templates/{template_id}",
    response_model=schemas.ImageTemplateShape,
    responses=errors(404, *BODY_ERRORS),
    openapi_extra=_with_files({"image": "(the bytes of summer.png)"}, required=[]),
    summary="Change a saved image",
)
def update_image_template(
    request: Request,
    template_id: TemplateId,
    body: ImageTemplateChanges,
    who: MayWrite,
    parts: Services,
    unit: OneUnit,
) -> Response:
    """What is not named stays. Orders that were made with the earlier image keep it."""
    template, picture = save_changed_image(id_in_path(template_id), body, who, parts, unit)
    return answer(shape(request, parts, template), headers=_warnings(picture))


def save_changed_image(
    number: int, body: ImageTemplateChanges, who: Caller, parts: ServiceParts, unit: Unit
) -> tuple[ImageTemplate, FetchedPicture | None]:
    """The template as it is then, and its new picture, if it has one."""
    now = parts.clock()
    changes = body.given()
    with parts.db.transaction(tenant(who)) as tx:
        before = template_service.read_image_template(tx, number)
        home = before.sub_account_id
        if "sub_account_id" in changes:
            home = changes["sub_account_id"] = template_service.home_of(tx, who, body.sub_account_id)
    given = changes.pop("image", None)
    picture = None if given is None else _fetched(parts, given)
    image = None
    if picture is not None or home != before.sub_account_id:
        image = keep_image(
            parts.db,
            parts.shelf,
            Tenant(who.account_id, home),
            picture or read_image(parts.db, parts.shelf, tenant(who), before.image_file_id),
            now=now,
        )
    # What was looked up may be otherwise by now; from here on it stays.
    if "sub_account_id" in changes:
        template_service.home_of(unit.tx, who, body.sub_account_id)
    current = template_service.read_image_template(unit.tx, number, locked=True)
    if image is not None:
        _require_unmoved(before, current, takes_image=picture is None)
        record_image(unit.tx, parts.shelf, image, now=now)
        changes["image_file_id"] = image.id
    return template_service.update_image_template(unit.tx, number, changes, now=now), picture


def _require_unmoved(before: ImageTemplate, current: ImageTemplate, *, takes_image: bool) -> None:
    """The image was kept for the home that the template had, and may be the one that it had."""
    is_elsewhere = current.sub_account_id != before.sub_account_id
    if is_elsewhere or (takes_image and current.image_file_id != before.image_file_id):
        raise Conflict("Another call changed this template meanwhile: try again.", retry_after=1)


@router.delete(
    "/image-templates/{template_id}",
    response_model=Message,
    responses=errors(400, 404),
    summary="Delete a saved image",
)
def delete_image_template(template_id: TemplateId, who: MayWrite, parts: Services) -> Response:
    """Not while an order that is reviewing or paused uses it, be it a test order or a live one."""
    with parts.db.transaction(Tenant(who.account_id, who.sub_account_id)) as tx:
        template_service.delete_image_template(tx, id_in_path(template_id))
    return answer({"message": "success"})
