"""The page on which a file of people is imported. It calls the API with a token of its reader's session."""

from fastapi import APIRouter, Request, Response

from quillpost.reception.show import show
from quillpost.reception.visits import Reader

router = APIRouter(include_in_schema=False)


@router.get("/lists/import")
def import_page(request: Request, who: Reader) -> Response:
    return show(request, "import.html", who=who)
