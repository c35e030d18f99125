"""Adapters of outside parties, one folder for each port; `app` chooses which are in use."""
