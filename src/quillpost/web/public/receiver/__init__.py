"""The built-in receiver of webhooks."""
