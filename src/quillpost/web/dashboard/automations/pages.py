"""Pages of automations."""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter, Response

from quillpost.accounts.sub_accounts.queries import read_sub_account
from quillpost.core.errors import Conflict, Invalid, Refused
from quillpost.core.paging import PageRequest
from quillpost.orders.automations import queries as automation_queries
from quillpost.orders.automations import service as automation_service
from quillpost.orders.automations.queries import Automation, AutomationPlan
from quillpost.orders.automations.rules import DEFAULT_DAILY_LIMIT
from quillpost.orders.automations.tasks import error_message
from quillpost.orders.drafts import previews
from quillpost.orders.giftcards import queries as giftcard_queries
from quillpost.orders.handwriting.queries import list_hands
from quillpost.orders.templates.service import IMAGE_TEMPLATES, MESSAGE_TEMPLATES
from quillpost.recipients.lists.queries import find_lists
from quillpost.recipients.models import MailingList
from quillpost.web.api.automations.schemas import ChangedAutomation, NewAutomation, automation_context
from quillpost.web.dashboard.automations.forms import (
    FORM_ERROR_KEY,
    TRIGGER_LABELS,
    automation_form_fields,
    describe_automation,
    product_phrase,
    read_automation_fields,
    to_form_errors,
)
from quillpost.web.dashboard.compose.forms import DEFAULT_PRODUCT, PRODUCT_CHOICES
from quillpost.web.dashboard.forms import EMPTY_FORM, FormState, parse_page, read_body
from quillpost.web.dashboard.labels import FONT_SIZES, INK_NAMES, MANNER_CHOICES, style_label
from quillpost.web.dashboard.lists.pages import list_choices
from quillpost.web.dashboard.responses import PathId, RequestContext, UserContext
from quillpost.web.dashboard.styles import list_signature_choices
from quillpost.web.forms import Form, PostedForm
from quillpost.web.messages import page_text
from quillpost.web.rendering import redirect
from quillpost.web.security import use_one_time_key
from quillpost.web.sessions import is_fragment

PAGE_PATH: Final = "/automations"


def automation_path(automation_id: int) -> str:
    return f"{PAGE_PATH}/{automation_id}"


def find_automation(context: RequestContext, automation_id: int) -> Automation:
    """`NotFound` unless it is the reader's, and of their mode."""
    with context.transaction() as tx:
        return automation_queries.read_automation(tx, automation_id)


router = APIRouter(include_in_schema=False)


@router.get(PAGE_PATH)
def automations_page(context: UserContext, page: str = "") -> Response:
    with context.transaction() as tx:
        automation_rows = automation_queries.list_automations(
            tx, parse_page(page), sub_account_id=None, mailing_list_id=None
        )
        waiting_counts = automation_queries.count_due(tx, [each.id for each in automation_rows.rows])
        lists = find_lists(tx, {each.mailing_list_id for each in automation_rows.rows if each.mailing_list_id})
    descriptions = {
        each.id: describe_automation(each, list_label(lists.get(each.mailing_list_id or 0)))
        for each in automation_rows.rows
    }
    return context.render(
        "automations/list.html",
        has_inline_images=True,
        page=automation_rows,
        due_counts=waiting_counts,
        descriptions=descriptions,
    )


def list_label(mailing_list: MailingList | None) -> str | None:
    return None if mailing_list is None else mailing_list.description or f"list {mailing_list.id}"


CHOICES_PAGE = PageRequest(per_page=200)
"""The newest to choose from."""
DEFAULT_FIELDS = {
    "trigger": ["list_entry"],
    "piece": [DEFAULT_PRODUCT],
    "image": [""],
    "side": ["before"],
    "daily_limit": [str(DEFAULT_DAILY_LIMIT)],
    "style": ["1"],
}


@router.get(f"{PAGE_PATH}/new")
def new_automation_page(context: UserContext, mailing_list_id: str = "") -> Response:
    return _render_form(context, FormState(DEFAULT_FIELDS | {"mailing_list_id": [mailing_list_id]}))


@router.post(f"{PAGE_PATH}/new")
def create_automation(context: UserContext, form: PostedForm) -> Response:
    try:
        body = read_body(NewAutomation, read_automation_fields(form) | {"enabled": form.text("enabled") == "on"})
        automations, plan = (
            automation_context(context.container),
            body.to_plan(context.user.caller, context.container.limits),
        )
        automation_service.check_automation(automations, context.user.caller, plan)
        with context.transaction() as tx:
            use_one_time_key(tx, context.user, form.one_time_key, hint="It is on the list.", result_path=PAGE_PATH)
            automation = automation_service.create_automation(
                tx, context.user.caller, plan, zone=automations.zone, now=context.now()
            )
    except (Invalid, Refused) as error:
        return _render_form(context, _rejected_form(form, error))
    return redirect(automation_path(automation.id), flash="automation_made")


