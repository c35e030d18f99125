"""The composer: from a message to an order, with the true picture of it all the while."""

from quillpost.dashboard.compose import audience_parts, page, previewing, price, sending

ROUTERS = (page.router, previewing.router, audience_parts.router, price.router, sending.router)
