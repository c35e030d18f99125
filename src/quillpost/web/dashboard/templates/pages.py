"""Message and image templates, and the gift card brands."""

from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import build_tenant
from quillpost.accounts.sub_accounts.queries import label_sub_accounts, list_sub_accounts
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.app.container import Container
from quillpost.core.database import Tx
from quillpost.core.errors import Invalid, Refused
from quillpost.orders.giftcards import queries as giftcard_queries
from quillpost.orders.giftcards.rules import BRAND_GROUPS
from quillpost.orders.models import REALISM_FIELD
from quillpost.orders.templates import service as template_service
from quillpost.orders.templates.rules import MAX_URL_LENGTH
from quillpost.orders.templates.service import ImageTemplate, MessageTemplate
from quillpost.rendering.previews import sample_version
from quillpost.rendering.text.variables import VARIABLE_NAMES
from quillpost.web import security
from quillpost.web.api.templates.images import (
    ImageTemplateChanges,
    NewImageTemplate,
    save_changed_image_template,
    save_new_image_template,
)
from quillpost.web.api.templates.messages import save_changed_message_template, save_new_message_template
from quillpost.web.api.templates.schemas import MessageTemplateChanges, NewMessageTemplate
from quillpost.web.dashboard.forms import FormState, parse_page, read_body
from quillpost.web.dashboard.labels import CUSTOM_INK, FONT_SIZES, INK_NAMES, TYPE_NAMES
from quillpost.web.dashboard.responses import render_confirmation, render_form_page
from quillpost.web.dashboard.templates.forms import (
    IMAGE_TYPES,
    MESSAGE_TYPES,
    URL_FIELDS,
    gift_value,
    read_template_fields,
    template_form_fields,
    to_form_errors,
)
from quillpost.web.dependencies import Services, UnitOfWork, parse_path_id
from quillpost.web.forms import Form, PostedForm, PostedLargeForm
from quillpost.web.rendering import redirect, render_page
from quillpost.web.security import use_one_time_key
from quillpost.web.sessions import CurrentUser

router = APIRouter(include_in_schema=False)

MESSAGES_PATH, IMAGES_PATH = "/templates", "/templates/images"
PAGE_SIZE = 24
MAX_SEARCH_LENGTH = 200


@router.get(MESSAGES_PATH)
def messages_page(
    request: Request, user: CurrentUser, container: Services, q: str = "", kind: str = "", page: str = ""
) -> Response:
    return _render_list(request, user, container, is_images=False, query_values=(q, kind, page))


@router.get(IMAGES_PATH)
def images_page(
    request: Request, user: CurrentUser, container: Services, q: str = "", kind: str = "", page: str = ""
) -> Response:
    return _render_list(request, user, container, is_images=True, query_values=(q, kind, page))


def _render_list(
    request: Request, user: CurrentUser, container: Services, *, is_images: bool, query_values: tuple[str, str, str]
) -> Response:
    types = IMAGE_TYPES if is_images else MESSAGE_TYPES
    name_filter, kind = (query_values[0].replace("\x00", "").strip()[:MAX_SEARCH_LENGTH], query_values[1].strip())
    kind = kind if kind in dict(types) else ""
    page_request = parse_page(query_values[2], per_page=PAGE_SIZE)
    filters = {"sub_account_id": None, "types": [kind] if kind else None, "name_contains": name_filter}
    with container.db.transaction(build_tenant(user.caller)) as tx:
        templates = (
            template_service.IMAGE_TEMPLATES.list(tx, page_request, **filters)  # type: ignore[arg-type]
            if is_images
            else template_service.MESSAGE_TEMPLATES.list(tx, page_request, **filters)  # type: ignore[arg-type]
        )
        has_sub_accounts = any(template.sub_account_id for template in templates.rows)
        titles = label_sub_accounts(list_sub_accounts(tx)) if has_sub_accounts else {}
    path = IMAGES_PATH if is_images else MESSAGES_PATH
    query = urlencode({name: value for name, value in (("q", name_filter), ("kind", kind)) if value})
    return render_page(
        request,
        "templates/images.html" if is_images else "templates/messages.html",
        user=user,
        now=container.clock(),
        page=templates,
        types=types,
        type_names=TYPE_NAMES,
        titles=titles,
        values={"q": name_filter, "kind": kind},
        is_filtered=bool(query),
        list_url=f"{path}?{query}" if query else path,
    )


