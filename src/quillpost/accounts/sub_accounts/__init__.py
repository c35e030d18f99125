"""Sub accounts: clients of an account, with their own branding and return address."""
