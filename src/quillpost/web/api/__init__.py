"""The JSON API, version 2: one package per resource."""

from starlette.routing import BaseRoute

from quillpost.web.api.account import endpoints as account_endpoints
from quillpost.web.api.automations import endpoints as automation_endpoints
from quillpost.web.api.embeds import endpoints as embed_endpoints
from quillpost.web.api.erasures import endpoints as erasure_endpoints
from quillpost.web.api.giftcards import endpoints as giftcard_endpoints
from quillpost.web.api.giftcards import invalidation
from quillpost.web.api.handwriting_styles import endpoints as handwriting_style_endpoints
from quillpost.web.api.image_templates import endpoints as image_template_endpoints
from quillpost.web.api.imports import endpoints as import_endpoints
from quillpost.web.api.mailing_lists import endpoints as mailing_list_endpoints
from quillpost.web.api.message_templates import endpoints as message_template_endpoints
from quillpost.web.api.order_items import endpoints as order_item_endpoints
from quillpost.web.api.orders import endpoints as order_endpoints
from quillpost.web.api.orders import search
from quillpost.web.api.print_room import endpoints as print_room_endpoints
from quillpost.web.api.print_room import held_orders
from quillpost.web.api.radius import endpoints as radius_endpoints
from quillpost.web.api.recipients import endpoints as recipient_endpoints
from quillpost.web.api.send import endpoints as send_endpoints
from quillpost.web.api.send import previews, stored
from quillpost.web.api.sub_accounts import endpoints as sub_account_endpoints
from quillpost.web.api.webhooks import deliveries
from quillpost.web.api.webhooks import endpoints as webhook_endpoints

RESOURCES = (
    send_endpoints,
    previews,
    stored,
    embed_endpoints,
    search,
    order_endpoints,
    held_orders,
    order_item_endpoints,
    invalidation,
    radius_endpoints,
    mailing_list_endpoints,
    import_endpoints,
    erasure_endpoints,
    recipient_endpoints,
    handwriting_style_endpoints,
    giftcard_endpoints,
    image_template_endpoints,
    message_template_endpoints,
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
    *(route for resource in RESOURCES for route in resource.router.routes),
]
