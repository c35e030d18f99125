"""Prices, credit and the ledger."""
