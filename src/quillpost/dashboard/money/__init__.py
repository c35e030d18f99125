"""Money: the ledger, the prices, the credit."""

from quillpost.dashboard.money import ledger, overview, price_list

ROUTERS = (overview.router, ledger.router, price_list.router)