ORDERS_UNAFFECTED = "Orders that were sent with it keep what they have."


class TemplateKind(NamedTuple):
    read: Callable[[Tx, int], ImageTemplate | MessageTemplate]
    require_unused: Callable[[Tx, int], None]
    delete: Callable[[Tx, int], None]
    list_path: str
    flash: str


MESSAGE_KIND = TemplateKind(
    template_service.MESSAGE_TEMPLATES.read,
    template_service.MESSAGE_TEMPLATES.require_unused,
    template_service.MESSAGE_TEMPLATES.delete,
    MESSAGES_PATH,
    "message_deleted",
)
IMAGE_KIND = TemplateKind(
    template_service.IMAGE_TEMPLATES.read,
    template_service.IMAGE_TEMPLATES.require_unused,
    template_service.IMAGE_TEMPLATES.delete,
    IMAGES_PATH,
    "image_deleted",
)


@router.get("/templates/messages/{template_id}/delete")
def delete_message_page(request: Request, template_id: str, user: CurrentUser, container: Services) -> Response:
    return _render_delete_page(request, MESSAGE_KIND, template_id, user, container)


@router.post("/templates/messages/{template_id}/delete")
def delete_message(
    request: Request, template_id: str, user: CurrentUser, _form: PostedForm, container: Services
) -> Response:
    return _delete_template(request, MESSAGE_KIND, template_id, user, container)


@router.get("/templates/images/{template_id}/delete")
def delete_image_page(request: Request, template_id: str, user: CurrentUser, container: Services) -> Response:
    return _render_delete_page(request, IMAGE_KIND, template_id, user, container)


@router.post("/templates/images/{template_id}/delete")
def delete_image(
    request: Request, template_id: str, user: CurrentUser, _form: PostedForm, container: Services
) -> Response:
    return _delete_template(request, IMAGE_KIND, template_id, user, container)


def _render_delete_page(
    request: Request,
    kind: TemplateKind,
    template_id: str,
    user: CurrentUser,
    container: Services,
    error_message: str | None = None,
) -> Response:
    """In both modes: what a live order needs cannot be deleted in test mode."""
    with container.db.transaction(user.tenant) as tx:
        template = kind.read(tx, parse_path_id(template_id))
        consequences = ["It is gone for everybody in this account, in test mode and live.", ORDERS_UNAFFECTED]
        try:
            kind.require_unused(tx, template.id)
        except Refused as error:
            consequences.append(f"It cannot be deleted yet. {error.message}")
    return render_confirmation(
        request,
        user,
        title=f"Delete “{template.name}”?",
        consequences=consequences,
        button_label="Delete it",
        back_url=kind.list_path,
        error_message=error_message,
    )


def _delete_template(
    request: Request, kind: TemplateKind, template_id: str, user: CurrentUser, container: Services
) -> Response:
    try:
        with container.db.transaction(user.tenant) as tx:
            kind.delete(tx, parse_path_id(template_id))
    except Refused as error:
        return _render_delete_page(request, kind, template_id, user, container, error.message)
    return redirect(kind.list_path, flash=kind.flash)


NEW_MESSAGE_PATH = "/templates/messages/new"
FORM_FIELDS = (
    "type", "name", "content", "handwriting_style_id", "font_size", "font_color", REALISM_FIELD,
    "cc_emails", "gift", "sub_account_id", *URL_FIELDS,
)  # fmt: skip
ALREADY_SAVED = "The message is there already."


