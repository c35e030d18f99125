"""One recipient of a list: adding, changing, removing and erasing them."""

from collections.abc import Mapping, Sequence
from typing import Final

from fastapi import APIRouter, Response

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.core.database import Tenant
from quillpost.core.errors import Invalid, NotFound, Refused
from quillpost.privacy.erasure import erase_subject, preview_erasure
from quillpost.privacy.queries import ErasureSubject, parse_subject
from quillpost.recipients import service as recipient_service
from quillpost.recipients.lists.queries import read_list
from quillpost.recipients.models import ADDRESS_FIELDS, CUSTOM_FIELDS, TEXT_FIELDS, MailingList, Recipient
from quillpost.recipients.queries import read_recipient
from quillpost.recipients.rules import person_to_fields
from quillpost.web.api.mailing_lists.endpoints import serialize_deliverability
from quillpost.web.api.recipients.schemas import ChangedRecipient, NewRecipient
from quillpost.web.dashboard.forms import EMPTY_FORM, FormState, read_body
from quillpost.web.dashboard.lists.pages import find_list, list_path, read_texts, render_list_page
from quillpost.web.dashboard.responses import RequestContext, UserContext
from quillpost.web.dependencies import parse_path_id
from quillpost.web.forms import PostedForm
from quillpost.web.rendering import redirect
from quillpost.web.security import use_one_time_key

router = APIRouter(include_in_schema=False)

FORM_FIELDS: Final = (*TEXT_FIELDS, "dob", "anniversary")
IDENTIFIER_MISSING = "Choose what the person is known by."
RECIPIENT_PATH = "/lists/{list_id}/people/{recipient_id}"


@router.get("/lists/{list_id}/people/new")
def new_recipient_page(context: UserContext, list_id: str) -> Response:
    return _render_form(context, find_list(context, list_id), EMPTY_FORM)


@router.post("/lists/{list_id}/people/new")
def create_recipient(context: UserContext, list_id: str, form: PostedForm) -> Response:
    """A second button adds the next one right after."""
    mailing_list = find_list(context, list_id)
    list_url = list_path(mailing_list.id)
    try:
        body = read_body(NewRecipient, read_texts(form, FORM_FIELDS) | {"mailing_list_id": mailing_list.id})
        with context.transaction() as tx:
            use_one_time_key(tx, context.user, form.one_time_key, hint="They are on the list.", result_path=list_url)
            recipient_service.add_recipient(tx, mailing_list.id, body.person_fields(), clock=context.container.clock)
    except (Invalid, Refused) as error:
        return _render_form(context, mailing_list, FormState.from_error(form, error, default_field="name"))
    return redirect(f"{list_url}/people/new" if form.text("then") == "another" else list_url, flash="recipient_added")


@router.get(RECIPIENT_PATH)
def recipient_page(context: UserContext, list_id: str, recipient_id: str) -> Response:
    mailing_list, recipient = _find_recipient(context, list_id, recipient_id)
    values = {name: [text] for name, text in person_to_fields(recipient.person).items() if text is not None}
    return _render_form(context, mailing_list, FormState(values), recipient)


@router.post(RECIPIENT_PATH)
def change_recipient(context: UserContext, list_id: str, recipient_id: str, form: PostedForm) -> Response:
    mailing_list, recipient = _find_recipient(context, list_id, recipient_id)
    try:
        body = read_body(ChangedRecipient, read_texts(form, FORM_FIELDS))
        with context.transaction() as tx:
            recipient_service.change_recipient(tx, recipient.id, body.person_fields(), clock=context.container.clock)
    except (Invalid, Refused) as error:
        return _render_form(context, mailing_list, FormState.from_error(form, error, default_field="name"), recipient)
    return redirect(list_path(mailing_list.id), flash="recipient_changed")


@router.get(f"{RECIPIENT_PATH}/remove")
def remove_page(context: UserContext, list_id: str, recipient_id: str) -> Response:
    mailing_list, recipient = _find_recipient(context, list_id, recipient_id)
    consequences = ["Mail to them that is under way goes on.", "Nothing else that is known of them is touched."]
    if mailing_list.is_suppression_list:
        consequences = ["From then on they are mailed to again, unless another suppression list holds them back."]
    return context.confirm(
        title=f"Take {_display_name(recipient)} off “{mailing_list.description}”?",
        consequences=consequences,
        button_label="Take them off the list",
        back_url=_recipient_path(mailing_list, recipient),
    )


@router.post(f"{RECIPIENT_PATH}/remove")
def remove_recipient(context: UserContext, list_id: str, recipient_id: str, _form: PostedForm) -> Response:
    mailing_list, recipient = _find_recipient(context, list_id, recipient_id)
    with context.transaction() as tx:
        recipient_service.remove_recipient(tx, recipient.id)
    return redirect(list_path(mailing_list.id), flash="recipient_removed")


