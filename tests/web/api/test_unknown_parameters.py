"""Query parameters that a call does not know change nothing, and are named."""

import pytest

from quillpost.web import api
from quillpost.web.api.responses import IGNORED_HEADER
from quillpost.web.api.routes import V2Route
from support.factories import Account

LISTINGS = sorted(
    {
        route.path.removeprefix("/api/v2")
        for route in api.routes
        if isinstance(route, V2Route) and "GET" in (route.methods or ()) and "{" not in route.path
    }
)


@pytest.mark.parametrize("path", LISTINGS)
def test_every_call_names_the_parameters_that_it_does_not_know(owner: Account, path: str) -> None:
    params = {"serch": "Jane", "page[size]": "3", "filter[name]": "Jane"}
    answer = owner.call("GET", path, params=params)
    assert answer.headers[IGNORED_HEADER] == "filter[name], page[size], serch"


def test_what_is_known_is_not_named(owner: Account) -> None:
    known = {"page": "1", "limit": "5", "sub_account_id": "", "type": "postcard", "metadata[a][b]": "c"}
    answer = owner.call("GET", "/orders", params=known)
    assert (answer.status_code, answer.headers.get(IGNORED_HEADER)) == (200, None)


def test_a_refusal_and_a_call_with_a_body_name_them_too(owner: Account) -> None:
    refused = owner.call("GET", "/orders", params={"page": "none", "serch": "x"})
    assert (refused.status_code, refused.headers[IGNORED_HEADER]) == (422, "serch")
    made = owner.call("POST", "/mailing-lists?preview=true", json={"description": "Visitors", "colour": "red"})
    assert (made.status_code, made.headers[IGNORED_HEADER]) == (201, "colour, preview")
