"""The web application: the API, the doors and the dashboard behind one envelope."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from fastapi import FastAPI

from quillpost import __version__
from quillpost.app.container import Parts
from quillpost.core.database.engine import DatabaseWatch
from quillpost.core.shutdown import Shutdown
from quillpost.rendering.decoder.pool import NURSERY
from quillpost.web import api, assets
from quillpost.web import errors as troubles
from quillpost.web.api import errors as api_errors
from quillpost.web.api.arrival import Presence
from quillpost.web.api.openapi import describe
from quillpost.web.api.requests import Turns
from quillpost.web.cookies import SESSION
from quillpost.web.dashboard.home import pages as home_pages
from quillpost.web.dashboard.orders import maps, previews
from quillpost.web.dashboard.routes import ROUTERS
from quillpost.web.font_warmup import preparing
from quillpost.web.live_updates import Live
from quillpost.web.middleware.admission import Admission
from quillpost.web.middleware.auth import Gate, Identities
from quillpost.web.middleware.cors import Preflights
from quillpost.web.middleware.load_shedding import LoadShedder
from quillpost.web.middleware.methods import Methods
from quillpost.web.middleware.processor_load import ProcessorLoad
from quillpost.web.middleware.requests import Envelope
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
from quillpost.web.public import files as brand_images
from quillpost.web.public import files as hands
from quillpost.web.public import health as live_ready
from quillpost.web.public.claim_limits import Guesses
from quillpost.web.public.docs import add_docs_page

Background = Callable[[Shutdown], AbstractAsyncContextManager[None]]


def create_app(parts: Parts, background: Background | None = None) -> FastAPI:
    """The application over these parts; `background` runs beside it, from first to last request."""
    live, shutdown = Live(parts.db, parts.clock), Shutdown()
    limits = parts.limits
    admission = Admission(share=limits.calls_at_once, patience=limits.wait_seconds, load=ProcessorLoad())
    identities = Identities(SESSION)
    shutdown.first(live.end)
    shutdown.first(admission.close)
    watch = DatabaseWatch(parts.db.conninfo)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[Mapping[str, Any]]:
        # What the server itself is to know of us: when it stops, its connections have us begin to end.
        known = {"shutdown": shutdown}
        watching = asyncio.create_task(watch.run())
        try:
            if background is None:
                yield known
            else:
                await asyncio.to_thread(NURSERY.warm_up)  # the first picture need not wait for it
                async with preparing(parts.studio.hands), background(shutdown):
                    yield known
        finally:
            watching.cancel()
            await asyncio.to_thread(parts.scans.close)

    app = FastAPI(
        title="Quillpost",
        version="1.0.0",
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.parts = parts
    app.state.release = __version__
    app.state.turns = Turns()
    app.state.samples = hands.remembered_samples(parts.studio)
    app.state.fronts = files.remembered_fronts(parts.studio)
    app.state.brands = brand_images.remembered_brands(parts.studio)
    app.state.live = live
    app.state.database_watch = watch
    app.state.order_looks = previews.remembered_looks()
    app.state.order_maps = maps.remembered_maps()
    app.state.gift_guesses = Guesses(parts.db)
    assets.find_packages(parts.npm_packages)
    api_errors.install(app)
    home_pages.add_missing_page(app)
    troubles.install(app)
    # Not `include_router`: a router within another is worked out anew for every application.
    app.router.routes.extend(api.routes)
    for router in (
        health.router,
        live_ready.router,
        files.router,
        hands.router,
        brand_images.router,
        qr_redirects.router,
        partner_webhooks.router,
        partner_webhooks.router,
        list_webhooks.router,
        receiver.router,
        unsubscribe.router,
        do_not_mail.router,
        giftcards.router,
        leaked_tokens.router,
        oauth_endpoints.router,
        oauth_endpoints.router,
        oauth_endpoints.router,
        oauth_endpoints.router,
        assets.router,
        *ROUTERS,
    ):
        app.router.routes.extend(router.routes)
    describe(app)
    add_docs_page(app, parts)
    app.add_middleware(Methods, routes=app.routes, refuse=troubles.answer_trouble)
    app.add_middleware(_Gate, parts=parts, identities=identities, refuse=troubles.answer_trouble)
    app.add_middleware(Preflights)
    app.add_middleware(Presence)
    app.add_middleware(Envelope, shutdown=shutdown)
    app.add_middleware(_LoadShedder, admission=admission, identities=identities)
    # In front of all: a scan is answered by little more than the look-up and the row that it costs.
    app.add_middleware(_ScanDoor, parts=parts)
    return app


_Gate: Any = Gate
_LoadShedder: Any = LoadShedder
_ScanDoor: Any = qr_redirects.ScanDoor
