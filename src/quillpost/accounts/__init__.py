"""Accounts and sub accounts: users, tokens, OAuth apps, billing and the audit log."""
