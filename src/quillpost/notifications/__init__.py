"""Notifications of senders: webhooks, e-mails, text messages."""
