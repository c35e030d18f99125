"""Of every route of the service, what it needs. A route that is missing here, or there, fails a test."""

from pathlib import Path

PIECES = (
    "postcard", "windowed-letter", "windowedletter", "letter", "letter/windowed", "windowless-letter",
    "windowlessletter", "letter/windowless",
    "notecard", "giftcard", "magnacard",
)  # fmt: skip

API = """
GET    /ping                                             token
GET    /openapi.json                                     token
GET    /docs                                             token
POST   /send/{piece}                                     send:write
POST   /estimate/{piece}                                 send:write
POST   /preview                                          send:write
POST   /preview/{piece}                                  send:write
POST   /stored_send/{piece}                              send:write
POST   /embeds                                           send:write
GET    /stored_send/{piece}/{stored_id}                  send:write
POST   /stored_send/{piece}/{stored_id}                  send:write
HEAD   /stored_send/{piece}/{stored_id}                  send:write
GET    /orders/search                                    orders:read
GET    /orders/stats                                     orders:read
GET    /orders/list                                      orders:read
GET    /orders                                           orders:read
GET    /orders/{order_id}                                orders:read
PUT    /orders/{order_id}                                orders:write
GET    /orders/{order_id}/track                          orders:read
GET    /orders/{order_id}/proof                          orders:read
HEAD   /orders/{order_id}/proof                          orders:read
PUT    /orders/{order_id}/cancel                         orders:write
POST   /orders/{order_id}/cancel                         orders:write
DELETE /orders/{order_id}/cancel                         orders:write
PUT    /order/{order_id}/cancel                          orders:write
POST   /orders/{order_id}/replay                         send:write
GET    /orders/{order_id}/items                          orders:read
GET    /order-items                                      orders:read
GET    /order-items/{item_id}                            orders:read
PUT    /order-items/{item_id}/invalidate-giftcard        orders:write
PATCH  /order-items/{item_id}/invalidate-giftcard        orders:write
POST   /orders/{order_id}/release                        operator orders:write
POST   /orders/{order_id}/refuse                         operator orders:write
GET    /print/held                                       operator orders:read
GET    /print/batches                                    operator orders:read
GET    /print/batches/{batch_id}                         operator orders:read
GET    /print/batches/{batch_id}/files/{name}            operator orders:write
HEAD   /print/batches/{batch_id}/files/{name}            operator orders:write
POST   /print/batches/{batch_id}/mark                    operator orders:write
POST   /print/batches/{batch_id}/reprint                 operator orders:write
POST   /print/batches/{batch_id}/retry                   operator orders:write
POST   /print/rush                                       operator orders:write
POST   /print/pool                                       operator orders:write
POST   /mailing-lists-utils/count-radius-search          lists:read
POST   /mailing-lists/buy-radius-search                  lists:write
POST   /mailing-lists-utils/buy-radius-search            lists:write
GET    /mailing-lists                                    lists:read
POST   /mailing-lists                                    lists:write
GET    /mailing-lists/{mailing_list_id}                  lists:read
PUT    /mailing-lists/{mailing_list_id}                  lists:write
DELETE /mailing-lists/{mailing_list_id}                  lists:write
POST   /mailing-lists/{mailing_list_id}/merge            lists:write
POST   /mailing-lists/{mailing_list_id}/dedupe           lists:write
POST   /mailing-lists/{mailing_list_id}/rotate-key       lists:write
GET    /mailing-lists/{mailing_list_id}/export           lists:read
POST   /mailing-lists/{mailing_list_id}/import           lists:write
GET    /mailing-lists/{mailing_list_id}/imports          lists:read
GET    /mailing-lists/{mailing_list_id}/recipients       lists:read
GET    /mailing-lists-utils/recipients/{mailing_list_id} lists:read
POST   /imports/preview                                  lists:write
GET    /imports/{import_id}                              lists:read
POST   /imports/{import_id}/cancel                       lists:write
GET    /imports/{import_id}/rejected.csv                 lists:read
GET    /recipients                                       lists:read
POST   /recipients                                       lists:write
GET    /recipients/{recipient_id}                        lists:read
PUT    /recipients/{recipient_id}                        lists:write
DELETE /recipients/{recipient_id}                        lists:write
POST   /recipients/erase                                 lists:write
POST   /recipients/lookup                                lists:read
POST   /recipients/delete-by-address                     lists:write
POST   /recipients-utils/delete-by-address               lists:write
POST   /recipients-utils/create-multiple                 lists:write
POST   /recipients_multi                                 lists:write
GET    /handwriting-styles                               templates:read
GET    /giftcard-brands                                  templates:read
GET    /giftcard-brands-list                             templates:read
GET    /giftcard-brands/flat                             templates:read
PUT    /giftcard-brands/{brand_code}                     operator templates:write
DELETE /giftcard-brands/{brand_code}                     operator templates:write
GET    /image-templates                                  templates:read
POST   /image-templates                                  templates:write
GET    /image-templates/{template_id}                    templates:read
PUT    /image-templates/{template_id}                    templates:write
DELETE /image-templates/{template_id}                    templates:write
GET    /message-templates                                templates:read
POST   /message-templates                                templates:write
GET    /message-templates/{template_id}                  templates:read
PUT    /message-templates/{template_id}                  templates:write
DELETE /message-templates/{template_id}                  templates:write
GET    /webhooks                                         webhooks:read
POST   /webhooks                                         webhooks:write
GET    /webhooks/{webhook_id}                            webhooks:read
PUT    /webhooks/{webhook_id}                            webhooks:write
DELETE /webhooks/{webhook_id}                            webhooks:write
POST   /webhooks/{webhook_id}/pause                      webhooks:write
POST   /webhooks/{webhook_id}/resume                     webhooks:write
POST   /webhooks/{webhook_id}/test                       webhooks:write
POST   /webhooks/{webhook_id}/rotate-secret              webhooks:write
POST   /webhooks/{webhook_id}/replay                     webhooks:write
GET    /webhooks/{webhook_id}/deliveries                 webhooks:read
GET    /webhooks/{webhook_id}/deliveries/{delivery_id}   webhooks:read
POST   /webhooks/{webhook_id}/deliveries/{delivery_id}/retry webhooks:write
GET    /automations                                      send:read
POST   /automations                                      send:write
GET    /automations/{automation_id}                      send:read
PUT    /automations/{automation_id}                      send:write
DELETE /automations/{automation_id}                      send:write
POST   /automations/{automation_id}/preview              send:write
GET    /sub-accounts                                     account:read
POST   /sub-accounts                                     account:write
GET    /sub-accounts/{sub_account_id}                    account:read
PUT    /sub-accounts/{sub_account_id}                    account:write
DELETE /sub-accounts/{sub_account_id}                    account:write
GET    /account                                          account:read
"""
"""Under /api/v2, in front of all of which the gate stands: any good token, one with a scope, or an operator's
with it."""

