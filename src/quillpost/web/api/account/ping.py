"""Is anybody there?"""

from typing import Annotated

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, ConfigDict

from quillpost.accounts.models import Caller
from quillpost.web.api.dependencies import caller_of
from quillpost.web.api.errors import errors
from quillpost.web.api.responses import answer
from quillpost.web.api.routes import PREFIX, V2Route

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Service"])


class Pong(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"message": "pong", "test_mode": True}]})

    message: str
    test_mode: bool


@router.get("/ping", response_model=Pong, responses=errors(), summary="Check the token and its mode")
def ping(who: Annotated[Caller, Depends(caller_of)]) -> Response:
    """Answers `pong`, and whether the token is one of testing mode."""
    return answer({"message": "pong", "test_mode": who.is_testing})
