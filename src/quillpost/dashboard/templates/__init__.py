"""Messages and pictures that are kept to be sent again."""

from quillpost.dashboard.templates import (
    brands,
    deleting,
    image_forms,
    listing,
    message_forms,
    message_previews,
    thumbnails,
)

# The forms' own words stand before the paths with an id: "new" is none.
ROUTERS = (
    listing.router,
    brands.router,
    message_previews.router,
    message_forms.router,
    image_forms.router,
    deleting.router,
    thumbnails.router,
)
