"""The web application: the API, the doors and the dashboard behind one envelope."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from fastapi import FastAPI

from quillpost import __version__
from quillpost.api import errors, v2
from quillpost.api.admission import Admission
from quillpost.api.cors import Preflights
from quillpost.api.description import describe
from quillpost.api.envelope import Envelope
from quillpost.api.gate import Gate
from quillpost.api.identities import Identities
from quillpost.api.load_shedder import LoadShedder
from quillpost.api.methods import Methods
from quillpost.api.presence import Presence
from quillpost.api.processor_load import ProcessorLoad
from quillpost.api.turns import Turns
from quillpost.creative.limited import NURSERY
from quillpost.dashboard.home import front
from quillpost.dashboard.index import ROUTERS
from quillpost.dashboard.orders import looks, map_page
from quillpost.database.reachability import DatabaseWatch
from quillpost.doors import (
    brand_images,
    carrier_push,
    do_not_mail,
    files,
    gifts,
    hands,
    health,
    leaked_tokens,
    list_hooks,
    live_ready,
    print_hooks,
    receiver,
    scans,
    unsubscribe,
)
from quillpost.doors.docs_page import add_docs_page
from quillpost.doors.gift_guesses import Guesses
from quillpost.kit.shutdown import Shutdown
from quillpost.oauth import authorize, metadata, revoke, token
from quillpost.pages import assets
from quillpost.parts import Parts
from quillpost.preparation import preparing
from quillpost.reception import troubles
from quillpost.reception.cookies import SESSION
from quillpost.reception.live import Live

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
    app.state.order_looks = looks.remembered_looks()
    app.state.order_maps = map_page.remembered_maps()
    app.state.gift_guesses = Guesses(parts.db)
    assets.find_packages(parts.npm_packages)
    errors.install(app)
    front.add_missing_page(app)
    troubles.install(app)
    # Not `include_router`: a router within another is worked out anew for every application.
    app.router.routes.extend(v2.routes)
    for router in (
        health.router,
        live_ready.router,
        files.router,
        hands.router,
        brand_images.router,
        scans.router,
        print_hooks.router,
        carrier_push.router,
        list_hooks.router,
        receiver.router,
        unsubscribe.router,
        do_not_mail.router,
        gifts.router,
        leaked_tokens.router,
        authorize.router,
        token.router,
        revoke.router,
        metadata.router,
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
_ScanDoor: Any = scans.ScanDoor
