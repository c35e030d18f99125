"""Sub accounts, and how their pieces look."""

from quillpost.dashboard.sub_accounts import branding, deleting, listing, sub_account_forms

# The forms' own words stand before the paths with an id: "new" is none.
ROUTERS = (listing.router, branding.router, sub_account_forms.router, deleting.router)
