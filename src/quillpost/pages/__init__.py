"""Pages for people: templates, their style, and the policy under which browsers show them."""

from quillpost.pages.render import POLICY, page, text_of

__all__ = ["POLICY", "page", "text_of"]