PAGES = "".join(file.read_text() for file in sorted(Path(__file__).with_name("page_access").glob("*.txt")))
"""A file for each area. For somebody who is signed in; perhaps as an owner, or as one who runs the service,
who has given their password a short while ago. To a POST belongs the word of our own forms."""

OPEN = """
GET    /                                        nothing
GET    /docs                                    nothing
GET    /openapi.json                            nothing
GET    /assets/{name}                           nothing
GET    /health                                  nothing
GET    /ready                                   nothing
GET    /ready/live                              nothing
GET    /metrics                                 metrics
GET    /sign-in                                 nothing
POST   /sign-in                                 form
GET    /sign-in/code                            password given
POST   /sign-in/code                            password given
POST   /sign-out                                form
GET    /forgot                                  nothing
POST   /forgot                                  form
GET    /reset/{token}                           nothing
POST   /reset/{token}                           form
GET    /join/{token}                            nothing
POST   /join/{token}                            form
GET    /oauth/authorize                         nothing
POST   /oauth/token                             client
POST   /oauth/revoke                            client
GET    /.well-known/oauth-authorization-server  nothing
POST   /tokens/leaked                           nothing
GET    /files/{token}                           key
HEAD   /files/{token}                           key
GET    /art/{piece}.png                         nothing
GET    /hands/{number}.png                      nothing
GET    /giftcards/{brand_code}.png              nothing
GET    /q/{code}                                key
HEAD   /q/{code}                                key
POST   /hooks/print/{partner}                   signature
POST   /hooks/carrier/iv-mtr                    signature
GET    /hooks/lists/{api_key}                   key
POST   /hooks/lists/{api_key}                   key
GET    /receiver/{key}                          key
GET    /receiver/{key}/events                   key
GET    /receiver/{key}/hook                     key
POST   /receiver/{key}/hook                     key
GET    /unsubscribe/{token}                     key
POST   /unsubscribe/{token}                     key
GET    /stop                                    nothing
GET    /stop/{code}                             nothing
POST   /stop/{code}                             nothing
GET    /gift                                    nothing
POST   /gift                                    nothing
GET    /gift/{code}                             key
HEAD   /gift/{code}                             key
GET    /gift/{code}/visit                       key
HEAD   /gift/{code}/visit                       key
GET    /gift/{code}/claim                       nothing
HEAD   /gift/{code}/claim                       nothing
POST   /gift/{code}/claim                       key
GET    /gift/{code}/report                      key
POST   /gift/{code}/report                      key
GET    /embed/compose/{token}                   key
POST   /embed/compose/{token}                   key
POST   /embed/compose/{token}/preview           key
POST   /embed/compose/{token}/people            key
POST   /embed/compose/{token}/price             key
POST   /embed/compose/{token}/send              key
"""
"""For strangers: those that need nothing, or the word of a form of ours, or what only its holder has: a key
in the path, a client's own credentials, a signature, the operator's token for metrics, a session that awaits
the second factor."""

Route = tuple[str, str]


def _read(table: str) -> dict[Route, str]:
    rows = [line.split(maxsplit=2) for line in table.strip().splitlines()]
    return {(method, path): needs for method, path, needs in rows}


def _every_piece(rows: dict[Route, str]) -> dict[Route, str]:
    return {
        (method, f"/api/v2{path.replace('{piece}', piece)}"): needs
        for (method, path), needs in rows.items()
        for piece in (PIECES if "{piece}" in path else ("",))
    }


API_NEEDS = _every_piece(_read(API))
PAGE_NEEDS = _read(PAGES)
OPEN_NEEDS = _read(OPEN)
