"""From a body to a draft, and from a draft to a response: what sends, estimates, previews and stored sends share."""

from collections.abc import Mapping
from typing import Any

from fastapi import Request, Response

from quillpost.accounts.models import Caller
from quillpost.accounts.sub_accounts.queries import read_sub_account
from quillpost.app.container import Container
from quillpost.client import send as wire
from quillpost.client.mailing_lists import RadiusPreview, RadiusPreviewData
from quillpost.orders import service as order_service
from quillpost.orders.drafts import previews
from quillpost.orders.drafts import service as draft_service
from quillpost.orders.drafts.models import OrderDraft
from quillpost.orders.drafts.previews import PREVIEW_LIFETIME
from quillpost.orders.drafts.service import OrderEstimate
from quillpost.orders.products import Product
from quillpost.orders.service import OrderFiles
from quillpost.web.api.orders.responses import serialize_send
from quillpost.web.api.responses import build_warning_header, json_response
from quillpost.web.api.send.requests import SendBody
from quillpost.web.dependencies import UnitOfWork, base_url


def draft_from_body(product: Product, body: SendBody, caller: Caller, container: Container) -> OrderDraft:
    """The body's order, checked in every respect."""
    request, errors = body.to_order_request(product, container.limits, now=container.clock())
    return draft_service.draft_order(container.orders, caller, request, errors)


def estimate_response(draft: OrderDraft, caller: Caller, container: Container) -> Response:
    estimate = draft_service.estimate_order(container.orders, caller, draft)
    warnings = list_estimate_warnings(estimate, caller, container)
    audience = estimate.audience
    data: wire.EstimateData = {
        "type": estimate.type,
        "total_recipients": audience.mailed_items,
        "suppressed": audience.suppressed,
        "duplicates": audience.duplicates,
        "undeliverable": audience.undeliverable,
        "unit_price": estimate.unit_price,
        "leads_fee": estimate.leads_fee,
        "giftcard_total": audience.gift_total,
        "authorization_total": estimate.total_cents,
        "test_mode": caller.is_testing,
        "warnings": warnings,
    }
    content = wire.EstimateResponse(message="OK", data=data)
    return json_response(content, headers=build_warning_header(warnings))


def list_estimate_warnings(estimate: OrderEstimate, caller: Caller, container: Container) -> list[str]:
    return [*estimate.warnings, *draft_service.list_credit_warnings(container.orders, caller, estimate.total_cents)]


def count_response(draft: OrderDraft, caller: Caller, container: Container) -> Response:
    assert draft.lead_search_result is not None
    estimate = draft_service.estimate_order(container.orders, caller, draft)
    data: RadiusPreviewData = {
        "count": len(draft.lead_search_result.people),
        "leads_fee": estimate.leads_fee,
        "unit_price": estimate.unit_price,
        "estimated_total": estimate.total_cents,
        "warnings": estimate.warnings,
    }
    content = RadiusPreview(success=True, code=200, message="OK", data=data)
    return json_response(content, headers=build_warning_header(estimate.warnings))


def create_and_respond(
    request: Request,
    draft: OrderDraft,
    caller: Caller,
    container: Container,
    unit_of_work: UnitOfWork,
    *,
    files: OrderFiles | None = None,
) -> Response:
    """Create the order and answer with it; its `files` may be in storage already."""
    context = container.orders
    files = files or order_service.store_files(context, caller, draft)
    order, audience = order_service.create_order(context, unit_of_work.tx, caller, draft, files)
    content = serialize_send(
        request,
        container,
        order,
        people=audience.people,
        sub_account=read_sub_account(unit_of_work.tx, order.sub_account_id),
    )
    warnings = [*draft.pause_warnings, *order.warnings, *draft_service.list_stock_warnings(draft, audience)]
    return json_response(content, headers=build_warning_header(warnings))


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
    preview = previews.preview_order(container.orders, caller, draft)
    previews.record_preview(container.orders, unit_of_work.tx, caller, draft, preview)
    expires_at = container.clock() + PREVIEW_LIFETIME
    urls = {
        file.id: base_url(request) + container.storage.signed_path(file.id, expires_at=expires_at)
        for file in preview.files
    }
    data: wire.PreviewData = {
        "previews": [urls[file.id] for file in preview.sides.values()],
        "sides": list(preview.sides),
        "warnings": preview.warnings,
    }
    if preview.envelope is not None:
        data["envelope"] = urls[preview.envelope.id]
    content = {"success": True, "code": 200, "message": "OK", "data": {**data, **(extra_data or {})}}
    return json_response(content, headers=build_warning_header(preview.warnings))
