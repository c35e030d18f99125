"""From a body to a draft, and from a draft to an answer: what sends, estimates and stored sends share."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastapi import Request, Response

from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import read_sub_account
from quillpost.app.container import Parts
from quillpost.fulfillment import giftcard_stock
from quillpost.fulfillment.readiness import pause_warning, service_gaps
from quillpost.orders import previews
from quillpost.orders import service as order_service
from quillpost.orders.drafts import Draft, prepare
from quillpost.orders.materialization import longest_among
from quillpost.orders.models import API, Order, Wish
from quillpost.orders.products import Piece
from quillpost.orders.request import Resolved, resolve
from quillpost.orders.requests import Faults
from quillpost.orders.service import Audience, Files
from quillpost.orders.validation import examine_wish
from quillpost.recipients.leads.search import Find, PassedOver, find
from quillpost.recipients.rules import Person
from quillpost.rendering.text.variables import compile_text
from quillpost.web.api.dependencies import Unit
from quillpost.web.api.orders.responses import base_of, inline_shape, send_shape
from quillpost.web.api.responses import answer, warning_header
from quillpost.web.api.send.requests import SendBody


def draft_of(piece: Piece, body: SendBody, who: Caller, parts: Parts, *, method: str = API) -> Draft:
    """The body's wish, checked in every respect; nothing is stored and no transaction stays open. `method` is
    how its order says that it came about."""
    now = parts.clock()
    call, faults = body.call(piece, parts.limits, now=now)
    with parts.db.transaction(tenant(who)) as tx:
        resolved = resolve(tx, who, call, faults, on=now.date())
    resolved = replace(resolved, wish=replace(resolved.wish, method=method))
    return draft_resolved(resolved, faults, who, parts)


def draft_resolved(resolved: Resolved, faults: Faults, who: Caller, parts: Parts) -> Draft:
    """What is looked up already, checked in every other respect."""
    wish, people = examine_wish(
        resolved.wish, styles=parts.studio.hands.styles, check_url=parts.check_url, known_faults=faults
    )
    found = _found(wish, who, parts)
    draft = _prepared(resolved, wish, people, found, who, parts)
    draft = replace(draft, not_ready=_not_ready(who, parts))
    if wish.gift is not None:
        draft = replace(draft, cards_left=giftcard_stock.left_for(parts.press, who.mode, wish.gift))
    if found is None:
        return draft
    # Which creative it is, is known when its pictures are at hand; it is rare that somebody had it just now.
    mails_at = order_service.due_at(draft, review=parts.worlds[who.mode].review, now=parts.clock())
    repeats = order_service.repeats_of(draft, who, mails_at=mails_at)
    with parts.db.transaction(tenant(who)) as tx:
        is_new_to_all = not repeats(tx, found.people)
    if is_new_to_all:
        return draft
    others = _found(wish, who, parts, repeats=repeats)
    again = _prepared(resolved, wish, people, others, who, parts)
    return replace(again, cards_left=draft.cards_left, not_ready=draft.not_ready)


def _not_ready(who: Caller, parts: Parts) -> list[str]:
    """What a sender is told whose live order could not be mailed as the service is set up now."""
    if who.is_testing:
        return []
    with parts.db.transaction(tenant(who)) as tx:
        gaps = service_gaps(tx, parts.worlds[who.mode], on=parts.clock().date())
    return pause_warning(gaps)


def _prepared(
    resolved: Resolved, wish: Wish, people: list[Person], found: Find | None, who: Caller, parts: Parts
) -> Draft:
    if found is not None:
        used = {slot.name for slot in compile_text(wish.message).slots}
        resolved = replace(resolved, longest=longest_among(found.people, used))
    draft = prepare(
        resolved,
        wish,
        people,
        who=who,
        studio=parts.studio,
        fetcher=parts.fetcher,
        store=parts.shelf.store,
        indicia=parts.worlds[who.mode].indicia[wish.mail_class],
    )
    return replace(draft, found=found)


def _found(wish: Wish, who: Caller, parts: Parts, *, repeats: PassedOver | None = None) -> Find | None:
    """Those around the address that the wish searches around, if it does."""
    if wish.radius is None:
        return None
    return find(
        parts.db,
        parts.leads[who.mode],
        who,
        wish.radius,
        home=wish.sub_account_id,
        repeats=repeats,
        prefix=f"{wish.radius.field}.",
        now=parts.clock(),
    )


def estimate(draft: Draft, who: Caller, parts: Parts) -> tuple[Audience, int]:
    """Whom it would reach, and what a piece costs: all have that in common, or come to it on the average."""
    mails_at = order_service.due_at(draft, review=parts.worlds[who.mode].review, now=parts.clock())
    with parts.db.transaction(tenant(who)) as tx:
        reached = order_service.reach(tx, who, draft, mails_at=mails_at, lock=False)
    home_price = draft.tariff.unit_cents("US") or 0
    return reached, round(reached.cents / reached.pieces) if reached.pieces else home_price


def count(draft: Draft, who: Caller, parts: Parts) -> Response:
    """How many a radius search has found, and what it would cost to mail to them."""
    assert draft.found is not None
    reached, unit_price = estimate(draft, who, parts)
    warnings = warnings_of(draft, reached)
    data = {
        "count": len(draft.found.people),
        "leads_fee": draft.found.cents,
        "unit_price": unit_price,
        "estimated_total": reached.cents + draft.found.cents + reached.gift_total,
        "warnings": warnings,
    }
    shown = {"success": True, "code": 200, "message": "OK", "data": data}
    return answer(shown, headers=warning_header(warnings))


def warnings_of(draft: Draft, reached: Audience) -> list[str]:
    """All that deserves a look before it is sent: that it would not be mailed yet, its look, whom it reaches,
    and what it brings."""
    return [*draft.not_ready, *draft.warnings, *reached.warnings, *too_few_cards(draft, reached)]


def too_few_cards(draft: Draft, reached: Audience) -> list[str]:
    """What its sender is told of gift cards that are not there. No order keeps it: more may be loaded before
    its review ends, which looks again."""
    gift = draft.wish.gift
    return giftcard_stock.too_few(gift, reached.pieces, draft.cards_left) if gift else []


def carry_out(request: Request, draft: Draft, who: Caller, parts: Parts, unit: Unit) -> Response:
    """Place the order and answer with it."""
    return place_and_show(request, draft, keep_files(draft, who, parts), who, parts, unit)


def keep_files(draft: Draft, who: Caller, parts: Parts) -> Files:
    """The first half, before anything is locked: storage may be far away."""
    return order_service.keep_files(parts.db, parts.shelf, who, draft, now=parts.clock())


def place(draft: Draft, files: Files, who: Caller, parts: Parts, unit: Unit) -> tuple[Order, Audience]:
    """The second half, in the request's transaction."""
    world = parts.worlds[who.mode]
    return order_service.place(
        unit.tx,
        who,
        parts.shelf,
        draft,
        files,
        sealer=parts.sealer,
        review=world.review,
        needs_credit=world.needs_credit,
        now=parts.clock(),
    )