@router.get(f"{PAGE_PATH}/{{automation_id}}/change")
def change_page(context: UserContext, automation_id: PathId) -> Response:
    automation = find_automation(context, automation_id)
    return _render_form(context, FormState(automation_form_fields(automation)), current=automation)


@router.post(f"{PAGE_PATH}/{{automation_id}}/change")
def change_automation(context: UserContext, automation_id: PathId, form: PostedForm) -> Response:
    current = find_automation(context, automation_id)
    try:
        _save_changes(context, current, read_automation_fields(form, current=current))
    except (Invalid, Refused) as error:
        return _render_form(context, _rejected_form(form, error), current=current)
    except Conflict as conflict:
        form_state = FormState(form.fields, {FORM_ERROR_KEY: [conflict.message]})
        return _render_form(context, form_state, current=current)
    return redirect(automation_path(current.id), flash="automation_changed")


def _rejected_form(form: Form, error: Invalid | Refused) -> FormState:
    return FormState(form.fields, to_form_errors(error).fields)


def _render_form(context: RequestContext, form: FormState, *, current: Automation | None = None) -> Response:
    with context.transaction() as tx:
        titles = context.sub_account_titles(tx)
        lists = list_choices(tx, form.values.get("mailing_list_id"))
        messages = MESSAGE_TEMPLATES.list(tx, CHOICES_PAGE, sub_account_id=None).rows
        images = IMAGE_TEMPLATES.list(tx, CHOICES_PAGE, sub_account_id=None).rows
        brands = giftcard_queries.list_offered_brands(tx)
        own_hands = list_hands(tx, only_ready=True)
        signature_choices = list_signature_choices(tx)
    return context.render(
        "automations/form.html",
        form,
        has_inline_images=True,
        automation=current,
        back_url=PAGE_PATH if current is None else automation_path(current.id),
        lists=[
            (each.id, each.description or f"List {each.id}")
            for each in lists
            if not each.is_suppression_list and each.kept_for in (None, context.user.mode)
        ],
        titles=titles,
        messages=[(each.id, each.name) for each in messages],
        images=[(each.id, each.name) for each in images],
        brands=[(each.code, each.title) for each in brands],
        amounts=sorted({amount for each in brands for amount in each.amounts}),
        products=[(key, each.title) for key, each in PRODUCT_CHOICES.items()],
        styles=[
            *((hand.id, hand.name) for hand in own_hands),
            *((number, style_label(style)) for number, style in context.container.renderer.hands.styles.items()),
        ],
        signature_choices=signature_choices,
        manners=[(value, label) for value, label, _ in MANNER_CHOICES],
        colors=[(name, name.capitalize()) for name in INK_NAMES],
        sizes=FONT_SIZES,
        triggers=TRIGGER_LABELS,
    )


@dataclass(frozen=True, slots=True)
class AutomationPageView:
    """The piece as a recipient would get it, or why not, and who gets one in the next days."""

    pictures: list[tuple[str, str]]
    name: str | None
    warnings: list[str]
    errors: list[str]
    coming: list[automation_queries.UpcomingMailing]


@router.get(f"{PAGE_PATH}/{{automation_id}}")
def automation_details_page(context: UserContext, automation_id: PathId) -> Response:
    return render_automation(context, find_automation(context, automation_id))


@router.post(f"{PAGE_PATH}/{{automation_id}}/preview")
def preview_automation(context: UserContext, automation_id: PathId, _form: PostedForm) -> Response:
    """Drawn on request, as it takes a moment. Nothing is stored."""
    automation = find_automation(context, automation_id)
    drawn_preview = _draw_preview(context, automation)
    if is_fragment(context.request):
        return context.render("automations/preview.html", preview=drawn_preview)
    return render_automation(context, automation, preview=drawn_preview)


def render_automation(
    context: RequestContext,
    automation: Automation,
    *,
    form: FormState = EMPTY_FORM,
    preview: AutomationPageView | None = None,
) -> Response:
    with context.transaction() as tx:
        waiting_count = automation_queries.count_due(tx, [automation.id]).get(automation.id, 0)
        lists = find_lists(tx, [automation.mailing_list_id] if automation.mailing_list_id else [])
        sub_account = read_sub_account(tx, automation.sub_account_id) if automation.sub_account_id else None
    mailing_list = next(iter(lists.values()), None)
    return context.render(
        "automations/automation.html",
        form,
        has_inline_images=True,
        automation=automation,
        description=describe_automation(automation, list_label(mailing_list)),
        product_phrase=product_phrase(automation),
        due_count=waiting_count,
        mailing_list=mailing_list,
        list_name=list_label(mailing_list),
        sub_account=sub_account,
        preview=preview,
    )


