"""An application behind the API's gate, and those who call it in turns, without the rest of the service."""

from starlette.types import ASGIApp

from quillpost.app.container import Parts
from quillpost.web.middleware.admission import Admission
from quillpost.web.middleware.auth import Gate, Identities
from quillpost.web.middleware.load_shedding import LoadShedder


def guarded(app: ASGIApp, parts: Parts, admission: Admission | None = None) -> LoadShedder:
    limits, identities = parts.limits, Identities("quillpost_session")
    usual = Admission(share=limits.calls_at_once, patience=limits.wait_seconds)
    return LoadShedder(Gate(app, parts, identities), admission or usual, identities)
