"""Erases a person from all that an account stores."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, ConfigDict, Field

from quillpost.accounts.models import Caller
from quillpost.core.database import Tenant
from quillpost.privacy.erasure import TABLES, erase
from quillpost.privacy.models import whom_of
from quillpost.recipients.rules import LONGEST
from quillpost.web.api.bodies import Body, Text
from quillpost.web.api.dependencies import Log, Services, may
from quillpost.web.api.errors import BODY_ERRORS, errors
from quillpost.web.api.requirements import one_of_texts
from quillpost.web.api.responses import answer
from quillpost.web.api.routes import PREFIX, V2Route
from quillpost.web.api.send.schemas import STATE, STATE_NAMES, ZIP, ZIP_NAMES

EXAMPLE: dict[str, Any] = {
    "message": "success",
    "erased": {**dict.fromkeys(TABLES, 0), "recipients": 2, "items": 5, "deliveries": 9, "files": 4},
    "waiting": 1,
}


class Erased(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    message: str
    erased: dict[str, int] = Field(description="How many rows told of the person, by what they are.")
    waiting: int = Field(description="Pieces that a printer has: they name the person until they are mailed.")


router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Recipients"])

MayErase = Annotated[Caller, Depends(may("lists:write"))]


class WhomToErase(Body):
    """A door, whole on one line or in parts, an e-mail, or both: whoever has one of them is meant."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"address": "12 Main St, Austin, TX 78701", "email": "jane@example.com"}],
            **one_of_texts("address", "email"),
        }
    )

    address: Text | None = Field(
        None,
        max_length=LONGEST,
        description="Whole on one line, or the street beside its parts; everyone at that door is meant.",
    )
    address2: Text | None = Field(None, max_length=LONGEST, description="Unit.")
    city: Text | None = Field(None, max_length=LONGEST, description="City.")
    province: Text | None = Field(None, max_length=LONGEST, validation_alias=STATE_NAMES, description=STATE)
    postal_code: Text | None = Field(None, max_length=LONGEST, validation_alias=ZIP_NAMES, description=ZIP)
    country: Text | None = Field(None, max_length=LONGEST, description="Two letters; US when missing.")
    email: Text | None = Field(
        None, max_length=LONGEST, description="E-mail address, in any case; whoever has it is meant too."
    )


@router.post(
    "/recipients/erase",
    response_model=Erased,
    responses=errors(*BODY_ERRORS),
    summary="Erase a person",
)
def erase_person(body: WhomToErase, who: MayErase, parts: Services, log: Log) -> Response:
    """For good: from lists, pieces, what was told of them, sends that wait, and files; with a live token in
    both modes, with a test token in testing mode and on the lists, which both modes share. Counts,
    totals and money stay. A piece that is not printed yet fails and is not billed; one that a printer has
    keeps its recipient until it is in the mail, and `waiting` counts these. Whom a suppression list barred
    stays barred. Previews and the files of finished imports may show anybody: all of them go, whoever is
    asked for, so `files` and `imports` tell nothing of whether somebody is known."""
    whom = whom_of({name: value for name, value in body.given().items() if isinstance(value, str)})
    with parts.db.work() as tx:
        # A live token erases the person in testing too; a test token touches nothing that was really mailed.
        tenant = Tenant(who.account_id, who.sub_account_id, "test" if who.is_testing else None)
        done = erase(tx, parts.sealer, tenant, whom, now=parts.clock())
        log.note(tx, "person.erased", {})  # whom, nobody is to know any more
    return answer({"message": "success", "erased": dict(done.erased), "waiting": done.waiting})
