"""An erasure as the API description shows it."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from quillpost.privacy.erasing import TABLES

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