def place_and_show(
    request: Request, draft: Draft, files: Files, who: Caller, parts: Parts, unit: Unit
) -> Response:
    order, found = place(draft, files, who, parts, unit)
    shown = send_shape(
        request,
        parts,
        order,
        recipients=[inline_shape(person) for person in found.people],
        sub_account=read_sub_account(unit.tx, order.sub_account_id),
    )
    return answer(
        shown, headers=warning_header([*draft.not_ready, *order.warnings, *too_few_cards(draft, found)])
    )


def show(
    request: Request,
    draft: Draft,
    who: Caller,
    parts: Parts,
    unit: Unit,
    *,
    more: Mapping[str, Any] | None = None,
) -> Response:
    """Draw the piece and answer with links to the pictures; `more` is in the data as well."""
    now = parts.clock()
    drawn = previews.draw(
        parts.db,
        parts.studio,
        who,
        draft,
        qr_base=parts.press.qr_base,
        opt_out=parts.press.opt_out,
        now=now,
    )
    pictures = drawn.sides if drawn.envelope is None else drawn.sides | {ENVELOPE: drawn.envelope}
    kept = previews.keep_previews(parts.shelf, pictures, now=now)
    previews.record_previews(unit.tx, parts.shelf, who, draft, kept, now=now)
    links = {
        name: base_of(request) + parts.shelf.path(file.id, expires=now + previews.PREVIEWS_LAST)
        for name, file in kept.items()
    }
    data: dict[str, Any] = {
        "previews": [links[name] for name in drawn.sides],
        "sides": list(drawn.sides),
        "warnings": [*draft.not_ready, *draft.warnings],
    }
    if drawn.envelope is not None:
        data["envelope"] = links[ENVELOPE]
    shown = {"success": True, "code": 200, "message": "OK", "data": data | dict(more or {})}
    return answer(shown, headers=warning_header(data["warnings"]))


ENVELOPE = "an envelope"
"""No side of a piece has this name."""