@router.get(f"{RECIPIENT_PATH}/erase")
def erase_page(context: UserContext, list_id: str, recipient_id: str) -> Response:
    mailing_list, recipient = _find_recipient(context, list_id, recipient_id)
    identifiers = [identifier for identifier in ("address", "email") if getattr(recipient.person, identifier)]
    return _render_erase_page(context, mailing_list, recipient, FormState({"by": identifiers}))


@router.post(f"{RECIPIENT_PATH}/erase")
def erase_recipient(context: UserContext, list_id: str, recipient_id: str, form: PostedForm) -> Response:
    """As in the API: in both modes, or only in test mode for a user who is there."""
    mailing_list, recipient = _find_recipient(context, list_id, recipient_id)
    try:
        target = _erasure_target(recipient, form.values("by"))
    except Invalid as error:
        return _render_erase_page(
            context, mailing_list, recipient, FormState.from_error(form, error, default_field="by")
        )
    with context.system_transaction() as tx:
        erase_subject(tx, context.container.encryptor, _erasure_tenant(context.user), target, now=context.now())
        # Whom, nobody is to know any more.
        audit_service.record_audit_entry(
            tx,
            context.account_id,
            "person.erased",
            context.user.actor,
            about={},
            sub_account_id=context.user.here.sub_account_id,
            now=context.now(),
        )
    return redirect(list_path(mailing_list.id), flash="recipient_erased")


def _find_recipient(context: RequestContext, list_id: str, recipient_id: str) -> tuple[MailingList, Recipient]:
    with context.transaction() as tx:
        mailing_list = read_list(tx, parse_path_id(list_id))
        recipient = read_recipient(tx, parse_path_id(recipient_id))
    if recipient.mailing_list_id != mailing_list.id:
        raise NotFound
    return mailing_list, recipient


def _render_form(
    context: RequestContext, mailing_list: MailingList, form: FormState, recipient: Recipient | None = None
) -> Response:
    errors = _group_general_errors(form.errors)
    return render_list_page(
        context,
        "person.html",
        form=FormState(form.fields, errors),
        mailing_list=mailing_list,
        recipient=recipient,
        recipient_name=None if recipient is None else _display_name(recipient),
        deliverability=None if recipient is None else serialize_deliverability(recipient.person),
        custom_fields=CUSTOM_FIELDS,
    )


def _group_general_errors(errors: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    """Errors of fields that the form does not have, by the empty name."""
    other_messages = [message for name, messages in errors.items() if name not in FORM_FIELDS for message in messages]
    field_errors = {name: message for name, message in errors.items() if name in FORM_FIELDS}
    return field_errors | ({"": other_messages} if other_messages else {})


def _render_erase_page(
    context: RequestContext, mailing_list: MailingList, recipient: Recipient, form: FormState
) -> Response:
    erasure_preview = None
    try:
        with context.system_transaction() as tx:
            erasure_preview = preview_erasure(
                tx,
                _erasure_tenant(context.user),
                _erasure_target(recipient, form.fields.get("by", ())),
                now=context.now(),
            )
    except Invalid as error:
        errors = [message for messages in error.fields.values() for message in messages]
        form = FormState(form.fields, {"by": form.errors.get("by") or errors})
    return render_list_page(
        context,
        "erase.html",
        form=form,
        mailing_list=mailing_list,
        recipient=recipient,
        recipient_name=_display_name(recipient),
        erasure_preview=erasure_preview,
        back_url=_recipient_path(mailing_list, recipient),
        is_testing=context.user.caller.is_testing,
    )


def _erasure_target(recipient: Recipient, identifiers: Sequence[str]) -> ErasureSubject:
    fields = person_to_fields(recipient.person)
    identifying_fields = {name: fields[name] for name in ADDRESS_FIELDS} if "address" in identifiers else {}
    if "email" in identifiers:
        identifying_fields["email"] = fields["email"]
    if not identifying_fields:
        raise Invalid({"by": [IDENTIFIER_MISSING]})
    return parse_subject(identifying_fields)


def _erasure_tenant(user: SignedInUser) -> Tenant:
    mode = "test" if user.caller.is_testing else None
    return Tenant(user.here.account_id, user.here.sub_account_id, mode)


def _display_name(recipient: Recipient) -> str:
    person = recipient.person
    return person.name or person.company or person.email or person.address or "this person"


def _recipient_path(mailing_list: MailingList, recipient: Recipient) -> str:
    return f"{list_path(mailing_list.id)}/people/{recipient.id}"
