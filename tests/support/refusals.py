"""Tables of calls that are refused: each names its field, and not a row or file is left behind."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from httpx2 import Response

from quillpost.app.container import Container
from support.traces import traces


@contextmanager
def unchanged(container: Container) -> Iterator[None]:
    """Whatever is done meanwhile leaves no row and no file."""
    before = traces(container)
    yield
    assert traces(container) == before


def assert_refused(
    subtests: pytest.Subtests, container: Container, call: Callable[[Any], Response], cases: Iterable[tuple[Any, ...]]
) -> None:
    """Each case: what the call is made with, the field that is named alone, and words of its error."""
    with unchanged(container):
        for what, field, *words in cases:
            with subtests.test(str(what)[:200]):
                refused = call(what)
                assert (refused.status_code, list(refused.json()["errors"])) == (422, [field]), refused.text
                error = refused.json()["errors"][field][0]
                assert [each for each in words if each not in error] == [], error