def _draw_preview(context: RequestContext, automation: Automation) -> AutomationPageView:
    automations = automation_context(context.container)
    coming = automation_service.list_coming_days(automations, automation)
    try:
        person = automation_service.find_preview_person(automations, context.user.caller, automation, coming)
        plan = AutomationPlan.of(automation)
        order_draft = automation_service.draft_automation_order(automations, context.user.caller, plan, person=person)
        rendered = previews.draw_preview(automations.orders, context.user.caller, order_draft)
    except (Invalid, Refused) as error:
        field_errors = to_form_errors(error).fields
        return AutomationPageView(
            [], None, [], [each for sentences in field_errors.values() for each in sentences], coming
        )
    sides = dict(rendered.sides) | ({"envelope": rendered.envelope} if rendered.envelope else {})
    pictures = [(side, f"data:image/png;base64,{b64encode(png).decode()}") for side, png in sides.items()]
    warnings = [page_text(warning) for warning in order_draft.warnings]
    return AutomationPageView(pictures, person.name, warnings, [], coming)


@router.get(f"{PAGE_PATH}/{{automation_id}}/on")
def switch_on_page(context: UserContext, automation_id: PathId) -> Response:
    automation = find_automation(context, automation_id)
    cost = (
        "Nothing is mailed and nothing is paid for: it is in testing mode."
        if context.user.caller.mode == "test"
        else f"Real mail, paid for from your credit, goes to {automation.daily_limit:,} people a day at most."
    )
    return context.confirm(
        title=f"Switch on “{automation.name}”?",
        consequences=[cost, "What happened before does not count: it begins with what comes from now on."],
        button_label="Switch it on",
        back_url=automation_path(automation.id),
    )


@router.post(f"{PAGE_PATH}/{{automation_id}}/on")
def switch_on(context: UserContext, automation_id: PathId, _form: PostedForm) -> Response:
    """Its send is checked as it would be sent now."""
    automation = find_automation(context, automation_id)
    try:
        _save_changes(context, automation, {"enabled": True})
    except (Invalid, Refused, Conflict) as error:
        message = error_message(error) if isinstance(error, Conflict) else to_form_errors(error).message
        return render_automation(context, automation, form=FormState({}, {"on": [message]}))
    return redirect(automation_path(automation.id), flash="automation_on")


@router.post(f"{PAGE_PATH}/{{automation_id}}/off")
def switch_off(context: UserContext, automation_id: PathId, _form: PostedForm) -> Response:
    automation = find_automation(context, automation_id)
    try:
        _save_changes(context, automation, {"enabled": False})
    except Conflict as error:
        return render_automation(context, automation, form=FormState({}, {"on": [error.message]}))
    return redirect(automation_path(automation.id), flash="automation_off")


@router.get(f"{PAGE_PATH}/{{automation_id}}/delete")
def delete_page(context: UserContext, automation_id: PathId) -> Response:
    automation = find_automation(context, automation_id)
    return context.confirm(
        title=f"Delete “{automation.name}”?",
        consequences=[
            "Whoever is due gets nothing.",
            "Orders that it has made stay, and can be canceled by themselves.",
            "To stop for a while, switch it off instead.",
        ],
        button_label="Delete it",
        back_url=automation_path(automation.id),
    )


@router.post(f"{PAGE_PATH}/{{automation_id}}/delete")
def delete_automation_from_page(context: UserContext, automation_id: PathId, _form: PostedForm) -> Response:
    automation = find_automation(context, automation_id)
    with context.transaction() as tx:
        automation_queries.delete_automation(tx, automation.id)
    return redirect(PAGE_PATH, flash="automation_deleted")


def _save_changes(context: RequestContext, automation: Automation, fields: Mapping[str, Any]) -> None:
    automations, body = automation_context(context.container), read_body(ChangedAutomation, fields)
    plan = body.to_plan(automation, context.user.caller, context.container.limits)
    automation_service.check_changes(automations, context.user.caller, automation, plan, body.provided_fields().keys())
    with context.transaction() as tx:
        automation_service.change_automation(tx, automation, plan, zone=automations.zone, now=context.now())
