"""Which methods a path takes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Self

from fastapi.routing import iter_route_contexts
from starlette.routing import BaseRoute, compile_path

ROUTED = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
KNOWN = frozenset((*ROUTED, "OPTIONS"))


@dataclass(frozen=True, slots=True)
class Paths:
    """A path that is spelled out is no one's id: it hides the patterns that would fit it too, so that
    PUT /orders/list is a wrong method and does not look for an order named "list"."""

    spelled_out: Mapping[str, frozenset[str]]
    patterns: Sequence[tuple[re.Pattern[str], frozenset[str]]]

    @classmethod
    def of(cls, routes: Sequence[BaseRoute]) -> Self:
        taken: dict[str, frozenset[str]] = {}
        for route in iter_route_contexts(routes):
            if route.path is not None:
                taken[route.path] = taken.get(route.path, frozenset()) | (route.methods or frozenset())
        return cls(
            spelled_out={path: methods for path, methods in taken.items() if "{" not in path},
            patterns=[(_pattern(path), methods) for path, methods in taken.items() if "{" in path],
        )

    def taken_at(self, path: str) -> frozenset[str]:
        """The methods that routes declare here."""
        if path in self.spelled_out:
            return self.spelled_out[path]
        return frozenset[str]().union(*(methods for fits, methods in self.patterns if fits.match(path)))

    def allowed_at(self, path: str) -> list[str]:
        """Every method that is answered here, as `Allow` lists them; none where there is nothing."""
        taken = self.taken_at(path)
        if "GET" in taken:
            taken |= {"HEAD"}
        return [*(method for method in ROUTED if method in taken), "OPTIONS"] if taken else []

    def refuses(self, method: str, path: str) -> bool:
        """Whether this path is spelled out, and for other methods."""
        return path in self.spelled_out and method not in self.spelled_out[path]


def method_label(method: str) -> str:
    """Callers can invent methods without end; the metrics do not grow with them."""
    return method if method in KNOWN else "other"


@cache  # Python keeps some patterns that were compiled, and we have more
def _pattern(path: str) -> re.Pattern[str]:
    return compile_path(path)[0]
