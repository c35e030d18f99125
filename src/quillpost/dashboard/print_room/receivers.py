"""Webhooks of senders that cannot be delivered to. Their owners are told by mail; an operator sees all."""

from fastapi import APIRouter, Request, Response

from quillpost.accounts import audit
from quillpost.api.needs import id_in_path
from quillpost.dashboard.paging import asked_page
from quillpost.dashboard.print_room.room_pages import ROOM, note, room_page
from quillpost.kit.errors import NotFound
from quillpost.reception.forms import PostedForm
from quillpost.reception.show import go
from quillpost.reception.visits import Operator, OurParts
from quillpost.webhooks import service
from quillpost.webhooks.store import read_webhook
from quillpost.webhooks.unwell import MOST_WAITING, list_unwell

router = APIRouter(include_in_schema=False)

PAGE = f"{ROOM}/webhooks"
US = audit.Actor("whoever runs the service")
"""As the owner's own log calls an operator."""


@router.get(PAGE)
def list_page(request: Request, who: Operator, parts: OurParts, page: str = "") -> Response:
    with parts.db.work() as tx:
        found = list_unwell(tx, who.mode, asked_page(page))
    return room_page(request, "webhooks.html", who, parts, page=found, address=PAGE, most=MOST_WAITING)


@router.post(f"{PAGE}/{{webhook_id}}/resume")
def resume(webhook_id: str, who: Operator, _form: PostedForm, parts: OurParts) -> Response:
    """Its owner sees in their log that it was not one of them."""
    now = parts.clock()
    with parts.db.work() as tx:
        webhook = read_webhook(tx, id_in_path(webhook_id), locked=True)
        if webhook.mode != who.mode:
            raise NotFound
        if webhook.status in ("failing", "disabled"):
            service.resume(tx, webhook.id, now=now)
            about = {"id": webhook.id, "name": f"webhook {webhook.id}", "mode": webhook.mode}
            audit.note(
                tx,
                webhook.account_id,
                "webhook.resumed",
                US,
                about=about,
                sub_account_id=webhook.sub_account_id,
                now=now,
            )
            if webhook.account_id != who.here.account_id:
                note(tx, who, parts, "webhook.resumed", about)
    return go(PAGE, said="receiver_resumed")
