"""Of every route of the service, what it needs. A route that is missing here, or there, fails a test.

In the tables stands what is needed, then the methods, then the paths."""

import re
from pathlib import Path

PIECES = (
    "postcard", "windowed-letter", "windowedletter", "letter", "letter/windowed", "windowless-letter",
    "windowlessletter", "letter/windowless",
    "notecard", "giftcard", "magnacard",
)  # fmt: skip

API = """
token GET /ping /openapi.json /docs
send:write POST
    /send/{piece} /estimate/{piece} /preview /preview/{piece} /stored_send/{piece} /embeds /orders/{order_id}/replay
    /automations /automations/{automation_id}/preview
send:write GET,HEAD,POST /stored_send/{piece}/{stored_id}
orders:read GET
    /orders/search /orders/stats /orders/list /orders /orders/{order_id} /orders/{order_id}/track
    /orders/{order_id}/items /order-items /order-items/{item_id}
orders:write PUT /orders/{order_id} /order/{order_id}/cancel
orders:read GET,HEAD /orders/{order_id}/proof
orders:write POST,PUT,DELETE /orders/{order_id}/cancel
orders:write PUT,PATCH /order-items/{item_id}/invalidate-giftcard
operator orders:write POST
    /orders/{order_id}/release /orders/{order_id}/refuse /print/batches/{batch_id}/mark
    /print/batches/{batch_id}/reprint /print/batches/{batch_id}/retry /print/rush /print/pool
operator orders:read GET /print/held /print/batches /print/batches/{batch_id}
operator orders:write GET,HEAD /print/batches/{batch_id}/files/{name}
lists:read POST /mailing-lists-utils/count-radius-search /recipients/lookup
lists:write POST
    /mailing-lists/buy-radius-search /mailing-lists-utils/buy-radius-search /mailing-lists
    /mailing-lists/{mailing_list_id}/merge /mailing-lists/{mailing_list_id}/dedupe
    /mailing-lists/{mailing_list_id}/rotate-key /mailing-lists/{mailing_list_id}/import /imports/preview
    /imports/{import_id}/cancel /recipients /recipients/erase /recipients/delete-by-address
    /recipients-utils/delete-by-address /recipients-utils/create-multiple /recipients_multi
lists:read GET
    /mailing-lists /mailing-lists/{mailing_list_id} /mailing-lists/{mailing_list_id}/export
    /mailing-lists/{mailing_list_id}/imports /mailing-lists/{mailing_list_id}/recipients
    /mailing-lists-utils/recipients/{mailing_list_id} /imports/{import_id} /imports/{import_id}/rejected.csv
    /recipients /recipients/{recipient_id}
lists:write PUT,DELETE /mailing-lists/{mailing_list_id} /recipients/{recipient_id}
templates:read GET
    /handwriting-styles /handwriting-styles/{style_id} /signatures
    /giftcard-brands /giftcard-brands-list /giftcard-brands/flat /image-templates
    /image-templates/{template_id} /message-templates /message-templates/{template_id}
operator templates:write PUT,DELETE /giftcard-brands/{brand_code}
templates:write POST
    /image-templates /message-templates /handwriting-styles /handwriting-styles/{style_id}/accept /signatures
templates:write PUT,DELETE /image-templates/{template_id} /message-templates/{template_id}
templates:write DELETE /handwriting-styles/{style_id} /signatures/{signature_id}
webhooks:read GET
    /webhooks /webhooks/{webhook_id} /webhooks/{webhook_id}/deliveries /webhooks/{webhook_id}/deliveries/{delivery_id}
webhooks:write POST
    /webhooks /webhooks/{webhook_id}/pause /webhooks/{webhook_id}/resume /webhooks/{webhook_id}/test
    /webhooks/{webhook_id}/rotate-secret /webhooks/{webhook_id}/replay
    /webhooks/{webhook_id}/deliveries/{delivery_id}/retry
webhooks:write PUT,DELETE /webhooks/{webhook_id}
send:read GET /automations /automations/{automation_id}
send:write PUT,DELETE /automations/{automation_id}
account:read GET /sub-accounts /sub-accounts/{sub_account_id} /account
account:write POST /sub-accounts
account:write PUT,DELETE /sub-accounts/{sub_account_id}
"""
"""Under /api/v2, in front of all of which the gate stands: any good token, one with a scope, or an operator's
with it."""

PAGES = "".join(file.read_text() for file in sorted(Path(__file__).with_name("page_access").glob("*.txt")))
"""A file for each area. For somebody who is signed in; perhaps as an owner, or as one who runs the service,
who has given their password a short while ago. To a POST belongs the word of our own forms."""

OPEN = """
nothing GET
    / /docs /openapi.json /assets/{name} /health /ready /ready/live /sign-in /forgot /reset/{token} /join/{token}
    /oauth/authorize /.well-known/oauth-authorization-server /art/{piece}.png /hands/{number}.png
    /handwriting-sheet.pdf
    /giftcards/{brand_code}.png /stop
metrics GET /metrics
form POST /sign-in /sign-out /forgot /reset/{token} /join/{token}
password given GET,POST /sign-in/code
client POST /oauth/token /oauth/revoke
nothing POST /tokens/leaked
key GET,HEAD /files/{token} /q/{code} /gift/{code} /gift/{code}/visit
signature POST /hooks/print/{partner} /hooks/carrier/iv-mtr
key GET,POST
    /hooks/lists/{api_key} /receiver/{key}/hook /unsubscribe/{token} /gift/{code}/report /embed/compose/{token}
key GET /receiver/{key} /receiver/{key}/events
nothing GET,POST /stop/{code} /gift
nothing GET,HEAD /gift/{code}/claim
key POST
    /gift/{code}/claim /embed/compose/{token}/preview /embed/compose/{token}/people /embed/compose/{token}/price
    /embed/compose/{token}/send
"""
"""For strangers: those that need nothing, or the word of a form of ours, or what only its holder has: a key
in the path, a client's own credentials, a signature, the operator's token for metrics, a session that awaits
the second factor."""

Route = tuple[str, str]


def _read(table: str) -> dict[Route, str]:
    rows = re.findall(r"^(\S.*?) ([A-Z,]+)\s((?: .*\n)+|.*\n)", table, re.MULTILINE)
    return {
        (method, path): needs
        for needs, methods, paths in rows
        for method in methods.split(",")
        for path in paths.split()
    }


def _every_piece(rows: dict[Route, str]) -> dict[Route, str]:
    return {
        (method, f"/api/v2{path.replace('{piece}', piece)}"): needs
        for (method, path), needs in rows.items()
        for piece in (PIECES if "{piece}" in path else ("",))
    }


API_NEEDS = _every_piece(_read(API))
PAGE_NEEDS = _read(PAGES)
OPEN_NEEDS = _read(OPEN)
