"""A list's settings and key; merging, deduplicating and deleting it."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Response

from quillpost.core.errors import Invalid, Refused
from quillpost.core.paging import PageRequest
from quillpost.recipients.lists import queries as list_queries
from quillpost.recipients.lists import service as list_service
from quillpost.recipients.models import MailingList
from quillpost.web.api.mailing_lists.schemas import ChangedMailingList, Merge
from quillpost.web.dashboard.forms import EMPTY_FORM, FormState, read_body
from quillpost.web.dashboard.lists.pages import (
    LISTS_PATH,
    SUPPRESS_BY_LABELS,
    find_list,
    list_path,
    read_list_fields,
    render_list_page,
)
from quillpost.web.dashboard.responses import PathId, RequestContext, UserContext
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import redirect

router = APIRouter(include_in_schema=False)

MAX_LISTS_OFFERED = 100
FIXED_FIELDS = ("is_suppression_list", "suppress_by", "sub_account_id")  # fixed for lists that the service keeps


@router.get("/lists/{list_id}/settings")
def settings_page(context: UserContext, list_id: PathId) -> Response:
    mailing_list = find_list(context, list_id)
    return _render_settings_page(context, mailing_list, _current_values(mailing_list))


@router.post("/lists/{list_id}/settings")
def change_list(context: UserContext, list_id: PathId, form: PostedForm) -> Response:
    mailing_list = find_list(context, list_id)
    try:
        body = read_body(ChangedMailingList, _changed_fields(form, mailing_list))
        with context.transaction() as tx:
            list_service.change_list(
                tx, context.user.caller, mailing_list.id, body.columns(context.container), now=context.now()
            )
    except (Invalid, Refused) as error:
        return _render_settings_page(
            context, mailing_list, FormState.from_error(form, error, default_field="description")
        )
    return redirect(list_path(mailing_list.id, tab="settings"), flash="list_changed")


@router.get("/lists/{list_id}/merge")
def merge_page(context: UserContext, list_id: PathId) -> Response:
    return _render_merge_page(context, find_list(context, list_id), EMPTY_FORM)


@router.post("/lists/{list_id}/merge")
def merge_list(context: UserContext, list_id: PathId, form: PostedForm) -> Response:
    mailing_list = find_list(context, list_id)
    try:
        body = read_body(Merge, {"into": form.number("into")})
        with context.transaction() as tx:
            target_list = list_service.merge_lists(tx, mailing_list.id, body.into, clock=context.container.clock)
    except (Invalid, Refused) as error:
        return _render_merge_page(context, mailing_list, FormState.from_error(form, error, default_field="into"))
    return redirect(list_path(target_list.id), flash="list_merged")


@router.get("/lists/{list_id}/dedupe")
def dedupe_page(context: UserContext, list_id: PathId) -> Response:
    mailing_list = find_list(context, list_id)
    consequences = [
        "An address is on a list once anyway. This looks at those of whom only an e-mail is known.",
        "Of each e-mail the oldest entry stays.",
    ]
    if not mailing_list.is_suppression_list:
        consequences.append("And none does where somebody of the same name and e-mail is here with an address.")
    return context.confirm(
        title=f"Remove doubles from “{mailing_list.description}”?",
        consequences=consequences,
        button_label="Remove doubles",
        back_url=list_path(mailing_list.id, tab="settings"),
    )


@router.post("/lists/{list_id}/dedupe")
def dedupe_list(context: UserContext, list_id: PathId, _form: PostedForm) -> Response:
    mailing_list = find_list(context, list_id)
    with context.transaction() as tx:
        removed_count = list_service.remove_duplicates(tx, mailing_list.id)
    return redirect(list_path(mailing_list.id), flash="doubles_removed" if removed_count else "no_doubles")


@router.get("/lists/{list_id}/key")
def key_page(context: UserContext, list_id: PathId) -> Response:
    mailing_list = find_list(context, list_id)
    return context.confirm(
        title=f"A new key for “{mailing_list.description}”?",
        consequences=[
            "The old key, and the address with it, stop at once.",
            "Whatever puts people on this list by it, such as a form of your website, needs the new one.",
        ],
        button_label="Make a new key",
        back_url=list_path(mailing_list.id, tab="settings"),
    )


@router.post("/lists/{list_id}/key")
def rotate_key(context: UserContext, list_id: PathId, _form: PostedForm) -> Response:
    with context.transaction() as tx:
        mailing_list = list_service.rotate_key(tx, context.container.encryptor, list_id, now=context.now())
        context.audit(
            tx,
            "list.key",
            {"name": mailing_list.description, "id": mailing_list.id},
            sub_account_id=mailing_list.sub_account_id,
        )
    return redirect(list_path(mailing_list.id, tab="settings"), flash="list_key_made")


@router.get("/lists/{list_id}/delete")
def delete_page(context: UserContext, list_id: PathId) -> Response:
    return _render_delete_page(context, find_list(context, list_id))


@router.post("/lists/{list_id}/delete")
def delete_list(context: UserContext, list_id: PathId, _form: PostedForm) -> Response:
    mailing_list = find_list(context, list_id)
    try:
        with context.transaction() as tx:
            list_service.remove_list(tx, mailing_list.id)
    except Refused as error:
        return _render_delete_page(context, mailing_list, error_message=error.message)
    return redirect(
        f"{LISTS_PATH}/suppression" if mailing_list.is_suppression_list else LISTS_PATH, flash="list_deleted"
    )


def _render_delete_page(
    context: RequestContext, mailing_list: MailingList, *, error_message: str | None = None
) -> Response:
    consequences = ["Subscriptions to its events end with it, and its key stops.", "Mail that was sent goes on."]
    if mailing_list.total_recipients:
        people_label = (
            "one person" if mailing_list.total_recipients == 1 else f"{mailing_list.total_recipients:,} people"
        )
        consequences.insert(0, f"The {people_label} on it are deleted with it. Export it first if you may need them.")
    if mailing_list.is_suppression_list:
        consequences.append("Whoever is on it may be mailed to from then on.")
    consequences.append("It cannot be deleted while an order waits for it, or an automation on it is switched on.")
    return context.confirm(
        title=f"Delete “{mailing_list.description}”?",
        consequences=consequences,
        button_label="Delete the list",
        back_url=list_path(mailing_list.id, tab="settings"),
        error_message=error_message,
    )


def _current_values(mailing_list: MailingList) -> FormState:
    values = {
        "description": [mailing_list.description],
        "qrcode_url": [mailing_list.qrcode_url or ""],
        "is_suppression_list": ["on"] if mailing_list.is_suppression_list else [],
        "suppress_by": [mailing_list.suppress_by],
        "sub_account_id": ["" if mailing_list.sub_account_id is None else str(mailing_list.sub_account_id)],
    }
    return FormState(values)


def _changed_fields(form: Form, mailing_list: MailingList) -> Mapping[str, Any]:
    fields = read_list_fields(form)
    return (
        fields if mailing_list.kept_for is None else {name: fields[name] for name in fields if name not in FIXED_FIELDS}
    )


def _render_settings_page(context: RequestContext, mailing_list: MailingList, form: FormState) -> Response:
    with context.transaction() as tx:
        titles = context.sub_account_titles(tx)
    key = list_service.decrypt_list_key(context.container.encryptor, mailing_list)
    return render_list_page(
        context,
        "settings.html",
        form=form,
        mailing_list=mailing_list,
        tab="settings",
        titles=titles,
        suppress_by_labels=SUPPRESS_BY_LABELS,
        webhook_url=f"{context.container.base_url}/hooks/lists/{key}" if key else None,
        list_key=key,
    )


def _render_merge_page(context: RequestContext, mailing_list: MailingList, form: FormState) -> Response:
    """Offers the newest lists of the same kind."""
    with context.transaction() as tx:
        page = list_queries.read_list_page(
            tx, PageRequest(1, MAX_LISTS_OFFERED + 1), is_suppression_list=mailing_list.is_suppression_list
        )
    other_lists = [each for each in page.rows if each.id != mailing_list.id and not each.is_opt_out_list]
    return render_list_page(
        context,
        "merge.html",
        form=form,
        mailing_list=mailing_list,
        other_lists=other_lists[:MAX_LISTS_OFFERED],
        total=page.total,
    )
