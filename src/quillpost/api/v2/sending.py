"""From a body to a draft, and from a draft to an answer: what sends, estimates and stored sends share."""

from collections.abc import Mapping
from typing import Any

from fastapi import Request, Response

from quillpost.accounts.rules import Caller
from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import read_sub_account
from quillpost.api.answers import answer
from quillpost.api.needs import Unit
from quillpost.api.v2.send_body import SendBody
from quillpost.api.v2.shapes import base_of, inline_shape, send_shape
from quillpost.orders import previewing, sending
from quillpost.orders.calls import Faults
from quillpost.orders.examining import examine_wish
from quillpost.orders.pieces import Piece
from quillpost.orders.preparing import Draft, prepare
from quillpost.orders.resolving import Resolved, resolve
from quillpost.orders.sending import Files
from quillpost.parts import Parts


def draft_of(piece: Piece, body: SendBody, who: Caller, parts: Parts) -> Draft:
    """The body's wish, checked in every respect; nothing is stored and no transaction stays open."""
    now = parts.clock()
    call, faults = body.call(piece, parts.limits, now=now)
    with parts.db.transaction(tenant(who)) as tx:
        resolved = resolve(tx, who, call, faults, on=now.date())
    return draft_resolved(resolved, faults, who, parts)


def draft_resolved(resolved: Resolved, faults: Faults, who: Caller, parts: Parts) -> Draft:
    """What is looked up already, checked in every other respect."""
    wish, people = examine_wish(
        resolved.wish, styles=parts.studio.hands.styles, check_url=parts.check_url, known_faults=faults
    )
    return prepare(
        resolved,
        wish,
        people,
        who=who,
        studio=parts.studio,
        fetcher=parts.fetcher,
        store=parts.shelf.store,
        indicia=parts.worlds[who.mode].indicia[wish.mail_class],
    )


def carry_out(request: Request, draft: Draft, who: Caller, parts: Parts, unit: Unit) -> Response:
    """Place the order and answer with it."""
    return place(request, draft, keep_files(draft, who, parts), who, parts, unit)


def keep_files(draft: Draft, who: Caller, parts: Parts) -> Files:
    """The first half, before anything is locked: storage may be far away."""
    return sending.keep_files(parts.db, parts.shelf, who, draft, now=parts.clock())


def place(request: Request, draft: Draft, files: Files, who: Caller, parts: Parts, unit: Unit) -> Response:
    """The second half, in the request's transaction."""
    world = parts.worlds[who.mode]
    order, found = sending.place(
        unit.tx,
        who,
        parts.shelf,
        draft,
        files,
        review=world.review,
        needs_credit=world.needs_credit,
        now=parts.clock(),
    )
    shown = send_shape(
        request,
        parts,
        order,
        recipients=[inline_shape(person) for person in found.people],
        sub_account=read_sub_account(unit.tx, order.sub_account_id),
    )
    return answer(shown, headers=warning_header(order.warnings))


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
    drawn = previewing.draw(parts.db, parts.studio, who, draft, qr_base=parts.press.qr_base, now=now)
    pictures = drawn.sides if drawn.envelope is None else drawn.sides | {ENVELOPE: drawn.envelope}
    kept = previewing.keep_previews(parts.shelf, pictures, now=now)
    previewing.record_previews(unit.tx, parts.shelf, who, draft, kept, now=now)
    links = {
        name: base_of(request) + parts.shelf.path(file.id, expires=now + previewing.PREVIEWS_LAST)
        for name, file in kept.items()
    }
    data: dict[str, Any] = {
        "previews": [links[name] for name in drawn.sides],
        "sides": list(drawn.sides),
    }
    if drawn.envelope is not None:
        data["envelope"] = links[ENVELOPE]
    shown = {"success": True, "code": 200, "message": "OK", "data": data | dict(more or {})}
    return answer(shown, headers=warning_header(draft.warnings))


ENVELOPE = "an envelope"
"""No side of a piece has this name."""


def warning_header(warnings: list[str]) -> dict[str, str]:
    return {"X-Warnings": "; ".join(warnings)} if warnings else {}
