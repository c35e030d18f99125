"""Is anybody there?"""

from typing import Annotated

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, ConfigDict

from quillpost.accounts.models import Caller
from quillpost.web.api.dependencies import get_caller
from quillpost.web.api.errors import error_responses
from quillpost.web.api.responses import json_response
from quillpost.web.api.routes import PREFIX, V2Route

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Service"])


class Pong(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"message": "pong", "test_mode": True}]})

    message: str
    test_mode: bool


@router.get("/ping", response_model=Pong, responses=error_responses(), summary="Check the token and its mode")
def ping(caller: Annotated[Caller, Depends(get_caller)]) -> Response:
    """Answers `pong`, and whether the token is one of testing mode."""
    return json_response({"message": "pong", "test_mode": caller.is_testing})
