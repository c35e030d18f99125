"""Message and image templates, and the gift card brands."""

from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Response

from quillpost.accounts.sub_accounts.queries import label_sub_accounts, list_sub_accounts
from quillpost.core.errors import Invalid, Refused
from quillpost.orders.giftcards import queries as giftcard_queries
from quillpost.orders.giftcards.rules import BRAND_GROUPS
from quillpost.orders.models import MANNER_FIELD
from quillpost.orders.templates import service as template_service
from quillpost.orders.templates.models import ImageTemplate, MessageTemplateValues
from quillpost.orders.templates.rules import MAX_URL_LENGTH
from quillpost.orders.templates.service import TemplateTable
from quillpost.rendering.text.variables import VARIABLE_NAMES
from quillpost.web.api.templates.schemas import (
    ImageTemplateChanges,
    MessageTemplateChanges,
    NewImageTemplate,
    NewMessageTemplate,
    to_image_source,
)
from quillpost.web.dashboard.forms import FormState, parse_page, read_body
from quillpost.web.dashboard.labels import CUSTOM_INK, FONT_SIZES, INK_NAMES, MANNER_CHOICES, TYPE_NAMES
from quillpost.web.dashboard.responses import PathId, RequestContext, UserContext
from quillpost.web.dashboard.styles import list_signature_choices, list_style_groups
from quillpost.web.dashboard.templates.forms import (
    IMAGE_TYPES,
    MESSAGE_TYPES,
    URL_FIELDS,
    gift_value,
    read_template_fields,
    template_form_fields,
    to_form_errors,
)
from quillpost.web.dependencies import UnitOfWork
from quillpost.web.forms import Form, PostedForm, PostedLargeForm
from quillpost.web.rendering import redirect
from quillpost.web.security import use_one_time_key

router = APIRouter(include_in_schema=False)

MESSAGES_PATH, IMAGES_PATH = "/templates", "/templates/images"
PAGE_SIZE = 24
MAX_SEARCH_LENGTH = 200


@router.get(MESSAGES_PATH)
def messages_page(context: UserContext, q: str = "", kind: str = "", page: str = "") -> Response:
    return _render_list(context, template_service.MESSAGE_TEMPLATES, q, kind, page)


@router.get(IMAGES_PATH)
def images_page(context: UserContext, q: str = "", kind: str = "", page: str = "") -> Response:
    return _render_list(context, template_service.IMAGE_TEMPLATES, q, kind, page)


def _render_list(context: RequestContext, table: TemplateTable[Any], q: str, kind: str, page: str) -> Response:
    is_images = table is template_service.IMAGE_TEMPLATES
    types, path = (IMAGE_TYPES, IMAGES_PATH) if is_images else (MESSAGE_TYPES, MESSAGES_PATH)
    name_filter, kind = q.replace("\x00", "").strip()[:MAX_SEARCH_LENGTH], kind.strip()
    kind = kind if kind in dict(types) else ""
    with context.transaction() as tx:
        templates = table.list(
            tx,
            parse_page(page, per_page=PAGE_SIZE),
            sub_account_id=None,
            types=[kind] if kind else None,
            name_contains=name_filter,
        )
        has_sub_accounts = any(template.sub_account_id for template in templates.rows)
        titles = label_sub_accounts(list_sub_accounts(tx)) if has_sub_accounts else {}
    query = urlencode({name: value for name, value in (("q", name_filter), ("kind", kind)) if value})
    return context.render(
        "templates/images.html" if is_images else "templates/messages.html",
        FormState({"q": [name_filter], "kind": [kind]}),
        page=templates,
        types=types,
        type_names=TYPE_NAMES,
        titles=titles,
        is_filtered=bool(query),
        list_url=f"{path}?{query}" if query else path,
    )


ORDERS_UNAFFECTED = "Orders that were sent with it keep what they have."


def _add_delete_pages(kind: str, table: TemplateTable[Any], list_path: str) -> None:
    path = f"/templates/{kind}s/{{template_id}}/delete"

    @router.get(path)
    def delete_page(context: UserContext, template_id: PathId) -> Response:
        return _render_delete_page(context, table, template_id, list_path)

    @router.post(path)
    def delete_template(context: UserContext, template_id: PathId, _form: PostedForm) -> Response:
        try:
            with context.account_transaction() as tx:
                table.delete(tx, template_id)
        except Refused as error:
            return _render_delete_page(context, table, template_id, list_path, error.message)
        return redirect(list_path, flash=f"{kind}_deleted")


