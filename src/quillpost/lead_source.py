"""Where the addresses for radius searches come from, by mode; a part of the wiring."""

from collections.abc import Mapping

from quillpost.adapters.leads.http import HttpLeads
from quillpost.adapters.leads.table import TableLeads
from quillpost.database import Database
from quillpost.kit import standard_webhooks
from quillpost.kit.errors import NotReady
from quillpost.kit.times import Clock
from quillpost.ports.leads import LeadsProvider
from quillpost.settings import Settings


def lead_sources(settings: Settings, db: Database, clock: Clock) -> Mapping[str, LeadsProvider]:
    """Testing mode has the sample alone: what is bought there is not paid for."""
    return {"test": TableLeads(db, samples=True, clock=clock), "live": _live(settings, db, clock)}


def _live(settings: Settings, db: Database, clock: Clock) -> LeadsProvider:
    if settings.leads is None:
        return TableLeads(db, samples=False, clock=clock)
    given = settings.leads_secret.get_secret_value().split() if settings.leads_secret else []
    if not all(map(standard_webhooks.is_secret, given)):
        raise NotReady("QUILLPOST_LEADS_SECRET must be whsec_ and 24 to 64 bytes as base64.")
    return HttpLeads(settings.leads, secrets=given, clock=clock)
