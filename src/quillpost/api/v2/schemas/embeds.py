"""The embedded composer as the API description shows it."""

from pydantic import BaseModel, ConfigDict, Field


class Embed(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "url": "https://mail.example.com/embed/compose/q7Jx...",
                    "expires_at": "2026-12-01T09:15:00Z",
                }
            ]
        }
    )

    url: str = Field(description="The address of the frame. Whoever has it can write sends for your account.")
    expires_at: str = Field(description="When it is good no more.")
