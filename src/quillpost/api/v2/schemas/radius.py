"""What radius searches answer, as the API description shows it."""

from pydantic import BaseModel, ConfigDict, Field

from quillpost.api.v2.schemas.common import Money


class RadiusCount(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"message": "success", "count": 100, "leads_fee": 500}]}
    )

    message: str
    count: int = Field(description="How many there are, at most as many as were asked for.")
    leads_fee: Money


class RadiusBought(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "message": "success",
                    "mailing_list_id": 14,
                    "count": 100,
                    "leads_fee": 500,
                    "failure": False,
                }
            ]
        }
    )

    message: str
    mailing_list_id: int = Field(description="The list that they are on.")
    count: int = Field(description="How many were bought.")
    leads_fee: Money
    failure: bool


class RadiusPreviewData(BaseModel):
    count: int = Field(description="How many addresses there are.")
    leads_fee: Money
    unit_price: Money
    estimated_total: Money
    warnings: list[str] = Field(description="What deserves a look; X-Warnings says the same.")


class RadiusPreview(BaseModel):
    """What a send with `radius_search.preview` = true answers: no order is made."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "success": True,
                    "code": 200,
                    "message": "OK",
                    "data": {
                        "count": 100,
                        "leads_fee": 500,
                        "unit_price": 109,
                        "estimated_total": 11400,
                        "warnings": [],
                    },
                }
            ]
        }
    )

    success: bool
    code: int
    message: str
    data: RadiusPreviewData
