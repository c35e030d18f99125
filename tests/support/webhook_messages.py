"""What the data of a webhook's messages consist of."""

ORDER_KEYS = {
    "order.id", "order.status", "order.previous_status", "order.current_status", "order.metadata",
}  # fmt: skip
FLAT_KEYS = {
    "order_item.id", "order.id", "order.sub_account_id", "order_item.scans",
    "order_item.failure", "order_item.delivery_date", "order_item.previous_status",
    "order_item.current_status", "order.status",
    "recipient.name", "recipient.company", "recipient.address", "recipient.address2",
    "recipient.absentee_address", "recipient.city", "recipient.province", "recipient.postal_code",
    "recipient.country", "recipient.email", "recipient.phone",
    *(f"recipient.custom_{n}" for n in range(1, 11)),
    "qrcode.url", "order.metadata",
}  # fmt: skip