@router.get(NEW_MESSAGE_PATH)
def new_message_page(
    request: Request,
    user: CurrentUser,
    container: Services,
    type: str = "",  # noqa: A002 - its name in the URL
    gift: str = "",
) -> Response:
    """From a gift card brand, with that brand chosen."""
    kind = "giftcard" if gift else type if type in dict(MESSAGE_TYPES) else "postcard"
    return render_message_form(request, user, container, FormState({"type": [kind], "gift": [gift[:100]]}))


@router.post(NEW_MESSAGE_PATH)
def create_message(request: Request, user: CurrentUser, form: PostedLargeForm, container: Services) -> Response:
    try:
        body = read_body(NewMessageTemplate, read_template_fields(form))
        with container.db.transaction(build_tenant(user.caller)) as tx:
            use_one_time_key(
                tx, user, form.text(security.ONE_TIME_FIELD), hint=ALREADY_SAVED, result_path=MESSAGES_PATH
            )
            save_new_message_template(tx, user.caller, body, container)
    except (Invalid, Refused) as error:
        return render_message_form(request, user, container, rejected_form(form, error))
    return redirect(MESSAGES_PATH, flash="message_saved")


@router.get("/templates/messages/{template_id}")
def edit_message_page(request: Request, template_id: str, user: CurrentUser, container: Services) -> Response:
    with container.db.transaction(build_tenant(user.caller)) as tx:
        template = template_service.MESSAGE_TEMPLATES.read(tx, parse_path_id(template_id))
    return render_message_form(request, user, container, FormState(template_form_fields(template)), template.id)


@router.post("/templates/messages/{template_id}")
def change_message(
    request: Request, template_id: str, user: CurrentUser, form: PostedLargeForm, container: Services
) -> Response:
    number = parse_path_id(template_id)
    with container.db.transaction(build_tenant(user.caller)) as tx:
        template_service.MESSAGE_TEMPLATES.read(tx, number)  # what is not theirs is not there, whatever was typed
    try:
        body = read_body(MessageTemplateChanges, read_template_fields(form))
        with container.db.transaction(build_tenant(user.caller)) as tx:
            save_changed_message_template(tx, user.caller, number, body, container)
    except (Invalid, Refused) as error:
        return render_message_form(request, user, container, rejected_form(form, error), number)
    return redirect(MESSAGES_PATH, flash="message_saved")


def rejected_form(form: Form, error: Invalid | Refused) -> FormState:
    form_error = to_form_errors(error) if isinstance(error, Invalid) else error
    return FormState.from_error(form, form_error, default_field="sub_account_id")


def render_message_form(
    request: Request,
    user: SignedInUser,
    container: Container,
    form: FormState,
    template_id: int | None = None,
    **preview: Any,
) -> Response:
    with container.db.transaction(build_tenant(user.caller)) as tx:
        brands = giftcard_queries.list_offered_brands(tx)
        titles = {} if user.here.sub_account_id else label_sub_accounts(list_sub_accounts(tx))
    styles = container.renderer.hands.styles.values()
    return render_form_page(
        request,
        "templates/message.html",
        user,
        form,
        has_inline_images=True,
        general_errors=form.list_errors_outside(FORM_FIELDS),
        template_id=template_id,
        types=MESSAGE_TYPES,
        sizes=FONT_SIZES,
        inks=INK_NAMES,
        custom_ink=CUSTOM_INK,
        styles=[(style.number, style.name, style.kind, sample_version(style)) for style in styles],
        brands=[(brand.title, [(gift_value(brand.code, n), n) for n in brand.amounts]) for brand in brands],
        titles=titles,
        variables=VARIABLE_NAMES,
        max_characters=container.limits.message_characters,
        **{"picture": None, "error_messages": None} | preview,
    )


@router.get("/templates/giftcards")
def brands_page(request: Request, user: CurrentUser, container: Services) -> Response:
    with container.db.transaction(build_tenant(user.caller)) as tx:
        offered_brands = giftcard_queries.list_offered_brands(tx)
    groups = [
        (title, [brand for brand in offered_brands if brand.section == group]) for group, title in BRAND_GROUPS.items()
    ]
    return render_page(request, "templates/giftcards.html", user=user, groups=[group for group in groups if group[1]])


