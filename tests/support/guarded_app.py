"""An application behind the API's gate, and those who call it in turns, without the rest of the service."""

from starlette.types import ASGIApp

from quillpost.app.container import Container
from quillpost.web.middleware.admission import Admission
from quillpost.web.middleware.auth import AuthMiddleware, IdentityCache
from quillpost.web.middleware.load_shedder import LoadSheddingMiddleware


def build_guarded_app(app: ASGIApp, container: Container, admission: Admission | None = None) -> LoadSheddingMiddleware:
    limits, identities = container.limits, IdentityCache("quillpost_session")
    usual = Admission(max_per_caller=limits.calls_at_once, max_wait_seconds=limits.wait_seconds)
    return LoadSheddingMiddleware(AuthMiddleware(app, container, identities), admission or usual, identities)
