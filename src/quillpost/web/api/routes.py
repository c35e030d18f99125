"""How every v2 endpoint is run: the body understood first, then once per idempotency key."""

from collections.abc import Callable, Coroutine
from operator import attrgetter
from typing import Any, get_args

from anyio import CancelScope
from fastapi import Request, Response, params
from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from quillpost.accounts.service import tenant
from quillpost.core.errors import QuillpostError
from quillpost.web.api import idempotency
from quillpost.web.api.bodies import Body
from quillpost.web.api.dependencies import Unit, caller_of, parts_of
from quillpost.web.api.errors import WrongBody, answer_to
from quillpost.web.api.requests import Reading, ReadRequest, essence, understand
from quillpost.web.api.responses import name_ignored
from quillpost.web.api.uploads import upload_of

ANSWERED = (QuillpostError, RequestValidationError, HTTPException, WrongBody)

PREFIX = "/api/v2"

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class V2Route(APIRoute):
    """A route whose operationId is the name of its function, or what it was told where one serves many."""

    takes_files = False

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how | {"generate_unique_id_function": attrgetter("name")})

    def get_route_handler(self) -> Handler:
        answer, body, known = super().get_route_handler(), self._body(), self._query_names()

        async def run(request: Request) -> Response:
            request.state.ignored = _unknown_in_query(request, known)
            understood = await understand(request, self._reading(request, body))
            if isinstance(understood, ReadRequest):
                request.state.ignored |= understood.ignored
            return name_ignored(await answer(understood), request.state.ignored)

        async def handle(request: Request) -> Response:
            key = request.headers.get("idempotency-key")
            if key is None or request.method != "POST":
                return _public(await run(request))
            return _public(await _once(run, request, key))

        return handle

    def _reading(self, request: Request, body: type[Body] | None) -> Reading:
        limits = parts_of(request).limits
        return Reading(
            body,
            takes_files=self.takes_files,
            bounds=limits.bounds,
            most_rows=limits.inline_recipients,
            turns=request.app.state.turns,
            who=caller_of(request).account_id,
        )

    def _body(self) -> type[Body] | None:
        """Who reads what a caller sends here, if anything is read."""
        if self.body_field is None:
            return None
        kind = self.body_field.field_info.annotation
        return next(
            (each for each in (kind, *get_args(kind)) if isinstance(each, type) and issubclass(each, Body)),
            None,
        )

    def _query_names(self) -> frozenset[str]:
        """What this route reads out of a query string, by the names on the wire; `metadata[` begins those of
        an object, which is spread over several."""
        taken = get_flat_params(self.dependant)
        read = (each.alias for each in taken if isinstance(each.field_info, params.Query))
        described = (self.openapi_extra or {}).get("parameters", ())
        objects = (f"{each['name']}[" for each in described if each.get("style") == "deepObject")
        return frozenset((*read, *objects))


class UploadRoute(V2Route):
    """A route whose body may also be a form with files."""

    takes_files = True


def _unknown_in_query(request: Request, known: frozenset[str]) -> set[str]:
    """Parameters of the call that change nothing: whoever misspells a filter is answered with everybody."""
    return {
        name
        for name in request.query_params
        if name not in known and "".join(name.partition("[")[:2]) not in known
    }


async def _once(run: Handler, request: Request, key: str) -> Response:
    """The first call's answer, whether this is the first call or not."""
    parts, who = parts_of(request), caller_of(request)
    upload = upload_of(request)
    said = await essence(request) if upload is None else await run_in_threadpool(upload.essence)
    claim = await run_in_threadpool(idempotency.make_claim, who, request.url.path, key, said)
    hold = idempotency.Hold(parts.db, claim)
    try:
        earlier = await run_in_threadpool(hold.take, parts.sealer, now=parts.clock())
        return earlier if earlier is not None else await _first(run, request, claim, hold)
    finally:
        if hold.is_held:
            with CancelScope(shield=True):  # a caller who has left must not take the key along
                await run_in_threadpool(hold.end)


async def _first(
    run: Handler, request: Request, claim: idempotency.Claim, hold: idempotency.Hold
) -> Response:
    try:
        response = await run(request)
        await run_in_threadpool(_settle, request, claim, response, hold)
    except BaseException as failure:
        with CancelScope(shield=True):
            await run_in_threadpool(_refuse, request, claim, failure)
        raise
    return response


def _unit_of(request: Request) -> Unit | None:
    """The transaction that the endpoint asked for, if it did."""
    return getattr(request.state, "unit", None)


def _settle(request: Request, claim: idempotency.Claim, response: Response, hold: idempotency.Hold) -> None:
    """Keep the answer in the transaction that had the effect, or on its own where there was none. The key is
    free when that is committed."""
    unit = _unit_of(request)
    if unit is None:
        _keep(request, claim, response)
    else:
        if idempotency.is_kept(response.status_code):
            parts = parts_of(request)
            idempotency.keep(unit.tx, parts.sealer, claim, response, now=parts.clock())
        unit.commit()
    hold.end()


def _refuse(request: Request, claim: idempotency.Claim, failure: BaseException) -> None:
    """What came to nothing has no effect. A refusal is kept, as any answer; a failure of ours is not."""
    unit = _unit_of(request)
    if unit is not None:
        unit.abandon(failure)
    if isinstance(failure, ANSWERED):
        _keep(request, claim, answer_to(request, failure))


def _keep(request: Request, claim: idempotency.Claim, response: Response) -> None:
    parts = parts_of(request)
    if idempotency.is_kept(response.status_code):
        with parts.db.transaction(tenant(claim.who)) as tx:
            idempotency.keep(tx, parts.sealer, claim, response, now=parts.clock())


def _public(response: Response) -> Response:
    if idempotency.HOLDS_SECRET in response.headers:
        del response.headers[idempotency.HOLDS_SECRET]
        response.headers["Cache-Control"] = "no-store"
    return response
