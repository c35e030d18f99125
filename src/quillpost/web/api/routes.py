"""How every v2 endpoint is run: the body understood first, then once per idempotency key."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from operator import attrgetter
from typing import Any, TypeVar, get_args

from anyio import CancelScope
from fastapi import APIRouter, Depends, Request, Response, params
from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from quillpost.accounts.service import build_tenant
from quillpost.core.errors import QuillpostError
from quillpost.web.api import idempotency
from quillpost.web.api.dependencies import RequireCaller, get_caller, require_scope
from quillpost.web.api.errors import BODY_ERRORS, UnreadableBody, error_responses, respond_to_error
from quillpost.web.api.imports.files import get_upload
from quillpost.web.api.requests import BodyReadOptions, ParsedRequest, get_digest_body, parse_request
from quillpost.web.api.responses import add_ignored_header
from quillpost.web.api.schemas import Body
from quillpost.web.dependencies import UnitOfWork, get_container

STORED_ERRORS = (QuillpostError, RequestValidationError, HTTPException, UnreadableBody)

PREFIX = "/api/v2"
READ_METHODS = ("GET", "HEAD")

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class V2Route(APIRoute):
    """A route whose operationId is the name of its function, or the one given where a function serves many."""

    takes_files = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options | {"generate_unique_id_function": attrgetter("name")})
        self.responses = dict(sorted((self.responses | error_responses(*self._parameter_errors())).items()))

    def _parameter_errors(self) -> set[int]:
        """The statuses with which an operation refuses its path, its query and its body."""
        query_names = self._query_parameter_names()
        errors = {404} if self.param_convertors else set()
        if query_names:
            errors.add(422)
        if "sub_account_id" in query_names:
            errors.add(400)
        return errors if self.body_field is None else errors.union(BODY_ERRORS)

    def get_route_handler(self) -> Handler:
        call_endpoint, body_type, known_names = (
            super().get_route_handler(),
            self._body_type(),
            self._query_parameter_names(),
        )

        async def run(request: Request) -> Response:
            request.state.ignored_fields = _find_unknown_parameters(request, known_names)
            parsed = await parse_request(request, self._read_options(request, body_type))
            if isinstance(parsed, ParsedRequest):
                request.state.ignored_fields |= parsed.ignored_fields
            response = await call_endpoint(parsed)
            if request.state.ignored_fields:
                add_ignored_header(response, request.state.ignored_fields)
            return response

        async def handle(request: Request) -> Response:
            key = request.headers.get("idempotency-key")
            is_once = key is not None and request.method == "POST"
            response = await (_run_once(run, request, str(key)) if is_once else run(request))
            if idempotency.HOLDS_SECRET_HEADER in response.headers:
                del response.headers[idempotency.HOLDS_SECRET_HEADER]
                response.headers["Cache-Control"] = "no-store"
            return response

        return handle

    def _read_options(self, request: Request, body_type: type[Body] | None) -> BodyReadOptions:
        limits = get_container(request).limits
        return BodyReadOptions(
            body_type,
            takes_files=self.takes_files,
            bounds=limits.bounds,
            max_rows=limits.inline_recipients,
            queue=request.app.state.body_queue,
            queue_key=get_caller(request).account_id,
        )

    def _body_type(self) -> type[Body] | None:
        if self.body_field is None:
            return None
        annotation = self.body_field.field_info.annotation
        return next(
            (
                candidate
                for candidate in (annotation, *get_args(annotation))
                if isinstance(candidate, type) and issubclass(candidate, Body)
            ),
            None,
        )

    def _query_parameter_names(self) -> frozenset[str]:
        """By their names on the wire; `metadata[` stands for all parameters of an object."""
        parameters = get_flat_params(self.dependant)
        query_names = (parameter.alias for parameter in parameters if isinstance(parameter.field_info, params.Query))
        extra_parameters = (self.openapi_extra or {}).get("parameters", ())
        object_prefixes = (
            f"{parameter['name']}[" for parameter in extra_parameters if parameter.get("style") == "deepObject"
        )
        return frozenset((*query_names, *object_prefixes))


class UploadRoute(V2Route):
    """A route whose body may also be a form with files."""

    takes_files = True


Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


Authorize = Callable[[str], RequireCaller]


class ApiRouter:
    """The operations of one tag.

    A GET needs the scope `<resource>:read` and all else `<resource>:write`, unless an operation names its own
    `scope`; it is checked before anything else. `errors` are statuses beside those that each operation of its
    parameters has.
    """

    def __init__(
        self,
        tag: str,
        *,
        resource: str | None = None,
        authorize: Authorize = require_scope,
        route_class: type[V2Route] = V2Route,
    ) -> None:
        self._router = APIRouter(prefix=PREFIX, route_class=route_class, tags=[tag])
        self._resource = resource
        self._authorize = authorize
        self.routes = self._router.routes

    def add(
        self,
        method: str,
        path: str,
        response_model: Any = None,
        *,
        errors: Iterable[int] = (),
        scope: str | None = None,
        authorize: Authorize | None = None,
        **options: Any,
    ) -> Callable[[Endpoint], Endpoint]:
        if self._resource is not None:
            scope = scope or f"{self._resource}:{'read' if method in READ_METHODS else 'write'}"
            options["dependencies"] = [Depends((authorize or self._authorize)(scope))]
        responses = options.pop("responses", {}) | error_responses(*errors)
        return self._router.api_route(
            path, methods=[method], response_model=response_model, responses=responses, **options
        )

    def get(self, path: str, response_model: Any = None, **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self.add("GET", path, response_model, **options)

    def get_file(
        self, path: str, description: str, content: Mapping[str, Any], **options: Any
    ) -> Callable[[Endpoint], Endpoint]:
        """A GET that is answered with a file; `content` describes it by its media type."""
        responses = {200: {"description": description, "content": content}}
        return self.get(path, response_class=Response, responses=responses, **options)

    def post(self, path: str, response_model: Any = None, **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self.add("POST", path, response_model, **options)

    def put(self, path: str, response_model: Any = None, **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self.add("PUT", path, response_model, **options)

    def delete(self, path: str, response_model: Any = None, **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self.add("DELETE", path, response_model, **options)

    def head(self, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self.add("HEAD", path, include_in_schema=False, **options)


def _find_unknown_parameters(request: Request, known_names: frozenset[str]) -> set[str]:
    """Parameters of the call that change nothing: with a misspelled filter the response has every row."""
    return {
        name
        for name in request.query_params
        if name not in known_names and "".join(name.partition("[")[:2]) not in known_names
    }


async def _run_once(run: Handler, request: Request, key: str) -> Response:
    """The first call's answer, whether this is the first call or not."""
    container, caller = get_container(request), get_caller(request)
    upload = get_upload(request)
    digest_body = await get_digest_body(request) if upload is None else await run_in_threadpool(upload.get_digest_body)
    claim = await run_in_threadpool(idempotency.create_claim, caller, request.url.path, key, digest_body)
    lock = idempotency.IdempotencyLock(container.db, claim)
    try:
        stored_response = await run_in_threadpool(lock.acquire, container.encryptor, now=container.clock())
        return stored_response if stored_response is not None else await _run_first(run, request, claim, lock)
    finally:
        if lock.is_held:
            with CancelScope(shield=True):  # a caller who has left must not take the key along
                await run_in_threadpool(lock.release)


