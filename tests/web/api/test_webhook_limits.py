"""How many subscriptions an account may have."""

from concurrent.futures import ThreadPoolExecutor

from test_webhook_endpoints import subscribe

from quillpost.web.application import create_app
from support.factories import Build, count_rows, make_account, make_live, make_sub_account, make_teammate
from support.test_client import TestClient

FULL = (
    "An account has at most 3 subscriptions, in both modes and all sub accounts together. "
    "Delete one that is not needed, or subscribe to * with one."
)


def test_an_account_has_so_many_subscriptions_and_no_more(build: Build) -> None:
    container = build(webhooks=3)
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        owner, stranger = (make_account(container, http, f"{name}@example.com") for name in ("dana", "sam"))
        live, teammate = (
            make_live(container, owner),
            make_teammate(container, owner, make_sub_account(container, owner)),
        )
        hooks = [subscribe(account).json()["id"] for account in (owner, live, teammate)]
        before = count_rows(container)
        for account in (owner, live, teammate):
            refused = subscribe(account)
            assert (refused.status_code, refused.json()) == (400, {"message": FULL})
        assert count_rows(container) == before
        assert subscribe(stranger).status_code == 201, "another account's are not counted"
        assert subscribe(owner, type="nonsense").status_code == 422
        assert teammate.get(f"/webhooks/{hooks[0]}").status_code == 404, "its limits hold again"
        assert owner.call("DELETE", f"/webhooks/{hooks[0]}").status_code == 200
        assert subscribe(teammate).status_code == 201


def test_of_many_concurrent_calls_one_gets_the_last_place(build: Build) -> None:
    container = build(webhooks=3)
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        owner = make_account(container, http, "dana@example.com")
        with ThreadPoolExecutor(8) as crowd:
            answers = list(crowd.map(lambda _: subscribe(owner).status_code, range(8)))
    assert sorted(answers) == [201] * 3 + [400] * 5


def test_a_hundred_are_allowed_unless_the_operator_says_otherwise(build: Build) -> None:
    assert build().limits.webhooks == 100
