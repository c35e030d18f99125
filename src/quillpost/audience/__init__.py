"""Who a mailing goes to: checked, normalised, without doubles."""
