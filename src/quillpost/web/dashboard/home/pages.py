"""The home page of visitors and of users, and the page for unknown paths."""

from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa
from fastapi import APIRouter, FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

from quillpost.accounts.users.sessions import SignedInUser
from quillpost.app.container import Container
from quillpost.core.database import Tx
from quillpost.core.database.tables.notifications import webhooks
from quillpost.core.errors import NotFound, Unavailable
from quillpost.core.paging import PageRequest
from quillpost.orders.queries import OrderQuery, list_orders, read_daily_activity
from quillpost.web.api.errors import respond_to_error
from quillpost.web.dashboard.home.queries import (
    OtherMode,
    SenderAlert,
    find_in_other_mode,
    has_return_address,
    list_alerts,
    list_first_steps,
)
from quillpost.web.dashboard.orders.labels import count_by_status, item_count_label, product_label
from quillpost.web.dashboard.responses import PathId, RequestContext, UserContext
from quillpost.web.dependencies import Services
from quillpost.web.rendering import render_page
from quillpost.web.security import is_local_visitor
from quillpost.web.sessions import OptionalUser, find_user_if_available, is_for_browser, is_fragment

router = APIRouter(include_in_schema=False)

GONE_MESSAGE = "What this was about is gone. Load the page again."
PERIODS: Final = (7, 30, 90)
DEFAULT_PERIOD = 30
RECENT_ORDERS_PAGE = PageRequest(page=1, per_page=5)
LIVE_FRAGMENTS: Final[Mapping[str, str]] = {
    "needs": "home/alerts.html",
    "steps": "home/steps.html",
    "figures": "home/figures.html",
    "days": "home/days.html",
    "recent": "home/recent.html",
}


@router.get("/")
def home_page(request: Request, container: Services, user: OptionalUser, days: str = "") -> Response:
    has_receiver, receiver_path = _receiver_access(request, container, user)
    if user is None:
        return render_page(request, "home/welcome.html", has_receiver=has_receiver, receiver_path=receiver_path)
    context, period = RequestContext(request, user, container), _parse_period(days)
    return context.render(
        "home/page.html",
        periods=PERIODS,
        has_receiver=has_receiver,
        receiver_path=receiver_path,
        **_read_live_values(context, period),
    )


@router.get("/home/{account_id}/live")
def stream_home(context: UserContext, account_id: PathId, days: str = "") -> Response:
    """The page names its account: a user who has switched to another one sees nothing of that here."""
    if account_id != context.account_id:
        raise NotFound
    period = _parse_period(days)
    return context.stream(
        ("account", account_id), LIVE_FRAGMENTS, lambda: {"user": context.user, **_read_live_values(context, period)}
    )


def _read_live_values(context: RequestContext, period: int) -> dict[str, Any]:
    user, tenant, now = context.user, context.tenant, context.now()
    with context.account_transaction() as tx:
        steps = list_first_steps(tx, user)
    with context.transaction() as tx:
        return {
            "period": period,
            "steps": steps,
            "activity": read_daily_activity(tx, tenant, days=period, zone=context.zone, now=now),
            "recent_orders": list_orders(context.container.db, tx, tenant, RECENT_ORDERS_PAGE, OrderQuery()),
            "count_by_status": count_by_status,
            "product_label": product_label,
            "item_count_label": item_count_label,
            "alerts": [*list_alerts(tx, user, context.container, now=now), *_return_address_alerts(tx, user)],
            "now": now,
        }


def _return_address_alerts(tx: Tx, user: SignedInUser) -> list[SenderAlert]:
    """Live mail needs one. In test mode the first steps say so."""
    if user.mode != "live" or has_return_address(tx, user):
        return []
    text = "No real mail can be sent without one."
    if user.is_owner:
        return [SenderAlert("There is no return address", text, "/settings/account", "Set the address")]
    return [SenderAlert("There is no return address", f"{text} Ask an owner of the account to set it.", "", "")]


def _parse_period(days: str) -> int:
    return int(days) if days in {str(period) for period in PERIODS} else DEFAULT_PERIOD


def _receiver_access(request: Request, container: Container, user: SignedInUser | None) -> tuple[bool, str | None]:
    """Whether the built-in receiver gets this account's events, and its URL if the user may know it: it is a key."""
    key = container.receiver_key
    is_visible = key is not None and (user is None or _is_receiver_of(user, container))
    can_see_path = is_visible and is_local_visitor(request)
    return is_visible, f"/receiver/{key}" if can_see_path else None


def add_not_found_page(app: FastAPI) -> None:
    """A page for people; JSON for programs and API callers."""

    async def handle_not_found(request: Request, error: Exception) -> Response:
        if not is_for_browser(request):
            return respond_to_error(request, error)
        user = await find_user_if_available(request)
        if is_fragment(request):
            return render_page(request, "error_fragment.html", user=user, status=404, message=GONE_MESSAGE)
        other_mode = await _find_in_other_mode(request, user)
        if other_mode is not None:
            return render_page(request, "other_mode.html", user=user, other_mode=other_mode)
        return render_page(request, "not_found.html", user=user, status=404)

    app.add_exception_handler(NotFound, handle_not_found)
    app.add_exception_handler(404, handle_not_found)


async def _find_in_other_mode(request: Request, user: SignedInUser | None) -> OtherMode | None:
    if user is None or request.method not in ("GET", "HEAD"):
        return None
    try:
        return await run_in_threadpool(find_in_other_mode, request.app.state.container.db, user, request.url.path)
    except Unavailable:
        return None


def _is_receiver_of(user: SignedInUser, container: Container) -> bool:
    """Whether it gets this account's events and the user is an owner: it shows the test events of all accounts."""
    if not user.is_owner:
        return False
    is_receiver_url = sa.or_(
        *(webhooks.c.url.endswith(f"/receiver/{key}/hook", autoescape=True) for key in container.receiver_keys)
    )
    with container.db.transaction(user.tenant) as tx:
        is_own_account = webhooks.c.account_id == user.here.account_id
        return tx.execute(sa.select(webhooks.c.id).where(is_receiver_url, is_own_account).limit(1)).first() is not None
