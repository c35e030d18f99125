"""A web page of another site calls the API by script, in a real browser."""

from typing import Any

from playwright.sync_api import Page

from quillpost.app.container import Container
from quillpost.web.application import create_app
from support.chromium import new_page
from support.factories import Account, postcard
from support.other_site import SiteResponse, other_site
from support.raw_http import real_server

CALL = """
async ([address, how]) => {
    const answer = await fetch(address, how);
    return {status: answer.status, body: await answer.json(), headers: Object.fromEntries(answer.headers)};
}
"""
REFUSED = "async address => { try { await fetch(address); return 'read'; } catch (fault) { return fault.name; } }"


def call(page: Page, address: str, token: str, **how: Any) -> Any:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"} | how.pop("headers", {})
    return page.evaluate(CALL, [address, {"headers": headers, **how}])


def test_a_page_of_another_site_can_send_and_read_and_gets_errors(container: Container, owner: Account) -> None:
    with (
        real_server(create_app(container)) as port,
        other_site(lambda _path, _body: SiteResponse("<title>Shop</title>")) as site,
        new_page() as page,
    ):
        page.goto(site)
        api = f"http://127.0.0.1:{port}/api/v2"
        body = page.evaluate("JSON.stringify", postcard())
        once = {"Idempotency-Key": "from a page", "X-Trace": "of the page's own"}
        sent = [call(page, f"{api}/send/postcard", owner.token, method="POST", body=body, headers=once) for _ in "12"]
        assert [answer["status"] for answer in sent] == [200, 200]
        assert sent[0]["body"]["id"] == sent[1]["body"]["id"]
        assert int(sent[0]["headers"]["x-ratelimit-remaining"]) > 0
        assert sent[0]["headers"]["x-request-id"]

        number = sent[0]["body"]["id"]
        changed = page.evaluate("JSON.stringify", {"message": "Another!", "mesage": "?"})
        put = call(page, f"{api}/orders/{number}", owner.token, method="PUT", body=changed)
        assert (put["status"], put["headers"]["x-ignored-fields"]) == (200, "mesage")
        wrong = call(page, f"{api}/send/postcard", owner.token, method="POST", body="{}")
        assert (wrong["status"], "errors" in wrong["body"]) == (422, True)
        assert call(page, f"{api}/ping", "qp_test_none")["status"] == 401

        assert page.evaluate(REFUSED, f"http://127.0.0.1:{port}/health") == "TypeError"
    assert owner.get("/orders").json()["meta"]["total"] == 1
