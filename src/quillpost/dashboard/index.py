"""All pages of senders and operators, by area. Each area's package says which routers it has."""

from quillpost.dashboard import (
    automations,
    compose,
    embed,
    entrance,
    home,
    lists,
    money,
    orders,
    print_room,
    settings,
    sub_accounts,
    templates,
    webhooks,
)

ROUTERS = [
    router
    for area in (
        entrance,
        home,
        orders,
        compose,
        lists,
        templates,
        webhooks,
        automations,
        money,
        sub_accounts,
        settings,
        embed,
        print_room,
    )
    for router in area.ROUTERS
]