async def _run_first(
    run: Handler, request: Request, claim: idempotency.IdempotencyClaim, lock: idempotency.IdempotencyLock
) -> Response:
    try:
        response = await run(request)
        await run_in_threadpool(_complete, request, claim, response, lock)
    except BaseException as error:
        with CancelScope(shield=True):
            await run_in_threadpool(_roll_back, request, claim, error)
        raise
    return response


def _get_unit_of_work(request: Request) -> UnitOfWork | None:
    return getattr(request.state, "unit_of_work", None)


def _complete(
    request: Request, claim: idempotency.IdempotencyClaim, response: Response, lock: idempotency.IdempotencyLock
) -> None:
    """Store the answer in the transaction that had the effect, if there was one; then the key is free."""
    unit = _get_unit_of_work(request)
    if unit is None:
        _store_response(request, claim, response)
    else:
        if idempotency.is_stored(response.status_code):
            container = get_container(request)
            idempotency.store_response(unit.tx, container.encryptor, claim, response, now=container.clock())
        unit.commit()
    lock.release()


def _roll_back(request: Request, claim: idempotency.IdempotencyClaim, error: BaseException) -> None:
    """What came to nothing has no effect. A refusal is kept, as any answer; a failure of ours is not."""
    unit = _get_unit_of_work(request)
    if unit is not None:
        unit.roll_back(error)
    if isinstance(error, STORED_ERRORS):
        _store_response(request, claim, respond_to_error(request, error))


def _store_response(request: Request, claim: idempotency.IdempotencyClaim, response: Response) -> None:
    container = get_container(request)
    if idempotency.is_stored(response.status_code):
        with container.db.transaction(build_tenant(claim.caller)) as tx:
            idempotency.store_response(tx, container.encryptor, claim, response, now=container.clock())
