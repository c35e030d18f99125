"""From a body to a draft, and from a draft to an answer: what sends, estimates and stored sends share."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastapi import Request, Response

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.accounts.sub_accounts import read_sub_account
from quillpost.app.container import Container
from quillpost.fulfillment import giftcard_stock
from quillpost.fulfillment.readiness import find_service_gaps, pause_warnings
from quillpost.orders import previews
from quillpost.orders import service as order_service
from quillpost.orders.drafts import OrderDraft, prepare_draft
from quillpost.orders.materialization import longest_of_people
from quillpost.orders.models import API_METHOD, Order, OrderRequest
from quillpost.orders.products import Product
from quillpost.orders.request import ResolvedRequest, resolve_request
from quillpost.orders.requests import FieldErrors
from quillpost.orders.service import Audience, OrderFiles
from quillpost.orders.validation import validate_request
from quillpost.recipients.leads.search import FindExcluded, LeadSearchResult, search_leads
from quillpost.recipients.rules import Person
from quillpost.rendering.text.variables import compile_template
from quillpost.web.api.dependencies import UnitOfWork
from quillpost.web.api.orders.responses import base_url, serialize_inline_recipient, serialize_send
from quillpost.web.api.responses import build_warning_header, json_response
from quillpost.web.api.send.requests import SendBody


def draft_order(
    product: Product, body: SendBody, caller: Caller, container: Container, *, method: str = API_METHOD
) -> OrderDraft:
    """The body's wish, checked in every respect; nothing is stored and no transaction stays open. `method` is
    how its order says that it came about."""
    now = container.clock()
    send_request, errors = body.to_send_request(product, container.limits, now=now)
    with container.db.transaction(build_tenant(caller)) as tx:
        resolved = resolve_request(tx, caller, send_request, errors, price_date=now.date())
    resolved = replace(resolved, request=replace(resolved.request, method=method))
    return draft_resolved_order(resolved, errors, caller, container)


def draft_resolved_order(
    resolved: ResolvedRequest, errors: FieldErrors, caller: Caller, container: Container
) -> OrderDraft:
    """What is looked up already, checked in every other respect."""
    order_request, people = validate_request(
        resolved.request, styles=container.renderer.hands.styles, check_url=container.check_url, known_errors=errors
    )
    leads = _find_leads(order_request, caller, container)
    draft = _prepare_draft(resolved, order_request, people, leads, caller, container)
    draft = replace(draft, readiness_gaps=_find_readiness_warnings(caller, container))
    if order_request.gift is not None:
        draft = replace(
            draft,
            cards_in_stock=giftcard_stock.count_available_cards(container.production, caller.mode, order_request.gift),
        )
    if leads is None:
        return draft
    # Which creative it is, is known when its pictures are at hand; it is rare that somebody had it just now.
    mails_at = order_service.compute_due_at(
        draft, review=container.environments[caller.mode].review_period, now=container.clock()
    )
    repeats = order_service.find_repeats(draft, caller, mails_at=mails_at)
    with container.db.transaction(build_tenant(caller)) as tx:
        is_first_mailing = not repeats(tx, leads.people)
    if is_first_mailing:
        return draft
    remaining_leads = _find_leads(order_request, caller, container, repeats=repeats)
    new_draft = _prepare_draft(resolved, order_request, people, remaining_leads, caller, container)
    return replace(new_draft, cards_in_stock=draft.cards_in_stock, readiness_gaps=draft.readiness_gaps)


def _find_readiness_warnings(caller: Caller, container: Container) -> list[str]:
    """What a sender is told whose live order could not be mailed as the service is set up now."""
    if caller.is_testing:
        return []
    with container.db.transaction(build_tenant(caller)) as tx:
        gaps = find_service_gaps(tx, container.environments[caller.mode], on=container.clock().date())
    return pause_warnings(gaps)


def _prepare_draft(
    resolved: ResolvedRequest,
    order_request: OrderRequest,
    people: list[Person],
    leads: LeadSearchResult | None,
    caller: Caller,
    container: Container,
) -> OrderDraft:
    if leads is not None:
        variables = {slot.name for slot in compile_template(order_request.message).slots}
        resolved = replace(resolved, longest_people=longest_of_people(leads.people, variables))
    draft = prepare_draft(
        resolved,
        order_request,
        people,
        caller=caller,
        renderer=container.renderer,
        fetcher=container.fetcher,
        store=container.storage.store,
        indicia=container.environments[caller.mode].indicia[order_request.mail_class],
    )
    return replace(draft, lead_search_result=leads)


def _find_leads(
    order_request: OrderRequest, caller: Caller, container: Container, *, repeats: FindExcluded | None = None
) -> LeadSearchResult | None:
    """Those around the address that the wish searches around, if it does."""
    if order_request.radius_search is None:
        return None
    return search_leads(
        container.db,
        container.lead_providers[caller.mode],
        caller,
        order_request.radius_search,
        sub_account_id=order_request.sub_account_id,
        find_repeats=repeats,
        prefix=f"{order_request.radius_search.field}.",
        now=container.clock(),
    )


def estimate(draft: OrderDraft, caller: Caller, container: Container) -> tuple[Audience, int]:
    """Whom it would reach, and what a piece costs: all have that in common, or come to it on the average."""
    mails_at = order_service.compute_due_at(
        draft, review=container.environments[caller.mode].review_period, now=container.clock()
    )
    with container.db.transaction(build_tenant(caller)) as tx:
        audience = order_service.find_audience(tx, caller, draft, mails_at=mails_at, lock=False)
    domestic_price = draft.tariff.unit_cents("US") or 0
    return audience, round(audience.total_cents / audience.mailed_items) if audience.mailed_items else domestic_price


def count_response(draft: OrderDraft, caller: Caller, container: Container) -> Response:
    """How many a radius search has found, and what it would cost to mail to them."""
    assert draft.lead_search_result is not None
    audience, unit_price = estimate(draft, caller, container)
    warnings = list_warnings(draft, audience)
    data = {
        "count": len(draft.lead_search_result.people),
        "leads_fee": draft.lead_search_result.cents,
        "unit_price": unit_price,
        "estimated_total": audience.total_cents + draft.lead_search_result.cents + audience.gift_total,
        "warnings": warnings,
    }
    content = {"success": True, "code": 200, "message": "OK", "data": data}
    return json_response(content, headers=build_warning_header(warnings))


def list_warnings(draft: OrderDraft, audience: Audience) -> list[str]:
    """All that deserves a look before it is sent: that it would not be mailed yet, its look, whom it reaches,
    and what it brings."""
    return [*draft.readiness_gaps, *draft.warnings, *audience.warnings, *list_stock_warnings(draft, audience)]


def list_stock_warnings(draft: OrderDraft, audience: Audience) -> list[str]:
    """What its sender is told of gift cards that are not there. No order keeps it: more may be loaded before
    its review ends, which looks again."""
    gift = draft.request.gift
    return giftcard_stock.shortage_warnings(gift, audience.mailed_items, draft.cards_in_stock) if gift else []


def create_and_respond(
    request: Request, draft: OrderDraft, caller: Caller, container: Container, unit_of_work: UnitOfWork
) -> Response:
    """Place the order and answer with it."""
    return create_order_and_respond(
        request, draft, store_files(draft, caller, container), caller, container, unit_of_work
    )


def store_files(draft: OrderDraft, caller: Caller, container: Container) -> OrderFiles:
    """The first half, before anything is locked: storage may be far away."""
    return order_service.store_files(container.db, container.storage, caller, draft, now=container.clock())


def create_order(
    draft: OrderDraft, files: OrderFiles, caller: Caller, container: Container, unit_of_work: UnitOfWork
) -> tuple[Order, Audience]:
    """The second half, in the request's transaction."""
    environment = container.environments[caller.mode]
    return order_service.create_order(
        unit_of_work.tx,
        caller,
        container.storage,
        draft,
        files,
        encryptor=container.encryptor,
        review=environment.review_period,
        needs_credit=environment.needs_credit,
        now=container.clock(),
    )


