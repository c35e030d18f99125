"""Open without a login: QR redirects, gift cards, opt-outs, signed files, inbound webhooks, health."""