_add_delete_pages("message", template_service.MESSAGE_TEMPLATES, MESSAGES_PATH)
_add_delete_pages("image", template_service.IMAGE_TEMPLATES, IMAGES_PATH)


def _render_delete_page(
    context: RequestContext,
    table: TemplateTable[Any],
    template_id: int,
    list_path: str,
    error_message: str | None = None,
) -> Response:
    """In both modes: what a live order needs cannot be deleted in test mode."""
    with context.account_transaction() as tx:
        template = table.read(tx, template_id)
        consequences = ["It is gone for everybody in this account, in test mode and live.", ORDERS_UNAFFECTED]
        try:
            table.require_unused(tx, template.id)
        except Refused as error:
            consequences.append(f"It cannot be deleted yet. {error.message}")
    return context.confirm(
        title=f"Delete “{template.name}”?",
        consequences=consequences,
        button_label="Delete it",
        back_url=list_path,
        error_message=error_message,
    )


NEW_MESSAGE_PATH = "/templates/messages/new"
FORM_FIELDS = (
    "type", "name", "content", "handwriting_style_id", "font_size", "font_color", MANNER_FIELD, "signature_id",
    "cc_emails", "gift", "sub_account_id", *URL_FIELDS,
)  # fmt: skip
ALREADY_SAVED = "The message is there already."


@router.get(NEW_MESSAGE_PATH)
def new_message_page(
    context: UserContext,
    type: str = "",  # noqa: A002 - its name in the URL
    gift: str = "",
) -> Response:
    """From a gift card brand, with that brand chosen."""
    kind = "giftcard" if gift else type if type in dict(MESSAGE_TYPES) else "postcard"
    return render_message_form(context, FormState({"type": [kind], "gift": [gift[:100]]}))


@router.post(NEW_MESSAGE_PATH)
def create_message(context: UserContext, form: PostedLargeForm) -> Response:
    try:
        body = read_body(NewMessageTemplate, read_template_fields(form))
        with context.transaction() as tx:
            use_one_time_key(tx, context.user, form.one_time_key, hint=ALREADY_SAVED, result_path=MESSAGES_PATH)
            before = MessageTemplateValues(type=body.type, name=body.name)
            requested, field_errors = body.to_values(before, allows_legacy_fields=False)
            template_service.create_message_template(
                context.container.orders,
                tx,
                context.user.caller,
                requested,
                field_errors,
                sub_account_id=body.sub_account_id,
                max_characters=context.container.limits.message_characters,
            )
    except (Invalid, Refused) as error:
        return render_message_form(context, rejected_form(form, error))
    return redirect(MESSAGES_PATH, flash="message_saved")


@router.get("/templates/messages/{template_id}")
def edit_message_page(context: UserContext, template_id: PathId) -> Response:
    with context.transaction() as tx:
        template = template_service.MESSAGE_TEMPLATES.read(tx, template_id)
    return render_message_form(context, FormState(template_form_fields(template)), template.id)


@router.post("/templates/messages/{template_id}")
def change_message(context: UserContext, template_id: PathId, form: PostedLargeForm) -> Response:
    with context.transaction() as tx:
        template_service.MESSAGE_TEMPLATES.read(tx, template_id)  # what is not theirs is not there, whatever was typed
    try:
        body = read_body(MessageTemplateChanges, read_template_fields(form))
        with context.transaction() as tx:
            before = template_service.MESSAGE_TEMPLATES.read(tx, template_id, locked=True)
            requested, field_errors = body.to_values(before, allows_legacy_fields=False)
            template_service.change_message_template(
                context.container.orders,
                tx,
                context.user.caller,
                before,
                requested,
                field_errors,
                sub_account_id=body.sub_account_id,
                moves="sub_account_id" in body.provided_fields(),
                max_characters=context.container.limits.message_characters,
            )
    except (Invalid, Refused) as error:
        return render_message_form(context, rejected_form(form, error), template_id)
    return redirect(MESSAGES_PATH, flash="message_saved")


def rejected_form(form: Form, error: Invalid | Refused) -> FormState:
    form_error = to_form_errors(error) if isinstance(error, Invalid) else error
    return FormState.from_error(form, form_error, default_field="sub_account_id")


