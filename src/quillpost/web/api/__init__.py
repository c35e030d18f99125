"""The JSON API, version 2: one package per resource."""

from starlette.routing import BaseRoute

from quillpost.web.api.account import endpoints as account_endpoints
from quillpost.web.api.automations import endpoints as automation_endpoints
from quillpost.web.api.giftcards import endpoints as giftcard_endpoints
from quillpost.web.api.handwriting import endpoints as handwriting_endpoints
from quillpost.web.api.held_orders import endpoints as held_order_endpoints
from quillpost.web.api.imports import endpoints as import_endpoints
from quillpost.web.api.mailing_lists import endpoints as mailing_list_endpoints
from quillpost.web.api.orders import endpoints as order_endpoints
from quillpost.web.api.orders import items, search
from quillpost.web.api.print_room import endpoints as print_room_endpoints
from quillpost.web.api.radius import endpoints as radius_endpoints
from quillpost.web.api.recipients import endpoints as recipient_endpoints
from quillpost.web.api.send import endpoints as send_endpoints
from quillpost.web.api.stored_sends import endpoints as stored_send_endpoints
from quillpost.web.api.sub_accounts import endpoints as sub_account_endpoints
from quillpost.web.api.templates import images, messages
from quillpost.web.api.webhooks import deliveries
from quillpost.web.api.webhooks import endpoints as webhook_endpoints

RESOURCES = (
    send_endpoints,
    stored_send_endpoints,
    search,
    order_endpoints,
    held_order_endpoints,
    items,
    radius_endpoints,
    mailing_list_endpoints,
    import_endpoints,
    recipient_endpoints,
    giftcard_endpoints,
    images,
    messages,
    webhook_endpoints,
    deliveries,
    automation_endpoints,
    sub_account_endpoints,
    account_endpoints,
    print_room_endpoints,
)
# One router within another would be built again for every application.
routes: list[BaseRoute] = [
    *account_endpoints.service_router.routes,
    *handwriting_endpoints.style_router.routes,
    *handwriting_endpoints.signature_router.routes,
    *(route for resource in RESOURCES for route in resource.router.routes),
]
