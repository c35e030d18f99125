"""Recipients of a list: one by one, and bought around an address."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import APIRouter, Response

from quillpost.accounts.billing.rules import LEAD_CENTS
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.core.database import Tenant
from quillpost.core.errors import Invalid, NotFound, QuillpostError, Refused, Unavailable, Unpaid
from quillpost.privacy.erasure.queries import ErasureSubject, parse_subject
from quillpost.privacy.erasure.service import erase_subject, preview_erasure
from quillpost.recipients import service as recipient_service
from quillpost.recipients.leads import service as lead_service
from quillpost.recipients.leads.rules import ALL_RECORDS, MAX_RECORDS, MIN_RECORDS
from quillpost.recipients.leads.search import LeadSearchResult
from quillpost.recipients.lists.queries import read_list
from quillpost.recipients.models import ADDRESS_FIELDS, CUSTOM_FIELDS, TEXT_FIELDS, MailingList, Recipient
from quillpost.recipients.queries import read_recipient
from quillpost.recipients.rules import person_to_fields
from quillpost.web.api.radius.schemas import RadiusCall
from quillpost.web.api.recipients.schemas import ChangedRecipient, NewRecipient
from quillpost.web.api.schemas import strip_or_none
from quillpost.web.dashboard.forms import EMPTY_FORM, FormState, read_body
from quillpost.web.dashboard.lists.pages import (
    find_list,
    find_query_list,
    list_choices,
    list_path,
    read_texts,
    render_list_page,
)
from quillpost.web.dashboard.responses import PathId, RequestContext, UserContext
from quillpost.web.dependencies import parse_digits
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import redirect
from quillpost.web.security import use_one_time_key

router = APIRouter(include_in_schema=False)

FORM_FIELDS: Final = (*TEXT_FIELDS, "dob", "anniversary")
IDENTIFIER_MISSING = "Choose what the person is known by."
RECIPIENT_PATH = "/lists/{list_id}/people/{recipient_id}"


@router.get("/lists/{list_id}/people/new")
def new_recipient_page(context: UserContext, list_id: PathId) -> Response:
    return _render_form(context, find_list(context, list_id), EMPTY_FORM)


@router.post("/lists/{list_id}/people/new")
def create_recipient(context: UserContext, list_id: PathId, form: PostedForm) -> Response:
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
def recipient_page(context: UserContext, list_id: PathId, recipient_id: PathId) -> Response:
    mailing_list, recipient = _find_recipient(context, list_id, recipient_id)
    values = {name: [text] for name, text in person_to_fields(recipient.person).items() if text is not None}
    return _render_form(context, mailing_list, FormState(values), recipient)


@router.post(RECIPIENT_PATH)
def change_recipient(context: UserContext, list_id: PathId, recipient_id: PathId, form: PostedForm) -> Response:
    mailing_list, recipient = _find_recipient(context, list_id, recipient_id)
    try:
        body = read_body(ChangedRecipient, read_texts(form, FORM_FIELDS))
        with context.transaction() as tx:
            recipient_service.change_recipient(tx, recipient.id, body.person_fields(), clock=context.container.clock)
    except (Invalid, Refused) as error:
        return _render_form(context, mailing_list, FormState.from_error(form, error, default_field="name"), recipient)
    return redirect(list_path(mailing_list.id), flash="recipient_changed")


@router.get(f"{RECIPIENT_PATH}/remove")
def remove_page(context: UserContext, list_id: PathId, recipient_id: PathId) -> Response:
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
def remove_recipient(context: UserContext, list_id: PathId, recipient_id: PathId, _form: PostedForm) -> Response:
    mailing_list, recipient = _find_recipient(context, list_id, recipient_id)
    with context.transaction() as tx:
        recipient_service.remove_recipient(tx, recipient.id)
    return redirect(list_path(mailing_list.id), flash="recipient_removed")


@router.get(f"{RECIPIENT_PATH}/erase")
def erase_page(context: UserContext, list_id: PathId, recipient_id: PathId) -> Response:
    mailing_list, recipient = _find_recipient(context, list_id, recipient_id)
    identifiers = [identifier for identifier in ("address", "email") if getattr(recipient.person, identifier)]
    return _render_erase_page(context, mailing_list, recipient, FormState({"by": identifiers}))


@router.post(f"{RECIPIENT_PATH}/erase")
def erase_recipient(context: UserContext, list_id: PathId, recipient_id: PathId, form: PostedForm) -> Response:
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
        # Not who: that is erased.
        context.audit(tx, "person.erased", {}, sub_account_id=context.user.here.sub_account_id)
    return redirect(list_path(mailing_list.id), flash="recipient_erased")


def _find_recipient(context: RequestContext, list_id: int, recipient_id: int) -> tuple[MailingList, Recipient]:
    with context.transaction() as tx:
        mailing_list = read_list(tx, list_id)
        recipient = read_recipient(tx, recipient_id)
    if recipient.mailing_list_id != mailing_list.id:
        raise NotFound
    return mailing_list, recipient


def _render_form(
    context: RequestContext, mailing_list: MailingList, form: FormState, recipient: Recipient | None = None
) -> Response:
    return render_list_page(
        context,
        "person.html",
        form=form.regroup(FORM_FIELDS, ""),
        mailing_list=mailing_list,
        recipient=recipient,
        recipient_name=None if recipient is None else _display_name(recipient),
        custom_fields=CUSTOM_FIELDS,
    )


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
        is_testing=context.user.caller.mode == "test",
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
    mode = "test" if user.caller.mode == "test" else None
    return Tenant(user.here.account_id, user.here.sub_account_id, mode)


def _display_name(recipient: Recipient) -> str:
    person = recipient.person
    return person.name or person.company or person.email or person.address or "this person"


def _recipient_path(mailing_list: MailingList, recipient: Recipient) -> str:
    return f"{list_path(mailing_list.id)}/people/{recipient.id}"


RADIUS_PATH = "/lists/radius"
DEFAULT_FIELDS: Final = {"record_count": ["100"], "condos": ["on"], "businesses": ["on"]}
RECORD_TYPE_LABELS: Final[Mapping[str, str]] = {
    "newhomeowner": "New homeowners",
    "firsttimehomebuyer": "First-time home buyers",
    "likelytomove": "Likely to move",
    "likelytorefi": "Likely to refinance",
    "absenteeowner": "Owners who live elsewhere",
    "highnetworth": "High net worth",
    "majorityhomeequity": "Most of the home paid off",
    "homefreeclear": "No mortgage",
    "underwater": "Owing more than the home is worth",
    "kidsinhousehold": "With children",
    "renters": "Renters",
    "retiring": "Retiring soon",
    "retired": "Retired",
    "pool": "With a pool",
    "onlybusinesses": "Businesses only",
    "newbusiness": "New businesses",
}


@router.get(RADIUS_PATH)
def radius_page(context: UserContext) -> Response:
    with context.transaction() as tx:
        mailing_list = find_query_list(tx, context.request)
    return _render_radius_page(
        context, FormState(DEFAULT_FIELDS | ({} if mailing_list is None else {"list": [str(mailing_list.id)]}))
    )


@router.post(RADIUS_PATH)
def count_leads(context: UserContext, form: PostedForm) -> Response:
    """Counting is free."""
    try:
        leads, _ = _find_leads(context, _read_radius_body(form))
    except (Invalid, Refused, Unavailable) as error:
        return _render_radius_errors(context, form, error)
    return _render_radius_page(context, FormState(form.fields), leads)


@router.post(f"{RADIUS_PATH}/buy")
def buy_leads(context: UserContext, form: PostedForm) -> Response:
    """Never for more than the price that was shown."""
    try:
        body = _read_radius_body(form)
        leads, sub_account_id = _find_leads(context, body)
        if leads.cents > (parse_digits(form.text("shown")) or 0):
            return _render_radius_page(context, FormState(form.fields), leads, is_price_changed=True)
        with context.transaction() as tx:
            use_one_time_key(tx, context.user, form.one_time_key, hint="The addresses are yours.", result_path="/lists")
            mailing_list, _ = lead_service.buy_onto_list(
                tx,
                context.user.caller,
                context.container.encryptor,
                leads,
                body.to_search(),
                mailing_list_id=body.mailing_list_id,
                sub_account_id=sub_account_id,
                name=strip_or_none(body.description),
                list_type="map",
                needs_credit=context.container.environments[context.user.mode].needs_credit,
                now=context.now(),
            )
    except (Invalid, Refused, Unavailable, Unpaid) as error:
        return _render_radius_errors(context, form, error)
    return redirect(list_path(mailing_list.id), flash="radius_bought")


def _find_leads(context: RequestContext, body: RadiusCall) -> tuple[LeadSearchResult, int | None]:
    container, caller = context.container, context.user.caller
    return lead_service.find_leads(
        container.db,
        container.lead_providers[caller.mode],
        caller,
        body.to_search(),
        sub_account_id=body.sub_account_id,
        mailing_list_id=body.mailing_list_id,
        now=context.now(),
    )


def _read_radius_body(form: Form) -> RadiusCall:
    return read_body(RadiusCall, _radius_fields(form))


def _radius_fields(form: Form) -> Mapping[str, Any]:
    """In the API's names."""
    days = form.text("mailed_within_days")
    order_request: dict[str, Any] = {
        "address": form.text("address"),
        "record_count": _parse_number(form.text("record_count")),
        "record_types": ",".join(form.values("record_types")) or ALL_RECORDS,
        "include_condos": bool(form.text("condos")),
        "include_businesses": bool(form.text("businesses")),
        "use_property_owner": bool(form.text("owner")),
        "include_search_address": bool(form.text("itself")),
        "exclude_already_mailed": bool(form.text("unmailed")),
        "mailed_within_days": _parse_number(days) if days and form.text("unmailed") else None,
        "mailing_list_id": form.number("list"),
        "description": form.text("description") or None,
    }
    if order_request["mailing_list_id"] is None:
        order_request["sub_account_id"] = form.number("sub_account_id")
    return order_request


def _parse_number(text: str) -> int | str:
    number = parse_digits(text.replace(",", ""))
    return text if number is None else number


def _render_radius_errors(context: RequestContext, form: Form, error: QuillpostError) -> Response:
    errors = dict(error.fields) if isinstance(error, Invalid) else {"address": [error.message]}
    form_fields = {"mailing_list_id": "list", "postal_code": "address"}
    return _render_radius_page(
        context, FormState(form.fields, {form_fields.get(name, name): messages for name, messages in errors.items()})
    )


def _render_radius_page(
    context: RequestContext, form: FormState, leads: LeadSearchResult | None = None, *, is_price_changed: bool = False
) -> Response:
    with context.transaction() as tx:
        offered_lists = list_choices(tx, form.values.get("list"), is_suppression_list=False)
        titles = context.sub_account_titles(tx)
    return render_list_page(
        context,
        "radius.html",
        form=form,
        lists=[each for each in offered_lists if each.kept_for is None],
        titles=titles,
        record_labels=RECORD_TYPE_LABELS,
        leads=leads,
        counted_fields=form.fields,
        is_price_changed=is_price_changed,
        min_count=MIN_RECORDS,
        max_count=MAX_RECORDS,
        lead_cents=LEAD_CENTS,
    )
