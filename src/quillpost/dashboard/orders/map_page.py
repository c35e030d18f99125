"""The map of where an order's pieces are."""

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.api.needs import id_in_path
from quillpost.dashboard.orders import albers
from quillpost.dashboard.orders.map_places import Group, Places, places_of
from quillpost.kit.recent import Recent
from quillpost.orders import store
from quillpost.reception.show import show
from quillpost.reception.visits import OurParts, Reader, is_fragment

router = APIRouter(include_in_schema=False)

MOST_BYTES = 8_000_000

Maps = Recent[tuple[int, tuple[int, ...]], Places]


def remembered_maps() -> Maps:
    """Maps that were drawn lately, by their order and how many of its pieces stood where."""
    return Recent(most_bytes=MOST_BYTES, size=lambda places: places.weight)


@router.get("/orders/{order_id}/map")
def map_page(request: Request, order_id: str, who: Reader, parts: OurParts) -> Response:
    """A part of the order's page, or a page by itself."""
    number = id_in_path(order_id)
    maps: Maps = request.app.state.order_maps
    with parts.db.transaction(tenant(who.caller)) as tx:
        order = store.read_order(tx, number)
        stand = tuple(order.tally.values())
        places = maps.get((order.id, stand), lambda: places_of(tx, order.id, pieces=sum(stand)))
    return show(
        request,
        "orders/map_part.html" if is_fragment(request) else "orders/map.html",
        who=who,
        order=order,
        places=places,
        pieces=sum(stand),
        groups=list(Group),
        size=(albers.WIDTH, albers.HEIGHT),
    )
