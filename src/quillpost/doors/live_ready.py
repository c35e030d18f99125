"""Whether live mail could be printed now: for whoever watches the service."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Response

from quillpost.accounts.service import is_operator_token
from quillpost.api.answers import answer
from quillpost.api.needs import parts_of
from quillpost.fulfilment.readiness import service_gaps
from quillpost.parts import Parts

router = APIRouter(tags=["Service"])

OurParts = Annotated[Parts, Depends(parts_of)]


@router.get("/ready/live", summary="Ready for live mail", include_in_schema=False)
def ready_live(parts: OurParts, authorization: Annotated[str, Header()] = "") -> Response:
    """200 or 503, and nothing else that an outsider could use. An operator account's token is told what is
    missing, with the settings to change."""
    now = parts.clock()
    with parts.db.work() as tx:
        gaps = service_gaps(tx, parts.worlds["live"], on=now.date())
    told: dict[str, Any] = {"status": "not ready" if gaps else "ready", "live_ready": not gaps}
    token = authorization.removeprefix("Bearer ").strip()
    if token and is_operator_token(parts.db, token, now=now):
        told["missing"] = [{"name": gap.name, "message": gap.for_operator} for gap in gaps]
    return answer(told, status=503 if gaps else 200)
