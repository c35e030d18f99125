"""Calls, declared once as functions from typed arguments to a `Request`, for the blocking and the awaited client."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import wraps
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

from quillpost.client.responses import AsyncPages, Pages
from quillpost.client.types import Files, Id

P = ParamSpec("P")
T = TypeVar("T")
Kind = TypeVar("Kind")


class Sync:
    """Of a resource: its methods return answers."""


class Async:
    """Of a resource: its methods are awaited."""


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    is_file: bool = False
    """The answer is a file, given as bytes."""


class Request(Generic[T]):
    """What one call says: the ids in its path, its query, its body. `T` is what it is answered with."""

    __slots__ = ("body", "files", "idempotency_key", "ids", "query")

    def __init__(
        self,
        *ids: Id,
        query: Mapping[str, Any] | None = None,
        body: object = None,
        files: Files | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        self.ids = ids
        self.query = query
        self.body = body
        self.files = files
        self.idempotency_key = idempotency_key


class Wire(Protocol):
    """Carries calls out: at once, or when awaited."""

    def run(self, route: Route, request: Request[Any]) -> Any: ...

    def pages(self, route: Route, request: Request[Any]) -> Any: ...


class Resource(Generic[Kind]):
    def __init__(self, wire: Wire) -> None:
        self._wire = wire


Declared = Callable[Concatenate[Any, P], Request[T]]


class _Method(Generic[P, T]):
    def __init__(self, route: Route, declared: Declared[P, T]) -> None:
        self.route = route
        self.declared = declared

    def _bind(self, resource: Resource[Any] | None, send: Callable[[Wire], Callable[[Route, Request[T]], Any]]) -> Any:
        @wraps(self.declared)
        def call(resource: Resource[Any], *args: P.args, **fields: P.kwargs) -> Any:
            return send(resource._wire)(self.route, self.declared(resource, *args, **fields))

        return self if resource is None else MethodType(call, resource)


class Operation(_Method[P, T]):
    """One call of the API, as a method of its resource."""

    @overload
    def __get__(self, resource: None, kind: type) -> Self: ...
    @overload
    def __get__(self, resource: Resource[Sync], kind: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, resource: Resource[Async], kind: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, resource: Resource[Any] | None, kind: type) -> Any:
        return self._bind(resource, lambda wire: wire.run)


class Listing(_Method[P, T]):
    """A list that comes in pages, as a method that gives its rows one after the other."""

    @overload
    def __get__(self, resource: None, kind: type) -> Self: ...
    @overload
    def __get__(self, resource: Resource[Sync], kind: type) -> Callable[P, Pages[T]]: ...
    @overload
    def __get__(self, resource: Resource[Async], kind: type) -> Callable[P, AsyncPages[T]]: ...
    def __get__(self, resource: Resource[Any] | None, kind: type) -> Any:
        return self._bind(resource, lambda wire: wire.pages)


def operation(route: str, *, is_file: bool = False) -> Callable[[Declared[P, T]], Operation[P, T]]:
    """Declares `"GET /orders/{order_id}"`: the ids of the `Request` take the places in the path, in order."""
    method, path = route.split()
    return lambda declared: Operation(Route(method, path, is_file), declared)


def listing(path: str) -> Callable[[Declared[P, T]], Listing[P, T]]:
    return lambda declared: Listing(Route("GET", path), declared)
