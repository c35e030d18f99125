"""What a piece costs, and the ledger of what was promised, earned and given back."""
