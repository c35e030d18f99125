"""The page-number envelope, key for key; the links + meta one is tested where orders are listed."""

import json
from typing import Any

from starlette.requests import Request

from quillpost.core.paging import Page, PageRequest
from quillpost.web.api.responses import numbered_page_response

PATH = "http://quillpost.test/api/v2/mailing-lists-utils/recipients/7"


def shown(rows: list[int], total: int, *, page: int, per_page: int, query: str = "") -> dict[str, Any]:
    request = Request(
        {
            "type": "http",
            "method": "GET",
            "scheme": "http",
            "path": "/api/v2/mailing-lists-utils/recipients/7",
            "query_string": query.encode(),
            "headers": [(b"host", b"quillpost.test")],
        }
    )
    answer = numbered_page_response(request, Page(rows, total, PageRequest(page, per_page)), lambda row: {"id": row})
    body: dict[str, Any] = json.loads(bytes(answer.body))
    return body


def test_a_page_in_the_middle_knows_its_neighbours() -> None:
    assert shown([3, 4], 5, page=2, per_page=2, query="limit=2&page=2&tag=a%26b") == {
        "current_page": 2,
        "data": [{"id": 3}, {"id": 4}],
        "first_page_url": f"{PATH}?limit=2&tag=a%26b&page=1",
        "from": 3,
        "last_page": 3,
        "last_page_url": f"{PATH}?limit=2&tag=a%26b&page=3",
        "next_page_url": f"{PATH}?limit=2&tag=a%26b&page=3",
        "path": PATH,
        "per_page": 2,
        "prev_page_url": f"{PATH}?limit=2&tag=a%26b&page=1",
        "to": 4,
        "total": 5,
    }


def test_an_empty_list_is_one_page_without_rows() -> None:
    page = shown([], 0, page=1, per_page=25)
    assert (page["from"], page["to"], page["last_page"], page["total"]) == (None, None, 1, 0)
    assert (page["next_page_url"], page["prev_page_url"]) == (None, None)
    assert page["first_page_url"] == page["last_page_url"] == f"{PATH}?page=1"


def test_a_page_beyond_the_end_leads_back_to_the_last() -> None:
    page = shown([], 5, page=9, per_page=2)
    assert (page["from"], page["to"], page["next_page_url"]) == (None, None, None)
    assert page["prev_page_url"] == f"{PATH}?page=3"
