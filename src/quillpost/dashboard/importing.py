"""The page on which a file of people is imported. It calls the API with a token that its reader gives."""

from fastapi import APIRouter, Request, Response

from quillpost import pages

router = APIRouter(include_in_schema=False)


@router.get("/lists/import")
def import_page(request: Request) -> Response:
    return pages.page(pages.text_of("import.html", release=request.app.state.release))
