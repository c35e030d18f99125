"""Erases a person from all that an account stores."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, ConfigDict, Field

from quillpost.accounts.models import Caller
from quillpost.core.database import Tenant
from quillpost.privacy.erasure import COUNTED_TABLES, erase_subject
from quillpost.privacy.models import parse_subject
from quillpost.recipients.rules import MAX_FIELD_LENGTH
from quillpost.web.api.bodies import Body, Text
from quillpost.web.api.dependencies import RequestAuditWriter, require_scope
from quillpost.web.api.errors import BODY_ERRORS, error_responses
from quillpost.web.api.requirements import require_one_text
from quillpost.web.api.responses import json_response
from quillpost.web.api.routes import PREFIX, V2Route
from quillpost.web.api.send.schemas import STATE_DESCRIPTION, STATE_NAMES, ZIP_DESCRIPTION, ZIP_NAMES
from quillpost.web.dependencies import Services

EXAMPLE: dict[str, Any] = {
    "message": "success",
    "erased": {**dict.fromkeys(COUNTED_TABLES, 0), "recipients": 2, "items": 5, "deliveries": 9, "files": 4},
    "waiting": 1,
}


class Erased(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    message: str
    erased: dict[str, int] = Field(description="How many rows told of the person, by what they are.")
    waiting: int = Field(description="Pieces that a printer has: they name the person until they are mailed.")


router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Recipients"])

CanErase = Annotated[Caller, Depends(require_scope("lists:write"))]


class WhomToErase(Body):
    """A door, whole on one line or in parts, an e-mail, or both: whoever has one of them is meant."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"address": "12 Main St, Austin, TX 78701", "email": "jane@example.com"}],
            **require_one_text("address", "email"),
        }
    )

    address: Text | None = Field(
        None,
        max_length=MAX_FIELD_LENGTH,
        description="Whole on one line, or the street beside its parts; everyone at that door is meant.",
    )
    address2: Text | None = Field(None, max_length=MAX_FIELD_LENGTH, description="Unit.")
    city: Text | None = Field(None, max_length=MAX_FIELD_LENGTH, description="City.")
    province: Text | None = Field(
        None, max_length=MAX_FIELD_LENGTH, validation_alias=STATE_NAMES, description=STATE_DESCRIPTION
    )
    postal_code: Text | None = Field(
        None, max_length=MAX_FIELD_LENGTH, validation_alias=ZIP_NAMES, description=ZIP_DESCRIPTION
    )
    country: Text | None = Field(None, max_length=MAX_FIELD_LENGTH, description="Two letters; US when missing.")
    email: Text | None = Field(
        None, max_length=MAX_FIELD_LENGTH, description="E-mail address, in any case; whoever has it is meant too."
    )


@router.post(
    "/recipients/erase", response_model=Erased, responses=error_responses(*BODY_ERRORS), summary="Erase a person"
)
def erase_person(body: WhomToErase, caller: CanErase, container: Services, audit: RequestAuditWriter) -> Response:
    """For good: from lists, pieces, what was told of them, sends that wait, and files; with a live token in
    both modes, with a test token in testing mode and on the lists, which both modes share. Counts,
    totals and money stay. A piece that is not printed yet fails and is not billed; one that a printer has
    keeps its recipient until it is in the mail, and `waiting` counts these. Whom a suppression list barred
    stays barred. Previews and the files of finished imports may show anybody: all of them go, whoever is
    asked for, so `files` and `imports` tell nothing of whether somebody is known."""
    person = parse_subject({name: value for name, value in body.provided_fields().items() if isinstance(value, str)})
    with container.db.system_transaction() as tx:
        # A live token erases the person in testing too; a test token touches nothing that was really mailed.
        tenant = Tenant(caller.account_id, caller.sub_account_id, "test" if caller.is_testing else None)
        erasure = erase_subject(tx, container.encryptor, tenant, person, now=container.clock())
        audit.record(tx, "person.erased", {})  # whom, nobody is to know any more
    return json_response({"message": "success", "erased": dict(erasure.erased), "waiting": erasure.waiting})
