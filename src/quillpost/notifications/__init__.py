"""What the sender is told: webhooks, e-mails, text messages."""
