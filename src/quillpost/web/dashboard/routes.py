"""All pages, by area. Each area's package has its `ROUTERS`."""

from quillpost.web.dashboard import (
    automations,
    billing,
    compose,
    embed,
    home,
    lists,
    orders,
    print_room,
    settings,
    sign_in,
    sub_accounts,
    templates,
    webhooks,
)

ROUTERS = [
    router
    for area in (
        sign_in,
        home,
        orders,
        compose,
        lists,
        templates,
        webhooks,
        automations,
        billing,
        sub_accounts,
        settings,
        embed,
        print_room,
    )
    for router in area.ROUTERS
]
