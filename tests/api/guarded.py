"""An application behind the API's gate, and those who call it in turns, without the rest of the service."""

from starlette.types import ASGIApp

from quillpost.api.admission import Admission
from quillpost.api.gate import Gate
from quillpost.api.identities import Identities
from quillpost.api.load_shedder import LoadShedder
from quillpost.parts import Parts


def guarded(app: ASGIApp, parts: Parts, admission: Admission | None = None) -> LoadShedder:
    limits, identities = parts.limits, Identities("quillpost_session")
    usual = Admission(share=limits.calls_at_once, patience=limits.wait_seconds)
    return LoadShedder(Gate(app, parts, identities), admission or usual, identities)
