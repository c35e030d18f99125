"""The specification's tables of orders: "Order", "Order item", "States and transitions", "Pagination envelopes"."""

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import orders
from quillpost.orders.rules import ItemStatus
from support.factories import Account, Clock, person, run_jobs_for
from support.field_shapes import Json, date_time, find_differences, integer, matches, one_of, or_null, own_url

METADATA = {"campaign": "spring", "customer": 42}
RECIPIENT = (
    "name", "company", "address", "address2", "city", "province", "postal_code", "country", "email", "phone",
    *(f"custom{n}" for n in range(1, 11)),
)  # fmt: skip

# fmt: off
ORDER = {
    # Field                          Type and notes
    "id":                           integer,
    "message":                      one_of("Hi %FIRST_NAME%, see you soon!"),
    "size":                         one_of("4x6"),
    "sub_account_id":               one_of(None),
    "type":                         one_of("postcard"),
    "display_type":                 one_of("Postcard-4x6"),
    "style":                        integer,
    "front_image":                  own_url,
    "high_quality_preview":         own_url,
    "authorization_total":          integer,
    "grand_total":                  integer,
    "order_total":                  integer,
    "total_estimated_recipients":   integer,
    "total_recipients":             integer,
    "recipient_count":              integer,
    "status":                       one_of("Reviewing", "Printing", "Mailed", "Fulfilled", "Cancelled"),
    "method":                       one_of("api"),
    "cancellable":                  one_of(True, False),
    "total_scans":                  integer,
    "metadata":                     one_of(METADATA),
    "created_at":                   date_time,
    "updated_at":                   date_time,
}
ITEM = {
    # Field            Type and notes
    "id":             integer,
    "status":         one_of(*map(str, ItemStatus)),
    "delivery_date":  or_null(matches(r"\d{4}-\d\d-\d\d")),
    "scans":          integer,
    "failure":        or_null(matches(r".+")),
    "recipient":      lambda value: tuple(value) == RECIPIENT and all(map(or_null(matches(".*")), value.values())),
    "giftcard":       one_of(None),
    "created_at":     date_time,
}
ITEM_STATUSES = (
    "Processing", "Printed", "In Transit", "In Local Area", "Processed for Delivery", "Delivered",
    "Re-routed", "Returned to Sender", "Failed",
)
ORDER_STATUSES = [
    # status         display        cancellable
    ("reviewing",    "Reviewing",   True),
    ("processing",   "Processing",  False),
    ("printing",     "Printing",    False),
    ("mailed",       "Mailed",      False),
    ("fulfilled",    "Fulfilled",   False),
    ("cancelled",    "Cancelled",   False),
    ("paused",       "Paused",      True),
    ("error",        "Error",       False),
]
HISTORIES = {
    # recipient's name         what becomes of the piece
    "Jane Doe":               ["Processing", "Printed", "In Transit", "In Local Area",
                               "Processed for Delivery", "Delivered"],
    "Test Returned":          ["Processing", "Printed", "In Transit", "In Local Area",
                               "Returned to Sender"],
    "Test Rerouted":          ["Processing", "Printed", "In Transit", "Re-routed", "In Local Area",
                               "Processed for Delivery", "Delivered"],
    "Test Lost":              ["Processing", "Printed", "In Transit", "Failed"],
    "Test Undeliverable":     ["Processing", "Failed"],
    "Test Printer Failure":   ["Processing", "Failed"],
}
LINKS = {
    # Field    page 2 of 3   the first and only page
    "first":  (1,            1),
    "last":   (3,            1),
    "prev":   (1,            None),
    "next":   (3,            None),
}
META = {
    # Field           page 2 of 3   beyond the end
    "current_page":  (2,            9),
    "from":          (2,            None),
    "last_page":     (3,            3),
    "per_page":      (1,            1),
    "to":            (2,            None),
    "total":         (3,            3),
}
PARAMETERS = {
    # Given                         per_page or the status of the refusal
    "":                             25,
    "items_per_page=":              25,
    "items_per_page=7":             7,
    "items_per_page=100":           100,
    "items_per_page=101":           100,
    "items_per_page=1000000000":    100,
    "limit=7":                      7,
    "items_per_page=0":             422,
    "items_per_page=-1":            422,
    "items_per_page=1e9":           100,
    "items_per_page=7.0":           7,
    "items_per_page=7.5":           422,
    "items_per_page=abc":           422,
    "page=0":                       422,
    "page=-1":                      422,
    "page=abc":                     422,
    "sub_account_id=999":           400,
    "sub_account_id=abc":           422,
}
# fmt: on


