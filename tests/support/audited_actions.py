"""Where tests show that the acts of the audit log are noted."""

AUDITED_BY_CALLS = frozenset(
    {
        "sub_account.created", "sub_account.deleted", "webhook.created", "webhook.changed", "webhook.paused",
        "webhook.resumed", "webhook.secret", "webhook.deleted", "list.key", "list.exported", "person.erased",
        "order.released", "order.refused", "orders.rushed", "orders.pooled", "batch.marked",
        "batch.reprinted", "batch.retried", "print_file.downloaded", "brand.changed", "brand.retired",
        "giftcard.invalidated",
    }
)  # fmt: skip
"""Calls of the API do them: test_audited_calls.py."""

AUDITED_BY_COMMANDS = frozenset(
    {"account.created", "credit.moved", "key.new", "key.resealed", "key.forgotten", "stock.loaded", "stock.released"}
)
"""Only commands do them: the tests in `cli`."""

AUDITED_BY_OPERATORS = frozenset({"jobs.retried", "price.added", "price.withdrawn"})
"""Operators do them at the pages of the print room. All others are done by people at our pages, and by apps:
test_settings_account.py."""
