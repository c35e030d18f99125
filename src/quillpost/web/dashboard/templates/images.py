"""Saving an image by its address, and changing one. A file is uploaded by a script, to the API."""

from typing import Any

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import build_tenant
from quillpost.accounts.sub_accounts import label_sub_accounts, list_sub_accounts
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.app.container import Container
from quillpost.core.errors import Invalid, Refused
from quillpost.orders.templates import service as template_service
from quillpost.orders.templates.rules import MAX_URL_LENGTH
from quillpost.orders.templates.service import ImageTemplate
from quillpost.web import csrf
from quillpost.web.api.dependencies import UnitOfWork, parse_path_id
from quillpost.web.api.image_templates.endpoints import (
    ImageTemplateChanges,
    NewImageTemplate,
    save_changed_image_template,
    save_new_image_template,
)
from quillpost.web.csrf import use_one_time_key
from quillpost.web.dashboard.forms import FormState, read_body, render_form_page
from quillpost.web.dashboard.templates.forms import IMAGE_TYPES
from quillpost.web.dashboard.templates.pages import IMAGES_PATH
from quillpost.web.dependencies import Services
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import redirect
from quillpost.web.sessions import CurrentUser

router = APIRouter(include_in_schema=False)

NEW_IMAGE_PATH = "/templates/images/new"
FORM_FIELDS = ("type", "name", "image", "sub_account_id")
ALREADY_SAVED = "The image is there already."
IMAGE_MISSING = "Choose a file, or give the address of a picture."


@router.get(NEW_IMAGE_PATH)
def new_image_page(request: Request, user: CurrentUser, container: Services) -> Response:
    return _render_form(request, user, container, FormState({"type": ["postcard"]}))


@router.post(NEW_IMAGE_PATH)
def create_image(request: Request, user: CurrentUser, form: PostedForm, container: Services) -> Response:
    try:
        values = _read_fields(form)
        if "image" not in values:
            raise Invalid({"image": [IMAGE_MISSING]})
        body = read_body(NewImageTemplate, values)
        with UnitOfWork(lambda: container.db.transaction(build_tenant(user.caller))) as unit_of_work:
            save_new_image_template(body, user.caller, container, unit_of_work)
            # After the picture was fetched: nobody waits for another's server with a transaction open.
            use_one_time_key(
                unit_of_work.tx, user, form.text(csrf.ONE_TIME_FIELD), hint=ALREADY_SAVED, result_path=IMAGES_PATH
            )
    except (Invalid, Refused) as error:
        return _render_form(request, user, container, FormState.from_error(form, error, default_field="sub_account_id"))
    return redirect(IMAGES_PATH, flash="image_saved")


@router.get("/templates/images/{template_id}")
def edit_image_page(request: Request, template_id: str, user: CurrentUser, container: Services) -> Response:
    template = _read_template(template_id, user, container)
    sub_account_value = [] if template.sub_account_id is None else [str(template.sub_account_id)]
    fields = {"type": [template.type], "name": [template.name], "sub_account_id": sub_account_value}
    return _render_form(request, user, container, FormState(fields), template)


@router.post("/templates/images/{template_id}")
def change_image(
    request: Request, template_id: str, user: CurrentUser, form: PostedForm, container: Services
) -> Response:
    template = _read_template(template_id, user, container)
    try:
        body = read_body(ImageTemplateChanges, _read_fields(form))
        with UnitOfWork(lambda: container.db.transaction(build_tenant(user.caller))) as unit_of_work:
            save_changed_image_template(template.id, body, user.caller, container, unit_of_work)
    except (Invalid, Refused) as error:
        form_state = FormState.from_error(form, error, default_field="sub_account_id")
        return _render_form(request, user, container, form_state, template)
    return redirect(IMAGES_PATH, flash="image_saved")


def _read_fields(form: Form) -> dict[str, Any]:
    """As the API takes them. An image that is not named stays, and so does a sub account where the form has
    no place for one."""
    values: dict[str, Any] = {"type": form.text("type"), "name": form.text("name")}
    if image := form.text("image", max_length=MAX_URL_LENGTH):
        values["image"] = image
    if "sub_account_id" in form.fields:
        values["sub_account_id"] = form.number("sub_account_id")
    return values


def _read_template(template_id: str, user: SignedInUser, container: Container) -> ImageTemplate:
    with container.db.transaction(build_tenant(user.caller)) as tx:
        return template_service.read_image_template(tx, parse_path_id(template_id))


def _render_form(
    request: Request, user: SignedInUser, container: Container, form: FormState, template: ImageTemplate | None = None
) -> Response:
    with container.db.transaction(build_tenant(user.caller)) as tx:
        titles = {} if user.here.sub_account_id else label_sub_accounts(list_sub_accounts(tx))
    return render_form_page(
        request,
        "templates/image.html",
        user,
        form,
        general_errors=form.list_errors_outside(FORM_FIELDS),
        image_template=template,
        types=IMAGE_TYPES,
        titles=titles,
    )
