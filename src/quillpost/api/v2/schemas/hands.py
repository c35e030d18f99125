"""Handwriting styles as the API description shows them."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class HandwritingStyle(BaseModel):
    handwriting_style_id: int = Field(examples=[1])
    name: str = Field(examples=["Zeyada"])
    sample: str = Field(
        description="A PNG of one line in this hand.",
        examples=["https://mail.example.com/hands/1.png?v=0f3c5d7e9b1a"],
    )
    type: Literal["Realistic", "Bold", "International", "AI"] = Field(
        description="Those of type AI never write a letter twice alike.", examples=["AI"]
    )


class HandwritingStyles(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "data": [
                        {
                            "handwriting_style_id": 1,
                            "name": "Zeyada",
                            "sample": "https://mail.example.com/hands/1.png?v=0f3c5d7e9b1a",
                            "type": "AI",
                        }
                    ]
                }
            ]
        }
    )

    data: list[HandwritingStyle]
