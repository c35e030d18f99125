"""Accounts, sub accounts and the tokens that act for them."""
