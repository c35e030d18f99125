"""Sends that are kept under an address and carried out by whoever opens it with the account's token.

The body is checked in every respect twice, when it is stored and when it is sent: what was good may have
changed meanwhile.
"""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Request, Response

from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.core.errors import NotFound
from quillpost.orders import stored
from quillpost.web.api.bodies import read_body
from quillpost.web.api.dependencies import OneUnit, Services
from quillpost.web.api.errors import BODY_ERRORS, errors
from quillpost.web.api.idempotency import HEADERS_KEPT
from quillpost.web.api.orders.responses import base_of
from quillpost.web.api.orders.schemas import Message
from quillpost.web.api.radius.endpoints import RadiusPreview
from quillpost.web.api.requests import ReadRequest, understand_again
from quillpost.web.api.responses import answer, name_ignored, unmeasured, warning_header
from quillpost.web.api.routes import PREFIX, V2Route
from quillpost.web.api.send.endpoints import OFFERS, MaySend, Offer, also, estimate_data, operation_word
from quillpost.web.api.send.requests import SendBody
from quillpost.web.api.send.schemas import PreviewResponse, SendResponse, StoredSend
from quillpost.web.api.send.service import count, draft_of, keep_files, place_and_show, show

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Send"])

StoredId = Annotated[
    str, Path(description="The last part of the stored_send_url.", json_schema_extra={"format": "uuid"})
]

PREFETCH = ("purpose", "sec-purpose", "x-purpose", "x-moz")
"""Headers with which a browser or a chat says that it only looks ahead."""

NOTHING_SENT = {"message": "Nothing was sent: this call only looked ahead. Open the address itself to send."}


def _offer(offer: Offer) -> None:
    piece, read, name = offer.piece, offer.read, offer.piece.paths[0]

    def store(
        request: ReadRequest,
        body: Annotated[SendBody, Depends(read)],
        who: MaySend,
        parts: Services,
        unit: OneUnit,
    ) -> Response:
        draft = draft_of(piece, body, who, parts)
        warnings = estimate_data(draft, who, parts)["warnings"]
        home = draft.wish.sub_account_id
        if home is not None:
            # It may have gone meanwhile; from here on it stays.
            require_sub_account(unit.tx, home)
        kept = stored.store_send(
            unit.tx,
            who,
            piece=name,
            sub_account_id=home,
            body=request.raw.decode("utf-8-sig"),
            now=parts.clock(),
        )
        url = f"{base_of(request)}/api/v2/stored_send/{name}/{kept}"
        shown = answer({"stored_send_url": url}, headers=warning_header(warnings))
        return name_ignored(shown, body.spelled(draft.wish.unused, request.understood))

    def send(request: Request, stored_id: StoredId, who: MaySend, parts: Services, unit: OneUnit) -> Response:
        number = _number(stored_id)
        with parts.db.transaction(tenant(who)) as tx:
            found = stored.read_stored(tx, number, piece=name)
        if any("prefetch" in request.headers.get(header, "").lower() for header in PREFETCH):
            return answer(NOTHING_SENT)
        if found.answer_body is not None:
            return _again(found)
        sent = understand_again(found.body.encode())
        body = read_body(offer.body, sent).model_copy(update={"sub_account_id": found.sub_account_id})
        draft = draft_of(piece, body, who, parts)
        ignored = body.ignored_in(sent) | body.spelled(draft.wish.unused, sent)
        asks_how_many = body.radius_search is not None and body.radius_search.preview
        if asks_how_many or body.preview:
            shown = count(draft, who, parts) if asks_how_many else show(request, draft, who, parts, unit)
            stored.keep_longer(unit.tx, number, now=parts.clock())
            return name_ignored(shown, ignored)
        # Whoever turns out to be the second has put files away for nothing: they are swept up as orphans.
        files = keep_files(draft, who, parts)
        # Two who open it at the same moment take turns here; the second finds the first one's answer.
        found = stored.read_stored(unit.tx, number, piece=name, locked=True)
        if found.answer_body is not None:
            return _again(found)
        done = place_and_show(request, draft, files, who, parts, unit)
        response = name_ignored(done, ignored)
        stored.keep_answer(
            unit.tx,
            number,
            body=bytes(response.body),
            headers={kept: response.headers[kept] for kept in HEADERS_KEPT if kept in response.headers},
            now=parts.clock(),
        )
        return response

    def look(stored_id: StoredId, who: MaySend, parts: Services) -> Response:
        with parts.db.transaction(tenant(who)) as tx:
            stored.read_stored(tx, _number(stored_id), piece=name)
        return unmeasured(answer(NOTHING_SENT))

    for path in piece.paths:
        described, word = path == name, operation_word(path)
        address = f"/stored_send/{path}/{{stored_id}}"
        router.post(
            f"/stored_send/{path}",
            operation_id=f"store_{word}",
            response_model=StoredSend,
            responses=errors(*BODY_ERRORS),
            summary=f"Store a send of {offer.title}",
            description="The body of a send, checked as the send itself is. Whoever opens the address that is"
            " returned, with a token of the same account, sends it: once. It is checked again then."
            f"{also('stored_send', piece)}",
            include_in_schema=described,
        )(store)
        how: dict[str, Any] = {
            "response_model": SendResponse | PreviewResponse | RadiusPreview | Message,
            "responses": errors(402, 404, *BODY_ERRORS),
            "description": "A second call returns the first answer and sends nothing.",
            "include_in_schema": described,
        }
        router.get(
            address, operation_id=f"send_stored_{word}_get", summary=f"Send the stored {piece.name}", **how
        )(send)
        router.post(
            address,
            operation_id=f"send_stored_{word}_post",
            summary=f"Send the stored {piece.name} (POST)",
            **how,
        )(send)
        router.head(address, include_in_schema=False)(look)


for each in OFFERS:
    _offer(each)
# `/stored_send/letter/windowed` is an address of its own, not a stored letter with that id.
router.routes.sort(key=lambda route: "{" in getattr(route, "path", ""))


def _number(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise NotFound from None


def _again(found: stored.StoredSend) -> Response:
    return Response(found.answer_body, headers=found.answer_headers, media_type="application/json")
