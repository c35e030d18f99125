"""Which sites may show the composer within their own pages: an owner says so."""

from fastapi import APIRouter, Request, Response

from quillpost.accounts.embedding import MOST_ORIGINS, change_origins, read_origins
from quillpost.dashboard.form_pages import Filled
from quillpost.dashboard.settings.settings_pages import settings_page
from quillpost.kit.errors import Invalid
from quillpost.reception.forms import PostedForm
from quillpost.reception.show import go
from quillpost.reception.visits import ConfirmedOwner, OurParts

router = APIRouter(include_in_schema=False)

PAGE = "/settings/embed"
TEMPLATE = "settings/embed.html"
LONGEST = 10_000


@router.get(PAGE)
def sites_page(request: Request, who: ConfirmedOwner, parts: OurParts) -> Response:
    with parts.db.transaction(who.tenant) as tx:
        sites = read_origins(tx, who.here.account_id)
    form = Filled({"origins": ["\n".join(sites)]})
    return settings_page(request, TEMPLATE, who, parts, form=form, sites=sites, most=MOST_ORIGINS)


@router.post(PAGE)
def change_sites(request: Request, who: ConfirmedOwner, form: PostedForm, parts: OurParts) -> Response:
    try:
        lines = form.text("origins", most=LONGEST).splitlines()
        with parts.db.transaction(who.tenant) as tx:
            change_origins(tx, who.here.account_id, lines, who.actor, now=parts.clock())
    except Invalid as refused:
        again = Filled.back(form, refused, at="origins")
        return settings_page(request, TEMPLATE, who, parts, form=again, sites=(), most=MOST_ORIGINS)
    return go(PAGE, said="origins_changed")