NEW_IMAGE_PATH = "/templates/images/new"
IMAGE_FIELDS = ("type", "name", "image", "sub_account_id")
IMAGE_ALREADY_SAVED = "The image is there already."
IMAGE_MISSING = "Choose a file, or give the address of a picture."


@router.get(NEW_IMAGE_PATH)
def new_image_page(request: Request, user: CurrentUser, container: Services) -> Response:
    return _render_image_form(request, user, container, FormState({"type": ["postcard"]}))


@router.post(NEW_IMAGE_PATH)
def create_image(request: Request, user: CurrentUser, form: PostedForm, container: Services) -> Response:
    try:
        values = _read_image_fields(form)
        if "image" not in values:
            raise Invalid({"image": [IMAGE_MISSING]})
        body = read_body(NewImageTemplate, values)
        with UnitOfWork(lambda: container.db.transaction(build_tenant(user.caller))) as unit_of_work:
            save_new_image_template(body, user.caller, container, unit_of_work)
            # After the picture was fetched: nobody waits for another's server with a transaction open.
            use_one_time_key(
                unit_of_work.tx,
                user,
                form.text(security.ONE_TIME_FIELD),
                hint=IMAGE_ALREADY_SAVED,
                result_path=IMAGES_PATH,
            )
    except (Invalid, Refused) as error:
        return _render_image_form(
            request, user, container, FormState.from_error(form, error, default_field="sub_account_id")
        )
    return redirect(IMAGES_PATH, flash="image_saved")


@router.get("/templates/images/{template_id}")
def edit_image_page(request: Request, template_id: str, user: CurrentUser, container: Services) -> Response:
    template = _read_image(template_id, user, container)
    sub_account_value = [] if template.sub_account_id is None else [str(template.sub_account_id)]
    fields = {"type": [template.type], "name": [template.name], "sub_account_id": sub_account_value}
    return _render_image_form(request, user, container, FormState(fields), template)


@router.post("/templates/images/{template_id}")
def change_image(
    request: Request, template_id: str, user: CurrentUser, form: PostedForm, container: Services
) -> Response:
    template = _read_image(template_id, user, container)
    try:
        body = read_body(ImageTemplateChanges, _read_image_fields(form))
        with UnitOfWork(lambda: container.db.transaction(build_tenant(user.caller))) as unit_of_work:
            save_changed_image_template(template.id, body, user.caller, container, unit_of_work)
    except (Invalid, Refused) as error:
        form_state = FormState.from_error(form, error, default_field="sub_account_id")
        return _render_image_form(request, user, container, form_state, template)
    return redirect(IMAGES_PATH, flash="image_saved")


def _read_image_fields(form: Form) -> dict[str, Any]:
    """As the API takes them: without an image, or a field for the sub account, these stay."""
    values: dict[str, Any] = {"type": form.text("type"), "name": form.text("name")}
    if image := form.text("image", max_length=MAX_URL_LENGTH):
        values["image"] = image
    if "sub_account_id" in form.fields:
        values["sub_account_id"] = form.number("sub_account_id")
    return values


def _read_image(template_id: str, user: SignedInUser, container: Container) -> ImageTemplate:
    with container.db.transaction(build_tenant(user.caller)) as tx:
        return template_service.IMAGE_TEMPLATES.read(tx, parse_path_id(template_id))


def _render_image_form(
    request: Request, user: SignedInUser, container: Container, form: FormState, template: ImageTemplate | None = None
) -> Response:
    with container.db.transaction(build_tenant(user.caller)) as tx:
        titles = {} if user.here.sub_account_id else label_sub_accounts(list_sub_accounts(tx))
    return render_form_page(
        request,
        "templates/image.html",
        user,
        form,
        general_errors=form.list_errors_outside(IMAGE_FIELDS),
        image_template=template,
        types=IMAGE_TYPES,
        titles=titles,
    )
