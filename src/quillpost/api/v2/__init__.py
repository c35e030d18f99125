"""Version 2 of the interface, a module per resource."""

from starlette.routing import BaseRoute

from quillpost.api.v2 import (
    account,
    automations,
    deliveries,
    embeds,
    erasing,
    giftcards,
    handwriting_styles,
    image_templates,
    imports,
    invalidating,
    mailing_lists,
    message_templates,
    order_changes,
    order_items,
    order_search,
    order_stats,
    orders,
    ping,
    previews,
    print_files,
    print_room,
    radius,
    recipients,
    send,
    stored_send,
    sub_accounts,
    verdicts,
    webhooks,
)

# One router within another would be worked out anew for every application.
routes: list[BaseRoute] = [
    route
    for resource in (
        ping,
        send,
        previews,
        stored_send,
        embeds,
        order_search,
        order_stats,
        orders,
        order_changes,
        verdicts,
        order_items,
        invalidating,
        radius,
        mailing_lists,
        imports,
        erasing,
        recipients,
        handwriting_styles,
        giftcards,
        image_templates,
        message_templates,
        webhooks,
        deliveries,
        automations,
        sub_accounts,
        account,
        print_room,
        print_files,
    )
    for route in resource.router.routes
]
