"""Coming in and going out: signing in, joining, a forgotten password, and the session itself."""

from quillpost.dashboard.entrance import forgotten, joining, page_tokens, signing_in

ROUTERS = (signing_in.router, forgotten.router, joining.router, page_tokens.router)
