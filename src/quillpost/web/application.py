"""The web application: its routes, its middleware and what runs beside them."""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import structlog
from fastapi import FastAPI

from quillpost import __version__
from quillpost.app.container import Container
from quillpost.core.database.engine import DatabaseMonitor
from quillpost.core.requests import Shutdown
from quillpost.rendering.decoder.service import DECODER_POOL
from quillpost.rendering.handwriting.models import DEFAULT_STYLE, PLAIN_FACE
from quillpost.rendering.handwriting.service import Hands
from quillpost.web import api, assets
from quillpost.web import errors as page_errors
from quillpost.web.api import errors as api_errors
from quillpost.web.api.arrival import DisconnectMiddleware
from quillpost.web.api.openapi import serve_description
from quillpost.web.api.requests import BodyReadQueue
from quillpost.web.dashboard.home import pages as home_pages
from quillpost.web.dashboard.orders import items, maps
from quillpost.web.dashboard.routes import ROUTERS
from quillpost.web.live_updates import LiveUpdates
from quillpost.web.middleware.admission import Admission, ProcessorLoad
from quillpost.web.middleware.auth import AuthMiddleware, IdentityCache
from quillpost.web.middleware.load_shedder import LoadSheddingMiddleware
from quillpost.web.middleware.methods import MethodMiddleware, PreflightMiddleware
from quillpost.web.middleware.requests import RequestMiddleware
from quillpost.web.oauth import endpoints as oauth_endpoints
from quillpost.web.public.docs.pages import add_docs_page
from quillpost.web.public.files import endpoints as file_endpoints
from quillpost.web.public.giftcards import pages as giftcard_pages
from quillpost.web.public.giftcards.pages import ClaimRateLimit
from quillpost.web.public.health import endpoints as health_endpoints
from quillpost.web.public.leaked_tokens import endpoints as leaked_token_endpoints
from quillpost.web.public.opt_outs import pages as opt_out_pages
from quillpost.web.public.qr_codes import endpoints as qr_code_endpoints
from quillpost.web.public.receiver import endpoints as receiver_endpoints
from quillpost.web.public.webhooks import endpoints as webhook_endpoints
from quillpost.web.security import SESSION

log = structlog.get_logger(__name__)

START_DELAY_SECONDS = 1.5


@asynccontextmanager
async def prepare_in_background(hands: Hands) -> AsyncIterator[None]:
    """Load what every piece is written with, and prepare all other typefaces. Neither start nor stop waits for it."""
    work = asyncio.create_task(_prepare_hands(hands))
    try:
        yield
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work


async def _prepare_hands(hands: Hands) -> None:
    await asyncio.sleep(START_DELAY_SECONDS)
    try:
        await asyncio.to_thread(_load_first, hands)
        missing = await asyncio.to_thread(hands.unprepared_faces)
        if missing:
            log.info("handwriting.font_preparation_started", count=len(missing))
            if await _run_helper():
                log.info("handwriting.fonts_prepared")
    except Exception as error:  # a typeface that is not ready is prepared when it is needed
        log.warning("handwriting.font_preparation_failed", error=repr(error))


def _load_first(hands: Hands) -> None:
    """The default hand, and the plain face that addresses are set in."""
    try:
        hands.prepare_face(PLAIN_FACE)
        hands.hand(DEFAULT_STYLE.number)
    except Exception as error:  # senders get the error; the service goes on
        log.warning("handwriting.font_load_failed", error=repr(error))


async def _run_helper() -> bool:
    """Prepare fonts in another process, which ends when we do; whether that worked. Of several, one does the work."""
    command = (sys.executable, "-m", "quillpost", "hands", "--prepare", "--beside", str(os.getpid()))
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=PIPE,
        # Ctrl-C at the terminal is ours; we end the helper ourselves.
        start_new_session=True,
    )
    try:
        _, stderr = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        error = stderr.decode(errors="replace").strip().splitlines()[-1:]
        log.warning("handwriting.font_preparation_failed", exit_code=process.returncode, error=" ".join(error))
    return process.returncode == 0


BackgroundRunner = Callable[[Shutdown], AbstractAsyncContextManager[None]]


def create_app(container: Container, background: BackgroundRunner | None = None) -> FastAPI:
    """`background` runs beside the application, from its start to its end."""
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
    app.state.sample_cache = file_endpoints.create_sample_cache(container.renderer)
    app.state.front_cache = file_endpoints.create_front_cache(container.renderer)
    app.state.brand_cache = file_endpoints.create_brand_cache(container.renderer)
    app.state.live_updates = live_updates
    app.state.database_monitor = database_watch
    app.state.order_preview_cache = items.new_picture_cache()
    app.state.order_map_cache = maps.new_map_cache()
    app.state.claim_rate_limit = ClaimRateLimit(container.db)
    assets.load_packages(container.npm_packages)
    api_errors.install_error_handlers(app)
    home_pages.add_not_found_page(app)
    page_errors.install_error_pages(app)
    # Not `include_router`, which builds every route again for each application.
    app.router.routes.extend(api.routes)
    for router in (
        health_endpoints.router,
        file_endpoints.router,
        qr_code_endpoints.router,
        webhook_endpoints.router,
        receiver_endpoints.router,
        opt_out_pages.router,
        giftcard_pages.router,
        leaked_token_endpoints.router,
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
_ScanMiddleware: Any = qr_code_endpoints.ScanMiddleware