def render_message_form(
    context: RequestContext, form: FormState, template_id: int | None = None, **preview: Any
) -> Response:
    with context.transaction() as tx:
        brands = giftcard_queries.list_offered_brands(tx)
        titles = context.sub_account_titles(tx)
        style_groups = list_style_groups(context.container, tx)
        signature_choices = list_signature_choices(tx)
    return context.render(
        "templates/message.html",
        form,
        has_inline_images=True,
        general_errors=form.list_errors_outside(FORM_FIELDS),
        template_id=template_id,
        types=MESSAGE_TYPES,
        sizes=FONT_SIZES,
        inks=INK_NAMES,
        custom_ink=CUSTOM_INK,
        style_groups=style_groups,
        signature_choices=signature_choices,
        manners=[(value, label) for value, label, _ in MANNER_CHOICES],
        brands=[(brand.title, [(gift_value(brand.code, n), n) for n in brand.amounts]) for brand in brands],
        titles=titles,
        variables=VARIABLE_NAMES,
        max_characters=context.container.limits.message_characters,
        **{"picture": None, "error_messages": None} | preview,
    )


@router.get("/templates/giftcards")
def brands_page(context: UserContext) -> Response:
    with context.transaction() as tx:
        offered_brands = giftcard_queries.list_offered_brands(tx)
    groups = [
        (title, [brand for brand in offered_brands if brand.section == group]) for group, title in BRAND_GROUPS.items()
    ]
    return context.render("templates/giftcards.html", groups=[group for group in groups if group[1]])


NEW_IMAGE_PATH = "/templates/images/new"
IMAGE_FIELDS = ("type", "name", "image", "sub_account_id")
IMAGE_ALREADY_SAVED = "The image is there already."
IMAGE_MISSING = "Choose a file, or give the address of a picture."


@router.get(NEW_IMAGE_PATH)
def new_image_page(context: UserContext) -> Response:
    return _render_image_form(context, FormState({"type": ["postcard"]}))


@router.post(NEW_IMAGE_PATH)
def create_image(context: UserContext, form: PostedForm) -> Response:
    try:
        values = _read_image_fields(form)
        if "image" not in values:
            raise Invalid({"image": [IMAGE_MISSING]})
        body = read_body(NewImageTemplate, values)
        with UnitOfWork(context.transaction) as unit_of_work:
            template_service.create_image_template(
                context.container.orders,
                lambda: unit_of_work.tx,
                context.user.caller,
                body.column_values(),
                to_image_source(body.image),
            )
            # After the picture was fetched: nobody waits for another's server with a transaction open.
            use_one_time_key(
                unit_of_work.tx, context.user, form.one_time_key, hint=IMAGE_ALREADY_SAVED, result_path=IMAGES_PATH
            )
    except (Invalid, Refused) as error:
        return _render_image_form(context, FormState.from_error(form, error, default_field="sub_account_id"))
    return redirect(IMAGES_PATH, flash="image_saved")


@router.get("/templates/images/{template_id}")
def edit_image_page(context: UserContext, template_id: PathId) -> Response:
    template = _read_image(context, template_id)
    sub_account_value = [] if template.sub_account_id is None else [str(template.sub_account_id)]
    fields = {"type": [template.type], "name": [template.name], "sub_account_id": sub_account_value}
    return _render_image_form(context, FormState(fields), template)


@router.post("/templates/images/{template_id}")
def change_image(context: UserContext, template_id: PathId, form: PostedForm) -> Response:
    template = _read_image(context, template_id)
    try:
        body = read_body(ImageTemplateChanges, _read_image_fields(form))
        with UnitOfWork(context.transaction) as unit_of_work:
            template_service.change_image_template(
                context.container.orders,
                lambda: unit_of_work.tx,
                context.user.caller,
                template.id,
                body.column_values(),
                None if body.image is None else to_image_source(body.image),
            )
    except (Invalid, Refused) as error:
        form_state = FormState.from_error(form, error, default_field="sub_account_id")
        return _render_image_form(context, form_state, template)
    return redirect(IMAGES_PATH, flash="image_saved")


def _read_image_fields(form: Form) -> dict[str, Any]:
    """As the API takes them: without an image, or a field for the sub account, these stay."""
    values: dict[str, Any] = {"type": form.text("type"), "name": form.text("name")}
    if image := form.text("image", max_length=MAX_URL_LENGTH):
        values["image"] = image
    if "sub_account_id" in form.fields:
        values["sub_account_id"] = form.number("sub_account_id")
    return values


def _read_image(context: RequestContext, template_id: int) -> ImageTemplate:
    with context.transaction() as tx:
        return template_service.IMAGE_TEMPLATES.read(tx, template_id)


def _render_image_form(context: RequestContext, form: FormState, template: ImageTemplate | None = None) -> Response:
    with context.transaction() as tx:
        titles = context.sub_account_titles(tx)
    return context.render(
        "templates/image.html",
        form,
        general_errors=form.list_errors_outside(IMAGE_FIELDS),
        image_template=template,
        types=IMAGE_TYPES,
        titles=titles,
    )