@pytest.mark.usefixtures("clean_database")
def test_orders_and_their_items_are_everywhere_as_tables_say(
    container: Container, owner: Account, clock: Clock
) -> None:
    audience = [person(), person(name="Test Returned", address="9 Oak Ave"), {"email": "e@example.com"}]
    order = owner.send(recipients=audience, metadata=METADATA).json()["id"]
    run_jobs_for(container, clock, seconds=45)

    def get(path: str) -> Json:
        found: Json = owner.get(path).json()
        return found

    shown = {"list": get("/orders/list")["data"], "track": [get(f"/orders/{order}/track")["data"]["order"]]}
    canceled = owner.put(f"/orders/{owner.send(metadata=METADATA).json()['id']}/cancel").json()["order"]
    assert find_differences(shown | {"cancel": [canceled]}, ORDER) == []
    assert find_differences({"read": [get(f"/orders/{order}")]}, ORDER, "warnings") == []

    items = get(f"/orders/{order}/items")["data"]
    found = [get(f"/orders/search?{search}") for search in ("name=jane", "name=test", "email=e@example.com")]
    places = {
        "/orders/{id}/items": (items, ()),
        "/order-items?order_id=": (get(f"/order-items?order_id={order}")["data"], ()),
        "/order-items": (get("/order-items")["data"][::-1][:3], ()),
        "/order-items/{id}": (
            [get(f"/order-items/{item['id']}") for item in items], ("order_id", "events", "delivery_inferred"),
        ),
        "/orders/search": (
            [item for each in found for item in each["matched_order_items"] if item["order_id"] == order],
            ("order_id",),
        ),
    }  # fmt: skip
    for operation, (listed, more) in places.items():
        assert find_differences({operation: listed}, ITEM, *more) == []
        assert [{name: item[name] for name in ITEM} for item in listed] == items, operation
    delivered, returned, refused = items
    assert (delivered["status"], delivered["delivery_date"], delivered["failure"]) == ("Delivered", "2026-05-04", None)
    assert (returned["status"], returned["delivery_date"]) == ("Returned to Sender", None)
    assert (refused["status"], refused["delivery_date"]) == ("Failed", None)
    assert refused["failure"] == "There is no mailing address, only an e-mail."


@pytest.mark.usefixtures("clean_database")
def test_a_piece_has_its_statuses_and_is_found_by_them(container: Container, owner: Account, clock: Clock) -> None:
    audience = [person(name=name, address=f"{number} Elm St") for number, name in enumerate(HISTORIES, start=1)]
    order_id = owner.send(recipients=audience).json()["id"]
    run_jobs_for(container, clock, seconds=60)
    items = owner.get(f"/orders/{order_id}/items").json()["data"]
    events = {i["recipient"]["name"]: owner.get(f"/order-items/{i['id']}").json()["events"] for i in items}
    assert {name: [event["status"] for event in told] for name, told in events.items()} == HISTORIES
    for name, told in events.items():
        assert [event["previous_status"] for event in told] == [None, *HISTORIES[name][:-1]]
        assert sorted(event["at"] for event in told) == [event["at"] for event in told]

    ends = [history[-1] for history in HISTORIES.values()]
    for status in ITEM_STATUSES:
        page = owner.get("/order-items", params={"status": status}).json()
        assert [item["status"] for item in page["data"]] == [status] * ends.count(status)
        assert page["meta"]["total"] == ends.count(status)
    refused = owner.get("/order-items?status=Lost")
    known = f"Unknown status. Known: {', '.join(ITEM_STATUSES)}."
    assert (refused.status_code, refused.json()["errors"]) == (422, {"status": [known]})


def test_an_order_shows_its_status_as_the_table_says_and_is_found_by_it(container: Container, owner: Account) -> None:
    sent = owner.send().json()
    assert (sent["status"], sent["display_status"]) == ("reviewing", "Reviewing")
    for status, display, cancellable in ORDER_STATUSES:
        with container.db.system_transaction() as tx:
            tx.execute(sa.update(orders).where(orders.c.id == sent["id"]).values(status=status))
        order = owner.get(f"/orders/{sent['id']}").json()
        assert (order["status"], order["cancellable"]) == (display, cancellable)
        for written in (status, display):
            listed = owner.get("/orders/list", params={"status": written}).json()
            assert [each["id"] for each in listed["data"]] == [sent["id"]], written


@pytest.fixture
def paths(owner: Account) -> list[str]:
    """Lists of three: orders, under each of their names, the items of one of them, and all items."""
    order_id = owner.send(recipients=[person(address=f"{n} Elm St") for n in range(1, 4)]).json()["id"]
    for _ in range(2):
        owner.send()
    return ["/orders/list", "/orders", f"/orders/{order_id}/items", "/order-items"]


def test_pages_lead_to_each_other_as_the_table_says(owner: Account, paths: list[str]) -> None:
    for path in paths[:3]:
        address = f"http://quillpost.test/api/v2{path}"
        middle, only, beyond = (
            owner.get(f"{path}?items_per_page={query}").json() for query in ("1&page=2", "50", "1&page=9")
        )
        assert middle.keys() == {"data", "links", "meta"}
        for place, (page, size) in enumerate(((middle, 1), (only, 50))):
            assert page["links"] == {
                name: None if number[place] is None else f"{address}?items_per_page={size}&page={number[place]}"
                for name, number in LINKS.items()
            }
        for place, page in enumerate((middle, beyond)):
            assert page["meta"] == {name: values[place] for name, values in META.items()} | {"path": address}
    whole = owner.get(f"{paths[3]}?items_per_page=1&page=2").json()
    assert (whole.keys(), whole["meta"]["path"]) == (middle.keys(), f"http://quillpost.test/api/v2{paths[3]}")
    assert (whole["links"].keys(), whole["meta"].keys()) == (LINKS.keys(), META.keys() | {"path"})


def test_every_list_takes_the_shared_parameters(owner: Account, paths: list[str], subtests: pytest.Subtests) -> None:
    for path in paths:
        for given, taken in PARAMETERS.items():
            if "/items" in path and "sub_account" in given:
                continue  # an order is of one sub account: its own items are not filtered by any
            with subtests.test(path=path, given=given):
                answer = owner.get(f"{path}?{given}")
                if taken < 400:
                    per_page = answer.json()["meta"]["per_page"]
                    assert (per_page, type(per_page)) == (taken, int)
                else:
                    assert answer.status_code == taken
