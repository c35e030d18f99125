"""The web application: the API, the doors and the dashboard behind one envelope."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from fastapi import FastAPI

from quillpost import __version__
from quillpost.app.container import Container
from quillpost.core.database.engine import DatabaseMonitor
from quillpost.core.shutdown import Shutdown
from quillpost.rendering.decoder.pool import DECODER_POOL
from quillpost.web import api, assets
from quillpost.web import errors as page_errors
from quillpost.web.api import errors as api_errors
from quillpost.web.api.arrival import DisconnectMiddleware
from quillpost.web.api.openapi import serve_description
from quillpost.web.api.requests import BodyReadQueue
from quillpost.web.cookies import SESSION
from quillpost.web.dashboard.home import pages as home_pages
from quillpost.web.dashboard.orders import items, maps
from quillpost.web.dashboard.routes import ROUTERS
from quillpost.web.font_warmup import prepare_in_background
from quillpost.web.live_updates import LiveUpdates
from quillpost.web.middleware.admission import Admission
from quillpost.web.middleware.auth import AuthMiddleware, IdentityCache
from quillpost.web.middleware.cors import PreflightMiddleware
from quillpost.web.middleware.load_shedder import LoadSheddingMiddleware
from quillpost.web.middleware.methods import MethodMiddleware
from quillpost.web.middleware.processor_load import ProcessorLoad
from quillpost.web.middleware.requests import RequestMiddleware
from quillpost.web.oauth import endpoints as oauth_endpoints
from quillpost.web.public import (
    do_not_mail,
    files,
    giftcards,
    health,
    leaked_tokens,
    list_webhooks,
    partner_webhooks,
    qr_redirects,
    receiver,
    unsubscribe,
)
from quillpost.web.public.claim_limits import ClaimRateLimit
from quillpost.web.public.docs import add_docs_page

BackgroundRunner = Callable[[Shutdown], AbstractAsyncContextManager[None]]


def create_app(container: Container, background: BackgroundRunner | None = None) -> FastAPI:
    """The application over these parts; `background` runs beside it, from first to last request."""
    live_updates, shutdown = LiveUpdates(container.db, container.clock), Shutdown()
    limits = container.limits
    admission = Admission(
        max_per_caller=limits.calls_at_once, max_wait_seconds=limits.wait_seconds, load=ProcessorLoad()
    )
    identities = IdentityCache(SESSION)
    shutdown.on_begin(live_updates.end)
    shutdown.on_begin(admission.close)
    database_watch = DatabaseMonitor(container.db.conninfo)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[Mapping[str, Any]]:
        # What the server itself is to know of us: when it stops, its connections have us begin to end.
        state = {"shutdown": shutdown}
        watch_task = asyncio.create_task(database_watch.run())
        try:
            if background is None:
                yield state
            else:
                await asyncio.to_thread(DECODER_POOL.warm_up)  # the first picture need not wait for it
                async with prepare_in_background(container.renderer.hands), background(shutdown):
                    yield state
        finally:
            watch_task.cancel()
            await asyncio.to_thread(container.scan_recorder.close)

    app = FastAPI(
        title="Quillpost",
        version="1.0.0",
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.container = container
    app.state.release = __version__
    app.state.body_queue = BodyReadQueue()
    app.state.sample_cache = files.create_sample_cache(container.renderer)
    app.state.front_cache = files.create_front_cache(container.renderer)
    app.state.brand_cache = files.create_brand_cache(container.renderer)
    app.state.live_updates = live_updates
    app.state.database_monitor = database_watch
    app.state.order_preview_cache = items.new_picture_cache()
    app.state.order_map_cache = maps.new_map_cache()
    app.state.claim_rate_limit = ClaimRateLimit(container.db)
    assets.load_packages(container.npm_packages)
    api_errors.install_error_handlers(app)
    home_pages.add_not_found_page(app)
    page_errors.install_error_pages(app)
    # Not `include_router`: a router within another is worked out anew for every application.
    app.router.routes.extend(api.routes)
    for router in (
        health.router,
        files.router,
        qr_redirects.router,
        partner_webhooks.router,
        list_webhooks.router,
        receiver.router,
        unsubscribe.router,
        do_not_mail.router,
        giftcards.router,
        leaked_tokens.router,
        oauth_endpoints.router,
        assets.router,
        *ROUTERS,
    ):
        app.router.routes.extend(router.routes)
    serve_description(app)
    add_docs_page(app, container)
    app.add_middleware(MethodMiddleware, routes=app.routes, refuse=page_errors.respond_with_error_page)
    app.add_middleware(
        _AuthMiddleware, container=container, identities=identities, refuse=page_errors.respond_with_error_page
    )
    app.add_middleware(PreflightMiddleware)
    app.add_middleware(DisconnectMiddleware)
    app.add_middleware(RequestMiddleware, shutdown=shutdown)
    app.add_middleware(_LoadSheddingMiddleware, admission=admission, identities=identities)
    # In front of all: a scan is answered by little more than the look-up and the row that it costs.
    app.add_middleware(_ScanMiddleware, container=container)
    return app


_AuthMiddleware: Any = AuthMiddleware
_LoadSheddingMiddleware: Any = LoadSheddingMiddleware
_ScanMiddleware: Any = qr_redirects.ScanMiddleware
