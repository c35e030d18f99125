"""Webhooks: events fanned out to subscriptions, signed, delivered, retried."""
