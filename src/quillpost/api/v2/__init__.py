"""Version 2 of the interface, a module per resource."""

from fastapi import APIRouter

from quillpost.api.v2 import handwriting_styles, orders, ping, send, webhooks

router = APIRouter(prefix="/api/v2")
for resource in (ping, send, orders, handwriting_styles, webhooks):
    router.include_router(resource.router)
