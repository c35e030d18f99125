"""Saving an image by its address, and changing one. A file is uploaded by a script, to the API."""

from typing import Any

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import list_sub_accounts, titles_of
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.errors import Invalid, Refused
from quillpost.orders.templates import service as template_service
from quillpost.orders.templates.rules import LONGEST_URL
from quillpost.orders.templates.service import ImageTemplate
from quillpost.web import csrf
from quillpost.web.api.dependencies import Unit, id_in_path
from quillpost.web.api.image_templates.endpoints import (
    ImageTemplateChanges,
    NewImageTemplate,
    save_changed_image,
    save_new_image,
)
from quillpost.web.csrf import do_once
from quillpost.web.dashboard.forms import Filled, read_body, show_form
from quillpost.web.dashboard.templates.forms import IMAGE_TYPES
from quillpost.web.dashboard.templates.pages import IMAGES
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import go
from quillpost.web.sessions import OurParts, Reader

router = APIRouter(include_in_schema=False)

NEW = "/templates/images/new"
FIELDS = ("type", "name", "image", "sub_account_id")
DONE = "The image is there already."
NO_IMAGE = "Choose a file, or give the address of a picture."


@router.get(NEW)
def new_page(request: Request, who: Reader, parts: OurParts) -> Response:
    return _form_page(request, who, parts, Filled({"type": ["postcard"]}))


@router.post(NEW)
def create(request: Request, who: Reader, form: PostedForm, parts: OurParts) -> Response:
    try:
        values = _values(form)
        if "image" not in values:
            raise Invalid({"image": [NO_IMAGE]})
        body = read_body(NewImageTemplate, values)
        with Unit(lambda: parts.db.transaction(tenant(who.caller))) as unit:
            save_new_image(body, who.caller, parts, unit)
            # After the picture was fetched: nobody waits for another's server with a transaction open.
            do_once(unit.tx, who, form.text(csrf.FIELD), instead=DONE, leads_to=IMAGES)
    except (Invalid, Refused) as refused:
        return _form_page(request, who, parts, Filled.back(form, refused, at="sub_account_id"))
    return go(IMAGES, said="image_saved")


@router.get("/templates/images/{template_id}")
def edit_page(request: Request, template_id: str, who: Reader, parts: OurParts) -> Response:
    template = _read(template_id, who, parts)
    home = [] if template.sub_account_id is None else [str(template.sub_account_id)]
    typed = {"type": [template.type], "name": [template.name], "sub_account_id": home}
    return _form_page(request, who, parts, Filled(typed), template)


@router.post("/templates/images/{template_id}")
def change(request: Request, template_id: str, who: Reader, form: PostedForm, parts: OurParts) -> Response:
    template = _read(template_id, who, parts)
    try:
        body = read_body(ImageTemplateChanges, _values(form))
        with Unit(lambda: parts.db.transaction(tenant(who.caller))) as unit:
            save_changed_image(template.id, body, who.caller, parts, unit)
    except (Invalid, Refused) as refused:
        back = Filled.back(form, refused, at="sub_account_id")
        return _form_page(request, who, parts, back, template)
    return go(IMAGES, said="image_saved")


def _values(form: Form) -> dict[str, Any]:
    """As the API takes them. An image that is not named stays, and so does a sub account where the form has
    no place for one."""
    values: dict[str, Any] = {"type": form.text("type"), "name": form.text("name")}
    if image := form.text("image", most=LONGEST_URL):
        values["image"] = image
    if "sub_account_id" in form.fields:
        values["sub_account_id"] = form.number("sub_account_id")
    return values


def _read(template_id: str, who: SignedIn, parts: Parts) -> ImageTemplate:
    with parts.db.transaction(tenant(who.caller)) as tx:
        return template_service.read_image_template(tx, id_in_path(template_id))


def _form_page(
    request: Request, who: SignedIn, parts: Parts, form: Filled, template: ImageTemplate | None = None
) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        titles = {} if who.here.sub_account_id else titles_of(list_sub_accounts(tx))
    return show_form(
        request,
        "templates/image.html",
        who,
        form,
        unseen=form.unseen(FIELDS),
        saved=template,
        types=IMAGE_TYPES,
        titles=titles,
    )