def create_order_and_respond(
    request: Request,
    draft: OrderDraft,
    files: OrderFiles,
    caller: Caller,
    container: Container,
    unit_of_work: UnitOfWork,
) -> Response:
    order, audience = create_order(draft, files, caller, container, unit_of_work)
    content = serialize_send(
        request,
        container,
        order,
        recipients=[serialize_inline_recipient(person) for person in audience.people],
        sub_account=read_sub_account(unit_of_work.tx, order.sub_account_id),
    )
    return json_response(
        content,
        headers=build_warning_header([*draft.readiness_gaps, *order.warnings, *list_stock_warnings(draft, audience)]),
    )


def preview_response(
    request: Request,
    draft: OrderDraft,
    caller: Caller,
    container: Container,
    unit_of_work: UnitOfWork,
    *,
    extra_data: Mapping[str, Any] | None = None,
) -> Response:
    """Draw the piece and answer with links to the pictures; `extra_data` is in the data as well."""
    now = container.clock()
    preview = previews.draw_preview(
        container.db,
        container.renderer,
        caller,
        draft,
        qr_base=container.production.qr_base,
        opt_out=container.production.opt_out,
        now=now,
    )
    images = preview.sides if preview.envelope is None else preview.sides | {ENVELOPE_KEY: preview.envelope}
    stored = previews.store_previews(container.storage, images, now=now)
    previews.record_previews(unit_of_work.tx, container.storage, caller, draft, stored, now=now)
    links = {
        name: base_url(request) + container.storage.signed_path(file.id, expires_at=now + previews.PREVIEW_LIFETIME)
        for name, file in stored.items()
    }
    data: dict[str, Any] = {
        "previews": [links[name] for name in preview.sides],
        "sides": list(preview.sides),
        "warnings": [*draft.readiness_gaps, *draft.warnings],
    }
    if preview.envelope is not None:
        data["envelope"] = links[ENVELOPE_KEY]
    content = {"success": True, "code": 200, "message": "OK", "data": data | dict(extra_data or {})}
    return json_response(content, headers=build_warning_header(data["warnings"]))


ENVELOPE_KEY = "an envelope"
"""No side of a piece has this name."""
